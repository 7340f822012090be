"""Style similarity: against a slow oracle, and where the answer is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from style_oracle import (
    TRACKS,
    empty,
    published_onset_duration,
    random_score,
    slow_cosine,
    slow_onset_duration,
    slow_onset_pitch,
    slow_time_pitch,
)

from musicgen.evaluation.style.histograms import cosine, onset_duration, onset_pitch, time_pitch
from musicgen.evaluation.style.similarity import (
    METRICS,
    by_part,
    halves,
    over_parts,
    pool,
    quarters,
    similarity,
    style,
)
from musicgen.midi.read import parse_file
from musicgen.midi.score import Score, Track, make_notes


def moved(score: Score, ticks: int = 0, semitones: int = 0) -> Score:
    notes = score.notes.copy()
    notes["start"] += ticks
    notes["end"] += ticks
    notes["pitch"] += semitones
    return score.replace(notes=notes)


def one_part(score: Score, name: str = "other") -> Score:
    """All notes of a score on one track."""
    notes = score.notes.copy()
    notes["track"] = ["other", "bass", "drums"].index(name)
    return score.replace(notes=notes)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1 << 30), st.sampled_from([1, 5, 12, 24, 100, 192, 480]), st.integers(0, 60))
def test_histograms_are_those_of_the_oracle(seed: int, ticks_per_beat: int, size: int) -> None:
    notes = random_score(seed, size, ticks_per_beat).notes
    assert np.array_equal(time_pitch(notes, ticks_per_beat), slow_time_pitch(notes, ticks_per_beat))
    assert np.array_equal(onset_duration(notes, ticks_per_beat), slow_onset_duration(notes, ticks_per_beat))
    assert np.array_equal(onset_pitch(notes, ticks_per_beat), slow_onset_pitch(notes, ticks_per_beat))


def test_histograms_of_real_music_are_those_of_the_oracle(real_data: Callable[[str], Path]) -> None:
    for path in sorted(real_data("grooves").rglob("*.mid"))[::300]:
        score = parse_file(path)
        for notes in by_part(score).values():
            few, ticks = notes[:200], score.ticks_per_beat
            assert np.array_equal(time_pitch(few, ticks), slow_time_pitch(few, ticks))
            assert np.array_equal(onset_duration(few, ticks), slow_onset_duration(few, ticks))
            assert np.array_equal(onset_pitch(few, ticks), slow_onset_pitch(few, ticks))


def test_the_order_of_notes_is_no_matter() -> None:
    notes = random_score(0).notes
    assert np.array_equal(time_pitch(notes[::-1], 24), time_pitch(notes, 24))


def test_pairs_that_are_counted_by_hand() -> None:
    notes = make_notes([0, 0, 6, 48], [1, 1, 1, 1], [60, 64, 85, 60], 64)  # at twelve ticks per beat
    counts = time_pitch(notes, 12)
    # Together, both ways; 64 to 85 is 21 semitones and 60 to 85 is 25; four beats are too late, and 3.5 fall by 25.
    assert {(lag, interval - 20): counts[lag, interval] for lag, interval in np.argwhere(counts)} == {
        (0, 4): 1,
        (0, -4): 1,
    }
    notes["pitch"][2] = 65
    counts = time_pitch(notes, 12)
    assert {(lag, interval - 20): counts[lag, interval] for lag, interval in np.argwhere(counts)} == {
        (0, 4): 1,
        (0, -4): 1,
        (3, 5): 1,
        (3, 1): 1,
        (21, -5): 1,
    }


@pytest.mark.parametrize("ticks_per_beat", [6, 7, 12, 96, 101, 480, 32767])
def test_a_note_on_the_edge_of_a_bin_is_in_the_bin_that_begins_there(ticks_per_beat: int) -> None:
    for number in range(24):
        edge = -(-number * ticks_per_beat // 6)  # the first tick of the bin
        notes = make_notes([edge], [edge + 1], [60], 64)
        assert np.argwhere(onset_pitch(notes, ticks_per_beat)).tolist() == [[number, 60]]
        pair = make_notes([0, edge], [1, edge + 1], [60, 61], 64)
        if number:
            assert np.argwhere(time_pitch(pair, ticks_per_beat)).tolist() == [[number, 21]]


@given(st.lists(st.integers(0, 5), min_size=4, max_size=4), st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_the_cosine_is_that_of_the_oracle(one: list[int], other: list[int]) -> None:
    a, b = np.array(one).reshape(2, 2), np.array(other).reshape(2, 2)
    if not a.any() or not b.any():
        assert math.isnan(cosine(a, b))
    else:
        assert cosine(a, b) == pytest.approx(slow_cosine(a, b))
        assert 0 <= cosine(a, b) <= 1


@pytest.mark.parametrize("published", [False, True])
def test_a_piece_is_in_its_own_style(published: bool) -> None:
    score = random_score(1, 300)
    own = similarity(style(score, published), style(score, published))
    assert own == {key: pytest.approx(1.0) for key in own}
    assert list(own) == [(metric, part) for metric, names in METRICS.items() for part in names]


def test_what_a_change_to_a_piece_does_to_its_similarity() -> None:
    score = one_part(random_score(2, 100))
    own = style(score)
    transposed = similarity(own, style(moved(score, semitones=5)))
    assert transposed["time_pitch", "other"] == pytest.approx(1)
    assert transposed["onset_duration", "other"] == pytest.approx(1)
    bar_later = similarity(own, style(moved(score, ticks=4 * 24)))
    assert bar_later["time_pitch", "other"] == pytest.approx(1)
    assert bar_later["onset_duration", "other"] == pytest.approx(1)
    half_a_bar_later = similarity(own, style(moved(score, ticks=2 * 24)))
    assert half_a_bar_later["time_pitch", "other"] == pytest.approx(1)
    assert half_a_bar_later["onset_duration", "other"] < 0.9


def test_drums_are_compared_by_pitch_and_place_and_by_nothing_else() -> None:
    score = one_part(random_score(3), "drums")
    longer = score.notes.copy()
    longer["end"] += 100
    assert similarity(style(score), style(score.replace(notes=longer)))["onset_drum", "drums"] == pytest.approx(1)
    other = similarity(style(score), style(moved(score, semitones=1)))
    assert other["onset_drum", "drums"] < 0.9
    assert math.isnan(other["time_pitch", "other"])


def test_the_time_base_of_a_file_is_no_matter() -> None:
    score = random_score(4, 100, ticks_per_beat=12)
    notes = score.notes.copy()
    notes["start"] *= 40
    notes["end"] *= 40
    finer = Score(480, notes, TRACKS)
    for published in (False, True):
        assert same(style(score, published), style(finer, published))
        for ours, theirs in zip(quarters(score, 47, published), quarters(finer, 47 * 40, published), strict=True):
            assert same(ours, theirs)


def same(one: dict[tuple[str, str], np.ndarray], other: dict[tuple[str, str], np.ndarray]) -> bool:
    return all(np.array_equal(one[key], other[key]) for key in one)


def test_parts_are_judged_apart_and_then_averaged() -> None:
    score = random_score(5, 200)
    changed = score.notes.copy()
    is_bass = changed["track"] == 1
    changed["start"][is_bass] += 7
    changed["end"][is_bass] += 11
    values = similarity(style(score), style(score.replace(notes=changed)))
    assert values["onset_duration", "other"] == pytest.approx(1)
    assert values["onset_duration", "bass"] < 0.9
    mean = (values["onset_duration", "other"] + values["onset_duration", "bass"]) / 2
    assert over_parts(values)["onset_duration"] == pytest.approx(mean)


def test_an_empty_part_has_no_similarity_and_is_left_out_of_means() -> None:
    score = random_score(6)
    without = score.replace(notes=score.notes[score.notes["track"] != 1])
    values = similarity(style(score), style(without))
    assert math.isnan(values["time_pitch", "bass"])
    assert over_parts(values)["time_pitch"] == pytest.approx(1)
    nothing = similarity(style(score), style(score.replace(notes=empty())))
    assert all(math.isnan(value) for value in nothing.values())
    assert all(math.isnan(value) for value in over_parts(nothing).values())


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1 << 30), st.integers(0, 200), st.integers(0, 90))
def test_quarters_share_out_the_notes(seed: int, first: int, size: int) -> None:
    score = random_score(seed, size)
    kept = score.notes[score.notes["start"] >= first]
    whole = style(score.replace(notes=kept))
    split = quarters(score, first)
    assert len(split) == 4
    for key in whole:
        if key[0] != "time_pitch":  # pairs go over the edges
            assert np.array_equal(pool(split)[key], whole[key])
        assert (pool(split)[key] <= whole[key]).all()


def test_quarters_are_half_open_and_of_the_length_of_the_whole_piece() -> None:
    # Sixteen beats of drums, and of another part that ends sooner; it has a note at each edge.
    other = make_notes([0, 47, 48, 96, 144], [12, 50, 60, 108, 160], [60, 61, 62, 63, 64], 64, 0)
    drums = make_notes([0], [192], [36], 64, 2)
    score = Score(12, np.concatenate([other, drums]), TRACKS)
    found = [split["onset_duration", "other"].sum() for split in quarters(score)]
    assert found == [2, 1, 1, 1]
    later = quarters(score, first=96)  # eight beats, of which each quarter has two
    assert [split["onset_duration", "other"].sum() for split in later] == [1, 0, 1, 0]
    # The place in the bar is that of the file.
    assert np.argwhere(quarters(score, first=47)[0]["onset_duration", "other"])[:, 0].tolist() == [0, 23]


def test_halves_are_of_bars() -> None:
    score = Score(12, make_notes([0, 47, 48, 96, 144], [1, 48, 49, 97, 145], [60, 61, 62, 63, 64], 64), TRACKS)
    assert [half["onset_duration", "other"].sum() for half in halves(score)] == [3, 2]


def test_several_pieces_are_counted_together() -> None:
    one, other = style(random_score(7)), style(random_score(8))
    both = pool([one, other])
    assert same(both, {key: one[key] + other[key] for key in one})


def test_parts_are_told_apart() -> None:
    tracks = (Track("Piano"), Track("x", 32), Track("Bass"), Track("y", 39), Track("Drums", 0, True), Track("z", 40))
    score = Score(12, make_notes([0] * 6, [1] * 6, [60, 40, 40, 40, 36, 60], 64, [0, 1, 2, 3, 4, 5]), tracks)
    found = {name: sorted(notes["track"].tolist()) for name, notes in by_part(score).items()}
    assert found["drums"] == [4]
    assert {1, 3} <= set(found["bass"])
    assert {0, 5} <= set(found["other"])
    assert sum(map(len, found.values())) == 6


class TestPublished:
    """Figures of the published code, mistakes included."""

    @given(st.integers(0, 1 << 30))
    def test_onsets_in_ticks_are_put_into_bins_of_beats(self, seed: int) -> None:
        notes = random_score(seed, 80, ticks_per_beat=12, bars=2).notes
        assert np.array_equal(onset_duration(notes, 12, published=True), published_onset_duration(notes))

    def test_by_hand(self) -> None:
        start = np.array([0, 1, 2, 3, 4, 5, 47, 48])
        notes = make_notes(start, start + np.array([1, 1, 1, 1, 24, 1, 1, 25]), [36] * 8, 64)
        counts = onset_duration(notes, 12, published=True)
        assert np.argwhere(counts).tolist() == [[0, 0], [6, 0], [12, 0], [18, 0], [23, 11]]
        assert counts.sum() == 5  # ticks 5 and 47 are no beats of the bar, 25 ticks are longer than two beats
        assert np.argwhere(onset_pitch(notes, 12, published=True))[:, 0].tolist() == [0, 6, 12, 18, 23]
        assert onset_duration(notes, 12).sum() == 6  # of all, but for those of two beats and more

    def test_notes_between_quarters_are_in_both_and_quarters_are_of_the_track(self) -> None:
        start = np.array([0, 48, 96, 97, 191])
        other = make_notes(start, start + 1, [60] * 5, 64, 0)
        drums = make_notes([0], [500], [36], 64, 2)
        score = Score(12, np.concatenate([other, drums]), TRACKS)
        lengths = [split["time_pitch", "other"].sum() for split in quarters(score, published=True)]
        # Quarters of 48 ticks: {0, 48}, {48, 96}, {96, 97}, {191}; a lag of four beats is no lag.
        assert lengths == [0, 0, 1, 0]
        onsets = [split["onset_duration", "other"].sum() for split in quarters(score, published=True)]
        assert onsets == [2, 2, 2, 0]  # tick 97 is tick 1 of a bar, 191 is none that counts

    def test_one_of_the_other_instruments_is_taken(self) -> None:
        tracks = (Track("Piano"), Track("Guitar", 25), Track("Strings", 48))
        score = Score(12, make_notes([0, 0, 12, 0], [6, 6, 18, 6], [60, 62, 64, 65], 64, [0, 1, 1, 2]), tracks)
        assert by_part(score, published=True)["other"]["track"].tolist() == [1, 1]
        assert len(by_part(score)["other"]) == 4

    def test_other_time_bases_are_rounded_to_twelfths(self) -> None:
        score = Score(480, make_notes([19, 20, 1900], [40, 40, 1920], [60, 61, 62], 64), TRACKS)
        counts = style(score, published=True)["onset_duration", "other"]
        assert np.argwhere(counts).tolist() == [[0, 0], [6, 0]]  # ticks 0, 1 and 48, which is 0 again
        assert counts[0, 0] == 2
