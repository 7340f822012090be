"""Metrics of pieces against plain implementations, against muspy on written files, and where the answer is known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from music_oracle import TRACKS, random_piece, slow_bar_similarity, slow_measure

from musicgen.evaluation.music.metrics import (
    METRICS,
    bar_contents,
    bar_similarity,
    bars_of,
    cropped,
    measure,
    on_grid,
)
from musicgen.languages import ExtendedRemi, Groove, Remi, TokenError
from musicgen.languages.groove.synthetic import compose_groove
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.score import Score, TimeSignature, Track, make_notes
from musicgen.midi.write import clean, write_midi

PIANO = (Track("Piano"),)


def piece(notes: list[tuple[int, int, int]], tracks: tuple[Track, ...] = PIANO, track: int = 0) -> Score:
    """Notes of (start, end, pitch) at 24 ticks per beat."""
    starts, ends, pitches = (list(column) for column in zip(*notes, strict=True))
    return Score(24, make_notes(starts, ends, pitches, 64, track), tracks, time_signatures=(TimeSignature(0, 4, 4),))


@pytest.mark.parametrize("seed", range(8))
def test_every_metric_is_what_it_says_it_is(seed: int) -> None:
    score = random_piece(seed, tracks=TRACKS if seed % 2 else PIANO)
    values = measure(score)
    assert list(values) == list(METRICS)[:-1]
    assert values == pytest.approx(slow_measure(score), nan_ok=True, abs=1e-12)
    similarity = bar_similarity(bar_contents(score))
    assert similarity == pytest.approx(slow_bar_similarity(score), nan_ok=True)


def test_muspy_reads_the_same_from_a_written_file(tmp_path: Path) -> None:
    import muspy

    for number, score in enumerate((on_grid(compose(3, 8)), on_grid(compose_groove(2, 1, 8)))):
        score = clean(score)
        write_midi(score, tmp_path / f"{number}.mid")
        music = muspy.read_midi(tmp_path / f"{number}.mid")
        values = measure(score)
        assert music.resolution == 24
        assert values["pitch range"] == muspy.pitch_range(music)
        assert values["pitches used"] == muspy.n_pitches_used(music)
        assert values["pitch entropy"] == pytest.approx(muspy.pitch_entropy(music))
        assert values["scale consistency"] == pytest.approx(muspy.scale_consistency(music))
        assert values["polyphony"] == pytest.approx(muspy.polyphony(music))
        assert values["polyphony rate"] == pytest.approx(muspy.polyphony_rate(music))
        assert values["empty-beat rate"] == pytest.approx(muspy.empty_beat_rate(music))
        expected = muspy.drum_pattern_consistency(music)
        assert values["drum pattern consistency"] == pytest.approx(expected, nan_ok=True)


def test_a_scale_has_the_entropy_and_the_consistency_of_a_scale() -> None:
    pitches = [60, 62, 64, 65, 67, 69, 71, 72]
    values = measure(piece([(24 * place, 24 * place + 24, pitch) for place, pitch in enumerate(pitches)]))
    assert values["pitch entropy"] == pytest.approx(3.0)
    assert values["pitch-class entropy"] == pytest.approx(-(0.25 * math.log2(0.25) + 6 * 0.125 * math.log2(0.125)))
    assert (values["scale consistency"], values["polyphony"], values["polyphony rate"]) == (1.0, 1.0, 0.0)
    assert (values["pitch range"], values["pitch classes used"]) == (12, 7)
    assert (values["notes per bar"], values["note duration"]) == (4, 1)
    assert values["groove consistency"] == values["groove similarity"] == 1
    assert values["bars repeated at once"] == 0


def test_a_loop_of_four_bars_is_seen_at_distances_of_four() -> None:
    loop = [(96 * bar, 96 * bar + 24, 60 + bar % 4) for bar in range(16)]
    contents = bar_contents(piece(loop))
    similarity = bar_similarity(contents)
    assert similarity[[3, 7, 11]].tolist() == [1, 1, 1]
    assert np.delete(similarity[:15], [3, 7, 11]).max() == 0
    assert np.isnan(similarity[15])
    values = measure(piece(loop))
    assert values["bars repeated at once"] == 0
    assert values["bars repeated within 8"] == pytest.approx(12 / 15)


def test_a_note_that_lasts_to_the_end_of_the_last_bar_makes_no_bar_more() -> None:
    """muspy would count an empty bar after it, unlike the others."""
    full = piece([(96 * bar + 24 * beat, 96 * bar + 24 * beat + 24, 60) for bar in range(3) for beat in range(4)])
    assert measure(full)["groove consistency"] == 1


def test_drums_alone_have_no_pitches_and_pianos_no_drums() -> None:
    drums = measure(piece([(0, 6, 36), (24, 30, 38), (100, 106, 36)], (Track("Drums", 0, True),)))
    for name in [*list(METRICS)[:8], "note duration"]:
        assert math.isnan(drums[name]), name
    assert drums["drum pattern consistency"] == pytest.approx(2 / 3)
    assert math.isnan(measure(piece([(0, 6, 60)]))["drum pattern consistency"])


def test_one_bar_has_no_other_to_be_like() -> None:
    values = measure(piece([(0, 24, 60), (24, 48, 62)]))
    for name in ("groove consistency", "groove similarity", "bars repeated at once", "bars repeated within 8"):
        assert math.isnan(values[name]), name


def test_the_grid_holds_both_languages_exactly_and_begins_with_the_first_bar_that_sounds() -> None:
    late = Score(480, make_notes([1920 * 2 + 120, 1920 * 2 + 240], [1920 * 2 + 180, 1920 * 3], [60, 62], 64))
    for language in (None, Remi()):
        notes = on_grid(late, language).notes
        assert notes["start"].tolist() == [6, 12]
        assert notes["end"].tolist() == [9, 96]
    trio = Score(12, make_notes([48 + 4], [48 + 5], [40], 64), (Track("Bass", 33),))
    notes = on_grid(trio, Groove()).notes
    assert (notes["start"].tolist(), notes["end"].tolist()) == ([8], [10])


def test_the_language_of_the_reference_says_what_is_kept() -> None:
    score = compose_groove(0, 0, 8)
    assert not on_grid(score, Remi()).is_drum(on_grid(score, Remi()).notes).any()
    assert len(on_grid(score, Groove()).tracks) == 3
    assert len(on_grid(score).notes) == len(score.notes)


def test_bars_follow_the_metre() -> None:
    """The same waltz bar again and again, and then the same bar of 4/4."""
    starts = [*range(0, 4 * 72, 24), *range(4 * 72, 4 * 72 + 3 * 96, 96)]
    metres = (TimeSignature(0, 3, 4), TimeSignature(4 * 72, 4, 4))
    waltz = Score(
        24, make_notes(starts, [tick + 12 for tick in starts], [60] * len(starts), 64), time_signatures=metres
    )
    score = on_grid(waltz, ExtendedRemi())
    assert bars_of(score) == 7
    assert bar_contents(score).sum(1).tolist() == [3, 3, 3, 3, 1, 1, 1]
    assert measure(score)["groove similarity"] == 1
    assert measure(score)["bars repeated at once"] == 5 / 6
    assert bars_of(cropped(score, 5)) == 5
    with pytest.raises(TokenError, match="not in 4/4"):
        on_grid(waltz, Remi())


def test_cropping_ends_what_sounds_at_the_end() -> None:
    score = cropped(piece([(0, 300, 60), (95, 97, 62), (96, 120, 64)]), 1)
    assert score.notes["end"].tolist() == [96, 96]
    assert bars_of(score) == 1
