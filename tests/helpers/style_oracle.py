"""Style by the paper's own words, pair by pair and in exact fractions: slow, and plainly right."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import sqrt

import numpy as np

from musicgen.midi.score import NOTE, Notes, Score, Track, make_notes


def rows(notes: Notes) -> list[tuple[int, int, int]]:
    """Start, end and pitch of each note."""
    return [(int(note["start"]), int(note["end"]), int(note["pitch"])) for note in notes]


def slow_time_pitch(notes: Notes, ticks_per_beat: int) -> np.ndarray:
    counts = np.zeros((24, 41), np.int64)
    all_rows = rows(notes)
    for i, (start_a, _, pitch_a) in enumerate(all_rows):
        for j, (start_b, _, pitch_b) in enumerate(all_rows):
            lag = Fraction(start_b - start_a, ticks_per_beat)
            if i != j and 0 <= lag < 4 and -20 <= pitch_b - pitch_a <= 20:
                counts[int(lag * 6), pitch_b - pitch_a + 20] += 1
    return counts


def slow_onset_duration(notes: Notes, ticks_per_beat: int) -> np.ndarray:
    counts = np.zeros((24, 12), np.int64)
    for start, end, _ in rows(notes):
        onset, duration = Fraction(start, ticks_per_beat) % 4, Fraction(end - start, ticks_per_beat)
        if 0 <= duration < 2:
            counts[int(onset * 6), int(duration * 6)] += 1
    return counts


def slow_onset_pitch(notes: Notes, ticks_per_beat: int) -> np.ndarray:
    counts = np.zeros((24, 128), np.int64)
    for start, _, pitch in rows(notes):
        counts[int(Fraction(start, ticks_per_beat) % 4 * 6), pitch] += 1
    return counts


def published_onset_duration(notes: Notes) -> np.ndarray:
    """What the published code asks of NumPy, at twelve ticks per beat: ticks in bins of beats."""
    onsets = [start % 48 for start, _, _ in rows(notes)]
    durations = [(end - start) / 12 for start, end, _ in rows(notes)]
    edges = [np.arange(0.0, most + 1 / 6 - 1e-9, 1 / 6) for most in (4, 2)]
    return np.histogramdd(np.array([onsets, durations]).T, bins=edges)[0]


def slow_cosine(one: np.ndarray, other: np.ndarray) -> float:
    a, b = Counter(dict(np.ndenumerate(one))), Counter(dict(np.ndenumerate(other)))
    return float(
        sum(a[key] * b[key] for key in a) / sqrt(sum(x * x for x in a.values()) * sum(x * x for x in b.values()))
    )


TRACKS = (Track("Keys"), Track("Bass", 33), Track("Drums", 0, True))


def random_score(seed: int, size: int = 60, ticks_per_beat: int = 24, bars: int = 4) -> Score:
    """Notes anywhere: on the edges of bins and between them, together and apart, of no length and of many beats."""
    random = np.random.default_rng(seed)
    start = random.integers(0, 4 * bars * ticks_per_beat, size)
    step = random.choice([1, max(ticks_per_beat // 6, 1), ticks_per_beat], size)
    start = start // step * step
    end = start + random.integers(0, 3 * ticks_per_beat, size) // step * step
    notes = make_notes(start, end, random.integers(30, 90, size), 64, random.integers(0, 3, size))
    return Score(ticks_per_beat, notes, TRACKS)


def empty() -> Notes:
    return np.empty(0, NOTE)
