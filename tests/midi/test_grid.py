"""A performance, put on its annotated beats, is the piece that was performed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from musicgen.languages.remi.quantise import quantise
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.chord import Chord
from musicgen.midi.grid import to_grid
from musicgen.midi.pop909 import load_pop909
from musicgen.midi.score import BEAT, ChordMark, Score, TimeSignature, make_notes, make_tempos

BARS = 12
TICKS_PER_SECOND = 960
"""Of a performance: 480 ticks per beat at the 120 beats per minute that MIDI has by default."""


def steady(beats: int, seconds: float = 0.6) -> NDArray[np.float64]:
    return 1.3 + seconds * np.arange(beats)


def played_freely(seed: int, beats: int) -> NDArray[np.float64]:
    """When beats come: each up to a third slower or faster than the one before."""
    random = np.random.default_rng(seed)
    return random.uniform(0, 3) + np.cumsum(np.clip(np.cumprod(random.uniform(0.75, 1.33, beats)), 0.4, 1.1))


def perform(piece: Score, times: NDArray[np.float64], downbeats: set[int], heard: slice = slice(None)) -> Score:
    """A recording of a piece in which beat i comes at `times[i]`, and the beats that somebody annotated."""
    beats = np.arange(len(times))
    ticks = lambda values: np.rint(  # noqa: E731
        np.interp(np.asarray(values) / piece.ticks_per_beat, beats, times) * TICKS_PER_SECOND
    ).astype(np.int64)
    annotated = np.empty(len(times), BEAT)
    annotated["tick"], annotated["is_downbeat"] = ticks(beats * piece.ticks_per_beat), [i in downbeats for i in beats]
    notes = make_notes(
        ticks(piece.notes["start"]), ticks(piece.notes["end"]), piece.notes["pitch"], piece.notes["velocity"]
    )
    chords = tuple(ChordMark(int(ticks(mark.tick)), mark.chord) for mark in piece.chords)
    return Score(480, notes, tempos=make_tempos([(0, 120.0)]), chords=chords, beats=annotated[heard])


def quarters(beats: int, missing: set[int] = frozenset()) -> Score:  # type: ignore[assignment]
    """A note on every beat, its pitch the number of the beat, short enough to be of that beat alone."""
    start = np.array([beat for beat in range(beats) if beat not in missing]) * 480
    chords = tuple(ChordMark(bar * 1920, Chord(bar % 12, "M")) for bar in range(beats // 4))
    return Score(480, make_notes(start, start + 240, 30 + start // 480, 64), chords=chords)


def same_music(grid: Score, piece: Score) -> bool:
    ours, theirs = quantise(grid)[0], quantise(piece)[0]
    return np.array_equal(ours.notes, theirs.notes) and ours.chords == theirs.chords


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1 << 32), st.integers(0, 1 << 32))
def test_a_performance_gives_back_the_piece_however_freely_it_was_played(piece_seed: int, seed: int) -> None:
    piece = compose(piece_seed, BARS)
    times = played_freely(seed, 4 * BARS + 5)
    grid = to_grid(perform(piece, times, set(range(0, len(times), 4))))
    assert same_music(grid, piece)
    assert grid.time_signatures == (TimeSignature(0, 4, 4),)
    assert not len(grid.beats)
    beats = np.arange(len(times) - 1)
    assert grid.tempos["tick"].tolist() == (480 * beats).tolist()
    assert grid.tempos["bpm"] == pytest.approx(60 / np.diff(times), rel=0.01)
    assert grid.seconds(480 * beats) == pytest.approx(times[:-1] - times[0], abs=0.01)


@pytest.mark.parametrize("unheard", range(8))
def test_beats_that_were_not_heard_before_the_first_are_made_up(unheard: int) -> None:
    piece = compose(5, BARS)
    times = steady(4 * BARS + 1)
    grid = to_grid(perform(piece, times, set(range(0, len(times), 4)), slice(unheard, None)))
    assert same_music(grid, piece)
    assert (grid.notes["start"] >= 0).all()
    assert grid.tempos["tick"][0] == 0


@pytest.mark.parametrize("unheard", range(1, 6))
def test_music_after_the_last_beat_that_was_heard_goes_on_at_its_pace(unheard: int) -> None:
    piece = compose(6, BARS)
    times = steady(4 * BARS + 1)
    assert same_music(to_grid(perform(piece, times, set(range(0, len(times), 4)), slice(-unheard))), piece)


@pytest.mark.parametrize("pickup", [1, 2, 3])
def test_a_pickup_comes_before_a_bar_line(pickup: int) -> None:
    piece = quarters(33, missing=set(range(4 - pickup)))
    times = played_freely(pickup, 33)
    grid = to_grid(perform(piece, times, set(range(0, 33, 4)), slice(4 - pickup, None)))
    assert grid.notes["start"].tolist() == piece.notes["start"].tolist()


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_pickup_before_the_first_beat_that_was_heard_comes_before_a_bar_line(first: int) -> None:
    piece = quarters(33, missing=set(range(first)))
    grid = to_grid(perform(piece, steady(33), set(range(0, 33, 4)), slice(4, None)))
    assert grid.notes["start"].tolist() == piece.notes["start"].tolist()
    assert grid.chords[1:] == piece.chords[1:]


@pytest.mark.parametrize("lost", [1, 2, 3])
@pytest.mark.parametrize("bar", [1, 3])
def test_a_bar_that_is_really_short_is_filled_with_rests(bar: int, lost: int) -> None:
    piece = quarters(32, missing=set(range(4 * bar + 4 - lost, 4 * bar + 4)))
    performed = piece.notes.copy()  # the beats that are lost take no time
    later = performed["start"] >= 480 * (4 * bar + 4)
    performed["start"][later] -= 480 * lost
    performed["end"][later] -= 480 * lost
    line = 480 * (4 * bar + 4)
    chords = tuple(mark._replace(tick=mark.tick - 480 * lost * (mark.tick >= line)) for mark in piece.chords)
    downbeats = {beat if beat <= 4 * bar else beat - lost for beat in range(0, 32, 4)}
    times = played_freely(bar, 32 - lost)
    grid = to_grid(perform(piece.replace(notes=performed, chords=chords), times, downbeats))
    assert grid.notes["start"].tolist() == piece.notes["start"].tolist()
    assert grid.notes["pitch"].tolist() == piece.notes["pitch"].tolist()
    assert grid.chords == piece.chords
    assert grid.tempos["tick"].tolist() == [480 * beat for beat in range(31) if beat not in piece_rests(piece)]


def piece_rests(piece: Score) -> set[int]:
    return set(range(32)) - set((piece.notes["start"] // 480).tolist())


def test_a_bar_that_is_really_long_is_filled_up_to_two() -> None:
    piece = quarters(32, missing={13, 14, 15})  # bar 2 has a fifth beat, 12, and what follows begins at 16
    performed = piece.notes.copy()
    later = performed["start"] >= 16 * 480
    performed["start"][later] -= 3 * 480
    performed["end"][later] -= 3 * 480
    downbeats = {0, 4, 8, 13, 17, 21, 25}
    grid = to_grid(perform(piece.replace(notes=performed, chords=()), steady(29), downbeats))
    assert grid.notes["start"].tolist() == piece.notes["start"].tolist()


@pytest.mark.parametrize("slip", [-1, 1, 2])
def test_a_slip_of_the_annotator_that_is_made_good_at_once_moves_nothing(slip: int) -> None:
    piece = compose(7, BARS)
    times = played_freely(slip + 1, 4 * BARS + 5)
    downbeats = set(range(0, len(times), 4)) - {20} | {20 + slip}
    assert same_music(to_grid(perform(piece, times, downbeats)), piece)


def test_a_downbeat_that_nobody_annotated_moves_nothing() -> None:
    piece = compose(8, BARS)
    times = played_freely(4, 4 * BARS + 5)
    assert same_music(to_grid(perform(piece, times, set(range(0, len(times), 4)) - {12, 24, 28})), piece)


@pytest.mark.parametrize("beats_per_bar", [2, 3, 6])
def test_the_time_signature_is_the_commonest_distance_of_downbeats(beats_per_bar: int) -> None:
    grid = to_grid(perform(quarters(24), steady(25), set(range(0, 25, beats_per_bar))))
    assert grid.time_signatures == (TimeSignature(0, beats_per_bar, 4),)
    assert grid.notes["start"].tolist() == quarters(24).notes["start"].tolist()


def test_every_note_has_a_length_and_no_note_is_lost() -> None:
    piece = compose(9, BARS)
    short = piece.notes.copy()
    short["end"] = short["start"]
    performance = perform(piece.replace(notes=short), played_freely(9, 4 * BARS + 5), set(range(0, 4 * BARS + 5, 4)))
    grid = to_grid(performance)
    assert len(grid.notes) == len(piece.notes)
    assert (grid.notes["end"] > grid.notes["start"]).all()


@pytest.mark.parametrize(
    "beats",
    [
        [],
        [(0, True)],
        [(0, False), (480, False), (960, False)],
        [(0, True), (480, False)],
        [(0, True), (480, True), (480, False)],
        [(960, True), (480, True), (0, True)],
    ],
)
def test_beats_that_make_no_grid_are_refused(beats: list[tuple[int, bool]]) -> None:
    with pytest.raises(ValueError, match="make no grid"):
        to_grid(quarters(8).replace(beats=np.array(beats, BEAT)))


def test_beats_without_music_are_a_grid_without_music() -> None:
    empty = quarters(8).replace(notes=quarters(8).notes[:0], chords=())
    assert not len(to_grid(empty.replace(beats=np.array([(0, True), (480, True)], BEAT))).notes)


def test_songs_of_pop909_begin_their_chords_on_beats(real_data: Callable[[str], Path]) -> None:
    for path in islice(sorted(real_data("pop909").glob("*/*.mid")), 0, None, 111):
        score = load_pop909(path)
        ticks = np.array([mark.tick for mark in score.chords])
        assert (np.abs((ticks + 240) % 480 - 240) < 60).mean() > 0.9, path
