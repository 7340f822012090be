"""Live playing: does a file's grid mean anything, and if not, where are the beats?

A recorded performance has the grid of the recorder, usually 120 beats per minute from the moment of its start. Notes
that are put on such a grid land at random.

Design note: the test is one number that costs microseconds. Onsets are points on a circle whose turn is a sixteenth, a
triplet or a twelfth of a beat. On a grid that means something their mean is far from the centre, and near the angle 0.
A file that is quantised is believed without further questions, whatever its rhythm.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.midi.beats import track_beats
from musicgen.midi.grid import to_grid
from musicgen.midi.score import BEAT, Score

FEW = 24
"""With fewer onsets than this the file is believed."""
TURNS = (3, 4, 12)
"""Steps of a beat: triplets, sixteenths, and both."""
FINEST = 24
QUANTISED = 0.9
"""A file with this share of its onsets exactly on twenty-fourths of beats is quantised."""
CLEAR = 0.2
"""Onsets whose mean is nearer to the centre of the circle are not on a grid."""
LATE = 0.07
"""By how much of a beat all onsets may be late or early."""
ON_BEATS = 0.7
"""Beats have at least this part of the onsets that the strongest sixteenth has."""
STEADY = 0.5
"""The same as `CLEAR`, for a file whose tempo is right and whose beats are not."""
SLOWEST, FASTEST = 40.0, 200.0
"""Tempos that are believed."""
FOUND = 0.4
"""The same for a tracked beat. Beats are placed on onsets, so even noise has a little of it."""


def is_on_grid(score: Score) -> bool:
    """Whether the beats of a file mean something: it is quantised, or played to a click."""
    onsets, count = np.unique(score.notes["start"], return_counts=True)
    if len(onsets) < FEW:
        return True
    phase = onsets % score.ticks_per_beat / score.ticks_per_beat
    exact = np.abs(phase * FINEST - np.rint(phase * FINEST)) * score.ticks_per_beat / FINEST <= 0.5
    if score.ticks_per_beat >= 4 * FINEST and exact.mean() >= QUANTISED:
        return True
    turns, mean = _clearest(phase)
    is_late = abs(np.angle(mean)) / (2 * math.pi * turns) > LATE
    weight = np.sqrt(count)
    around = [weight[np.abs((phase - place / 4 + 0.5) % 1 - 0.5) < 1 / 8].sum() for place in range(4)]
    return abs(mean) >= CLEAR and not is_late and around[0] >= ON_BEATS * max(around)


def _clearest(phase: NDArray[np.float64]) -> tuple[int, complex]:
    """The steps of a beat that onsets keep to most, and the mean of the onsets on their circle."""
    return max(((turns, _mean(phase, turns)) for turns in TURNS), key=lambda item: abs(item[1]))


def _mean(phase: NDArray[np.float64], turns: int) -> complex:
    return complex(np.exp(2j * math.pi * turns * phase).mean())


def follow_beats(score: Score, tempo: float | None = None) -> tuple[Score, bool] | None:
    """A performance on the grid of the beats that are heard in it, with a tempo for every beat.

    Args:
        score: The performance.
        tempo: Its tempo in beats per minute, if it is known.

    Returns:
        The music on its grid, and whether the beat is clear: noise, or very free playing, has none. None if there are
        no beats at all.
    """
    beats = track_beats(score, tempo or steady_tempo(score))
    if beats["is_downbeat"].sum() < 2:
        return None
    moved = to_grid(score.replace(beats=beats))
    phase = np.unique(moved.notes["start"]) % moved.ticks_per_beat / moved.ticks_per_beat
    is_clear = tempo is not None or max(_mean(phase, turns).real for turns in TURNS) >= FOUND
    return moved, is_clear


def steady_tempo(score: Score) -> float | None:
    """The tempo of a file whose onsets keep to a grid of this tempo, though not to its beats; None for other files."""
    phase = np.unique(score.notes["start"]) % score.ticks_per_beat / score.ticks_per_beat
    tempo = float(np.median(score.tempos["bpm"])) if len(score.tempos) else 0.0
    is_steady = SLOWEST <= tempo <= FASTEST and abs(_clearest(phase)[1]) >= STEADY
    return tempo if is_steady else None


def follow_file(score: Score, path: Path) -> Score:
    """A performance on the grid of the beats that a text file lists.

    A line has the time of a beat in seconds. If it has more columns, the last is 1 for a downbeat; otherwise bars have
    four beats.

    Raises:
        UserError: The file cannot be read, or its beats make no grid.
    """
    try:
        lines = [line.replace(",", " ").split() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise UserError(f"beats={path}: cannot be read ({reason}); give a text file of beats") from None
    try:
        numbers = [[float(word) for word in line] for line in lines]
    except ValueError:
        numbers = []
    if not numbers or len({len(row) for row in numbers}) > 1 or not np.isfinite(numbers).all():
        raise UserError(f"beats={path}: write the time of one beat in seconds on each line, and 1 after a downbeat")
    beats = np.empty(len(numbers), BEAT)
    beats["tick"] = score.ticks(np.array([row[0] for row in numbers]))
    beats["is_downbeat"] = [row[-1] == 1 if len(row) > 1 else place % 4 == 0 for place, row in enumerate(numbers)]
    try:
        return to_grid(score.replace(beats=beats))
    except ValueError as error:
        raise UserError(f"beats={path}: {error}") from None
