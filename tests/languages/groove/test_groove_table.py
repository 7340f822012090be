"""A table has every instrument of an accompaniment, on the grid, from its first bar on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from grooves import later

from musicgen.languages import TokenError
from musicgen.languages.groove.synthetic import compose_groove
from musicgen.languages.groove.table import BAR, make_table
from musicgen.midi.parts import parts
from musicgen.midi.read import read_midi
from musicgen.midi.score import Score, TimeSignature, Track, make_notes

SCORE = compose_groove(0, 0, 8)


def test_an_accompaniment_on_the_grid_is_kept_as_it_is() -> None:
    table = make_table(SCORE)
    played = SCORE.notes
    order = np.lexsort((played["pitch"], played["start"], played["track"]))
    for name, unit in (("start", 40), ("end", 40), ("pitch", 1), ("velocity", 1), ("track", 1)):
        assert np.array_equal(table.notes[name], played[name][order] // unit)
    assert (table.bars, table.counted) == (8, 0)
    assert [track.part for track in table.instruments][:3] == ["bass", "drums", "other"]
    assert [track.notes for track in table.instruments] == np.bincount(played["track"]).tolist()


@pytest.mark.parametrize("bars", [1, 2, 5])
def test_bars_before_the_first_note_are_left_out(bars: int) -> None:
    assert np.array_equal(make_table(later(SCORE, bars)).notes, make_table(SCORE).notes)


@pytest.mark.parametrize(
    ("bars", "onsets", "pitch", "counted"),
    [
        (1, [0, 480, 960, 1440], 37, 1),
        (2, [0, 960, 1920, 2400, 2880, 3360], 42, 2),
        (2, [0, 480, 960, 1440], 37, 0),  # nothing in its second bar
        (1, [0, 240, 480, 960, 1440], 37, 0),  # too many for a count
        (1, [0, 480, 960, 1440], 36, 0),  # a bass drum plays, it does not count
        (3, [0, 1920, 3840], 37, 0),  # nobody counts so long
    ],
)
def test_a_count_in_is_left_out_and_a_drum_intro_is_not(bars: int, onsets: list[int], pitch: int, counted: int) -> None:
    clicks = make_notes(onsets, [onset + 40 for onset in onsets], [pitch] * len(onsets), 90, 1)
    table = make_table(later(SCORE, bars, clicks))
    assert table.counted == counted
    assert table.bars == 8 + bars - counted


def test_a_known_count_in_goes_with_all_that_begins_in_it() -> None:
    early = make_notes([0, 3800], [10, 9000], [36, 50], 90, [1, 2])
    table = make_table(later(SCORE, 2, early), counted=2)
    assert np.array_equal(table.notes, make_table(SCORE).notes)
    assert table.counted == 2


def test_basses_are_one_instrument_and_so_are_drums_and_others_of_one_name_and_program() -> None:
    tracks = (
        Track("Piano", 0), Track("Walk", 32), Track("Kit", 0, is_drum=True), Track("Bass", 33),
        Track("Piano", 0), Track("Bongos", 0, is_drum=True), Track("Organ", 16),
    )  # fmt: skip
    start = np.arange(70) * 480
    notes = make_notes(start, start + 480, [60, 40, 36, 41, 64, 60, 67] * 10, 64, [0, 1, 2, 3, 4, 5, 6] * 10)
    table = make_table(Score(480, notes, tracks))
    assert [(track.part, track.notes) for track in table.instruments] == [
        ("bass", 20), ("drums", 20), ("other", 20), ("other", 10),
    ]  # fmt: skip
    assert [track.name for track in table.instruments][2:] == ["Piano", "Organ"]


def test_notes_last_a_tick_twins_are_one_and_a_pitch_is_struck_once_at_a_time() -> None:
    notes = make_notes(
        [0, 0, 5, 480, 0], [1, 900, 3, 490, 480], [36, 36, 36, 36, 40], [10, 90, 20, 30, 64], [0, 0, 0, 0, 1]
    )
    table = make_table(Score(480, notes, (Track("Kit", 0, is_drum=True), Track("Bass", 33))))
    drums = table.notes[table.notes["track"] == 1]
    assert drums["start"].tolist() == [0, 12]
    assert drums["end"].tolist() == [12, 13]
    assert drums["velocity"].tolist() == [90, 30]


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (SCORE.replace(time_signatures=(TimeSignature(0, 3, 4),)), "not in 4/4"),
        (SCORE.replace(notes=SCORE.notes[:0]), "no notes"),
        (SCORE.replace(notes=SCORE.notes[SCORE.notes["track"] == 1]), "only drums"),
        (SCORE.replace(notes=SCORE.notes[SCORE.notes["track"] > 1]), "only other"),
    ],
)
def test_what_is_no_accompaniment_is_refused_with_the_reason(score: Score, reason: str) -> None:
    with pytest.raises(TokenError, match=reason):
        make_table(score)


def test_nothing_but_a_count_in_is_refused() -> None:
    with pytest.raises(TokenError, match="none of them"):
        make_table(SCORE, counted=8)


def test_real_accompaniments_keep_their_notes(real_data: Callable[[str], Path]) -> None:
    for path in sorted(real_data("grooves").rglob("*.mid"))[::100]:
        score = read_midi(path)
        table = make_table(score)
        assert table.counted == 0  # they have none
        assert 0.9 * len(score.notes) <= len(table.notes) <= len(score.notes)
        assert {track.part for track in table.instruments} == set(parts(score))
        assert table.notes["start"].max() < table.bars * BAR
        assert 63 <= table.bars <= 65


def test_others_that_share_a_title_are_told_apart_by_their_programs() -> None:
    titled = (Track("Title", 33), Track("Title", 0, True), Track("Title", 4), Track("Title", 25), Track("Title", 4))
    notes = make_notes([0, 0, 0, 0, 480], [480] * 4 + [960], [40, 36, 60, 64, 67], 90, [0, 1, 2, 3, 4])
    table = make_table(Score(480, notes, titled))
    assert [tuple(track) for track in table.instruments] == [
        ("bass", "Title", 33, 1), ("drums", "Title", 0, 1), ("other", "Title", 4, 2), ("other", "Title", 25, 1),
    ]  # fmt: skip
