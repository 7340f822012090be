"""Bars that take up bars before them: against a plain implementation, and where the answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from judged_oracle import slow_form
from music_oracle import TRACKS, random_piece

from musicgen.evaluation.music.form import FORM, bar_sets, best_earlier, last_bar, measure_form
from musicgen.midi.score import Score, TimeSignature, Track, make_notes


def piece(notes: list[tuple[int, int]], metre: TimeSignature | None = None, tracks: tuple[Track, ...] = ()) -> Score:
    """Notes of (start, pitch) at 24 ticks per beat."""
    starts, pitches = (list(column) for column in zip(*notes, strict=True))
    metres = (metre or TimeSignature(0, 4, 4),)
    rows = make_notes(starts, [start + 6 for start in starts], pitches, 64)
    return Score(24, rows, tracks or (Track("Piano"),), time_signatures=metres)


@pytest.mark.parametrize("seed", range(8))
def test_every_metric_is_what_it_says_it_is(seed: int) -> None:
    score = random_piece(seed, bars=10, notes=80, tracks=TRACKS if seed % 2 else TRACKS[:1])
    values = measure_form(score)
    assert [*values, "last bar"] == list(FORM)
    assert values == pytest.approx(slow_form(score), nan_ok=True, abs=1e-6)


def test_a_phrase_that_returns_is_found_at_its_distance_and_by_the_best_earlier_bar() -> None:
    """Bars 0 to 3 differ in everything, and bars 4 to 7 are the same again."""
    bars = [[(24 * bar, 50 + bar), (24 * bar + 6, 70 + bar)] for bar in range(4)] * 2
    values = measure_form(
        piece([(96 * bar + start, pitch) for bar, notes in enumerate(bars) for start, pitch in notes])
    )
    for kind in ("notes", "pitches", "onsets"):
        assert [values[f"{kind} alike at {lag}"] for lag in (1, 2, 4)] == [0, 0, 1], kind
        assert math.isnan(values[f"{kind} alike at 8"]), kind
    assert values["best earlier bar"] == pytest.approx(4 / 7)


def test_a_bar_that_returns_a_little_changed_is_still_alike() -> None:
    """Lengths and a 24th of a beat do not count; half of the notes of the third bar are new."""
    rows = make_notes([0, 48, 97, 143, 192, 240], [6, 90, 180, 150, 200, 250], [60, 64, 60, 64, 60, 65], 64)
    values = measure_form(Score(24, rows, time_signatures=(TimeSignature(0, 4, 4),)))
    assert values["notes alike at 1"] == pytest.approx((1 + 1 / 3) / 2)
    assert values["best earlier bar"] == pytest.approx((1 + 1 / 3) / 2)
    assert values["onsets alike at 1"] == 1


def test_pitches_and_onsets_are_told_apart() -> None:
    same_rhythm = measure_form(piece([(0, 60), (24, 62), (96, 70), (120, 72)]))
    assert (same_rhythm["onsets alike at 1"], same_rhythm["pitches alike at 1"]) == (1, 0)
    same_chord = measure_form(piece([(0, 60), (24, 62), (108, 60), (150, 62)]))
    assert (same_chord["onsets alike at 1"], same_chord["pitches alike at 1"]) == (0, 1)
    assert same_chord["notes alike at 1"] == 0


def test_empty_bars_and_single_bars_are_like_nothing() -> None:
    gap = measure_form(piece([(0, 60), (192, 60)]))
    assert gap["best earlier bar"] == 1
    assert math.isnan(measure_form(piece([(0, 60)]))["best earlier bar"])
    assert math.isnan(best_earlier(np.zeros((3, 0), np.bool_)))


def test_bars_follow_the_metre_and_a_drum_is_no_pitch() -> None:
    waltz = piece([(72 * bar + 24 * beat, 60 + beat) for bar in range(4) for beat in range(3)], TimeSignature(0, 3, 4))
    assert measure_form(waltz)["notes alike at 1"] == 1
    drums = piece([(0, 36), (96, 36)], tracks=(Track("Drums", 0, True),))
    assert bar_sets(drums)["pitches"].shape == (2, 0)
    assert math.isnan(measure_form(drums)["pitches alike at 1"])
    assert measure_form(drums)["notes alike at 1"] == 1


def test_a_last_bar_of_one_note_is_calm() -> None:
    assert last_bar(piece([(24 * beat, 60) for beat in range(8)])) == 1
    assert last_bar(piece([*((24 * beat, 60) for beat in range(7)), (8 * 24, 60)])) == pytest.approx(1 / (8 / 3))
