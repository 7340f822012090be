"""The end of a prompt: jumps of density and tempo, and drums that keep their pattern."""

from __future__ import annotations

import math

import numpy as np
import pytest
from judged_oracle import slow_kick_and_snare
from music_oracle import TRACKS, random_piece

from musicgen.evaluation.music.junction import JUNCTION, kick_and_snare, measure_junction
from musicgen.midi.score import Score, TimeSignature, Track, make_notes, make_tempos

DRUMS = (Track("Drums", 0, True),)
ROCK, BROKEN = [(0, 36), (24, 38), (48, 36), (72, 38)], [(0, 36), (24, 38), (60, 36), (72, 38)]


def beaten(bars: list[list[tuple[int, int]]], tracks: tuple[Track, ...] = DRUMS) -> Score:
    rows = [(96 * bar + start, pitch) for bar, hits in enumerate(bars) for start, pitch in hits]
    starts, pitches = zip(*rows, strict=True)
    notes = make_notes([*starts], [start + 3 for start in starts], [*pitches], 64)
    return Score(24, notes, tracks, time_signatures=(TimeSignature(0, 4, 4),))


@pytest.mark.parametrize("seed", range(6))
def test_drums_are_matched_as_it_says(seed: int) -> None:
    score = random_piece(seed, bars=8, notes=90, tracks=TRACKS)
    random = np.random.default_rng(seed)
    notes = score.notes.copy()
    is_drum = score.is_drum(notes)
    notes["pitch"][is_drum] = random.choice([35, 36, 37, 38, 40, 42], int(is_drum.sum()))
    score = score.replace(notes=notes)
    for prompt in (1, 3, 7):
        assert kick_and_snare(score, prompt) == pytest.approx(slow_kick_and_snare(score, prompt), abs=1e-6)


def test_a_pattern_that_is_kept_is_kept_whatever_the_hats_do() -> None:
    """Three of four new bars keep it: one with hi-hats, one with the other bass drum, one late by a 24th of a beat."""
    late = [(start + 1, pitch) for start, pitch in ROCK]
    other = [(start, 35 if pitch == 36 else 40) for start, pitch in ROCK]
    score = beaten([ROCK, ROCK, [*ROCK, (12, 42)], other, late, BROKEN])
    kept, match = kick_and_snare(score, 2)
    assert kept == 3 / 4
    assert match == pytest.approx((3 + 3 / 5) / 4)


def test_a_bar_without_drums_equals_only_such_a_bar() -> None:
    assert kick_and_snare(beaten([ROCK, [(0, 42)], [(0, 42)]]), 2) == (1, 1)
    assert kick_and_snare(beaten([ROCK, ROCK, [(0, 42)]]), 2) == (0, 0)
    assert all(map(math.isnan, kick_and_snare(beaten([[(0, 42)], ROCK]), 1)))
    assert all(map(math.isnan, kick_and_snare(beaten([ROCK, ROCK], (Track("Piano"),)), 1)))


def test_jumps_are_factors_and_1_without_one() -> None:
    steady = beaten([ROCK] * 8).replace(tempos=make_tempos([(0, 90.0)]))
    assert measure_junction(steady, 4) == dict.fromkeys(JUNCTION, pytest.approx(1))
    for after in (180.0, 45.0):
        faster = steady.replace(tempos=make_tempos([(0, 90.0), (4 * 96, after)]))
        assert measure_junction(faster, 4)["tempo jump"] == pytest.approx(2)
        assert measure_junction(faster, 3)["tempo jump"] < 2
    dense = beaten([ROCK[:1]] * 6 + [ROCK] * 2)
    assert measure_junction(dense, 6)["density jump"] == 4
    assert measure_junction(dense, 2)["density jump"] == 1
    assert math.isnan(measure_junction(dense, 6)["tempo jump"])


def test_without_bars_on_both_sides_there_is_no_junction() -> None:
    for prompt in (0, 2, 5):
        assert all(map(math.isnan, measure_junction(beaten([ROCK, ROCK]), prompt).values()))
