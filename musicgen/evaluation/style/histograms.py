"""Style as counts: when notes begin, how long they last, and which notes are near each other.

Design note: bins come from integer division of ticks, never from beats as floats. Most notes lie exactly on the edge of
a bin, and a sixth of a beat is not a binary fraction: rounding would put many notes into the wrong bin.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.score import Notes

Histogram = NDArray[np.int64]

BEATS_IN_BAR = 4
BINS_IN_BEAT = 6
BAR_BINS = BEATS_IN_BAR * BINS_IN_BEAT
LONGEST = 2
"""Beats. Notes of this length or longer are in no bin of durations."""
DURATION_BINS = LONGEST * BINS_IN_BEAT
WIDEST = 20
"""Semitones. Notes further apart are in no bin of intervals."""
INTERVAL_BINS = 2 * WIDEST + 1
PITCHES = 128
_OUTSIDE = -1


def time_pitch(notes: Notes, ticks_per_beat: int) -> Histogram:
    """Counts of ordered pairs of notes less than four beats apart, by lag and interval, shape (24, 41).

    A pair goes from the earlier to the later note. Two notes that begin together count in both directions.
    """
    order = np.argsort(notes["start"], kind="stable")
    start, pitch = notes["start"][order], notes["pitch"][order].astype(np.int64)
    counts = np.zeros(BAR_BINS * INTERVAL_BINS, np.int64)
    # Pairs of neighbours, then of next neighbours, and so on, while any are near enough. Whole columns are compared at
    # a time, so memory grows with the notes and not with their pairs.
    earlier = np.arange(len(notes))
    for distance in itertools.count(1):
        earlier = earlier[earlier + distance < len(notes)]
        lag = start[earlier + distance] - start[earlier]
        is_near = lag < BEATS_IN_BAR * ticks_per_beat
        earlier, lag = earlier[is_near], lag[is_near]
        if not len(earlier):
            break
        interval = pitch[earlier + distance] - pitch[earlier]
        is_narrow = np.abs(interval) <= WIDEST
        interval, lag = interval[is_narrow], lag[is_narrow]
        row = BINS_IN_BEAT * lag // ticks_per_beat * INTERVAL_BINS + WIDEST
        cells = np.concatenate([row + interval, (row - interval)[lag == 0]])
        counts += np.bincount(cells, minlength=len(counts))
    return counts.reshape(BAR_BINS, INTERVAL_BINS)


def onset_duration(notes: Notes, ticks_per_beat: int, published: bool = False) -> Histogram:
    """Counts of notes by their place in a bar of four beats and their duration, shape (24, 12).

    The paper's published code counts as `_onset_bins` says, and puts two beats into the last bin.
    """
    duration = notes["end"] - notes["start"]
    columns = BINS_IN_BEAT * duration // ticks_per_beat
    if published:
        columns = np.where(duration == LONGEST * ticks_per_beat, DURATION_BINS - 1, columns)
    return _count(_onset_bins(notes, ticks_per_beat, published), columns, DURATION_BINS)


def onset_pitch(notes: Notes, ticks_per_beat: int, published: bool = False) -> Histogram:
    """Counts of notes by their place in a bar of four beats and their pitch, shape (24, 128); for drums."""
    return _count(_onset_bins(notes, ticks_per_beat, published), notes["pitch"].astype(np.int64), PITCHES)


def _onset_bins(notes: Notes, ticks_per_beat: int, published: bool) -> NDArray[np.int64]:
    """The sixth of a beat in the bar at which each note begins, shape (notes,).

    The published code takes ticks for beats. Its bins then hold only the first ticks of a bar: 0, 1, 2 and 3 as if they
    were beats, and 4 in the last bin, which is closed.
    """
    place = notes["start"] % (BEATS_IN_BAR * ticks_per_beat)
    if published:
        return np.where(place <= BEATS_IN_BAR, np.minimum(BINS_IN_BEAT * place, BAR_BINS - 1), _OUTSIDE)
    return BINS_IN_BEAT * place // ticks_per_beat


def _count(rows: NDArray[np.int64], columns: NDArray[np.int64], width: int) -> Histogram:
    """How often each pair of a row and a column occurs, shape (24, width); pairs outside are not counted."""
    is_inside = (rows >= 0) & (columns >= 0) & (columns < width)
    cells = (rows * width + columns)[is_inside]
    return np.bincount(cells, minlength=BAR_BINS * width).reshape(BAR_BINS, width)


def cosine(one: Histogram, other: Histogram) -> float:
    """The cosine of the angle between two histograms, from 0 to 1; nan if either is empty."""
    a, b = one.ravel().astype(np.float64), other.ravel().astype(np.float64)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return min(float(a @ b) / lengths, 1.0) if lengths else float("nan")
