"""Any piece put on the grid that REMI tokens can say, with an account of what that changed.

The hard choice: quantising is a step of its own, from `Score` to `Score`, and encoding adds nothing to it. What
a token sequence lost is then what this file says it lost, and `decode(encode(score))` is exactly this score.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.midi.score import (
    DEFAULT_BPM,
    ChordMark,
    Score,
    TimeSignature,
    Track,
    make_notes,
    make_tempos,
)

Integers = NDArray[np.int64]

TICKS_PER_BEAT = 480
POSITIONS = 16
"""Places in a bar where something may begin: sixteenth notes of 4/4."""
POSITION_TICKS = 4 * TICKS_PER_BEAT // POSITIONS
HALF_TICKS = POSITION_TICKS // 2
"""Durations are counted in half positions."""
MAX_HALVES = 32
PITCHES = range(21, 109)
VELOCITIES = range(40, 87, 2)
TEMPOS = range(32, 225, 3)
TOO_MANY_CLAMPED = 0.05


class TokenError(UserError):
    """Music that a token language cannot say, and why."""


@dataclass(frozen=True)
class Quantisation:
    """What quantising did to the notes of a piece.

    Attributes:
        notes: Notes of the piece.
        moved: Of those kept, how many began off the grid.
        clamped: ... were shorter, longer, softer or louder than tokens can say.
        trimmed: ... were cut where the same key is struck again.
        merged: Notes that fell on another of the same pitch.
        dropped: Notes of drums or off the piano's keyboard.
        skipped_bars: Bars before the first note.
        rescaled: Whether the velocities were moved into the range of tokens as a whole, because more than a
            twentieth lay outside: relative dynamics are worth more than absolute ones.
    """

    notes: int
    moved: int
    clamped: int
    trimmed: int
    merged: int
    dropped: int
    skipped_bars: int
    rescaled: bool

    def __str__(self) -> str:
        parts = [f"{self.notes:,} notes"]
        for name, value in list(asdict(self).items())[1:6]:
            if value:
                parts.append(f"{value:,} {name}")
        if self.skipped_bars:
            parts.append(f"{self.skipped_bars:,} empty bars skipped")
        if self.rescaled:
            parts.append("velocities rescaled")
        return ", ".join(parts)


def quantise(score: Score) -> tuple[Score, Quantisation]:
    """The nearest piece that tokens can say.

    One piano track at 480 ticks a beat, in 4/4, from the first bar in which a note begins to the last. Notes
    begin on sixteenths; each lasts a half to sixteen of them, and no longer than until its key is struck again.
    There is a tempo at the beginning; tempos and chords stand where they change, on sixteenths.

    Raises:
        TokenError: It is not in 4/4, or no note of it can be kept.
    """
    check_metre(score)
    keyboard = np.isin(score.notes["pitch"], PITCHES)
    notes = score.notes[keyboard & ~score.is_drum(score.notes)]
    if not len(notes):
        raise TokenError("no notes" if not len(score.notes) else "no notes but drums, or none on a piano's keyboard")
    position = nearest(notes["start"], score.ticks_per_beat, 4)
    halves = nearest(notes["end"] - notes["start"], score.ticks_per_beat, 8)
    velocity, rescaled = _rescaled(notes["velocity"])
    moved = position * score.ticks_per_beat != notes["start"] * 4
    clamped = (halves < 1) | (halves > MAX_HALVES) | (velocity < VELOCITIES[0] - 1) | (velocity > VELOCITIES[-1] + 1)
    skipped = int(position.min()) // POSITIONS

    columns = np.stack(
        [position - POSITIONS * skipped, notes["pitch"], halves.clip(1, MAX_HALVES), velocity, moved, clamped]
    )
    columns = _merged(columns)
    position, pitch, halves, velocity, moved, clamped = columns
    room = 2 * _until_struck_again(position, pitch)
    trimmed = halves > room
    level = np.rint((velocity - VELOCITIES[0]) / VELOCITIES.step).astype(np.int64).clip(0, len(VELOCITIES) - 1)
    start = position * POSITION_TICKS
    bars = int(position.max()) // POSITIONS + 1
    quantised = Score(
        ticks_per_beat=TICKS_PER_BEAT,
        notes=make_notes(
            start, start + np.minimum(halves, room) * HALF_TICKS, pitch, VELOCITIES[0] + VELOCITIES.step * level
        ),
        tracks=(Track("Piano"),),
        tempos=make_tempos(_tempos(score, skipped, bars)),
        time_signatures=(TimeSignature(0, 4, 4),),
        chords=tuple(ChordMark(tick, chord) for tick, chord in _changes(score, score.chords, skipped, bars)),
    )
    return quantised, Quantisation(
        notes=len(score.notes),
        moved=int(moved.sum()),
        clamped=int(clamped.sum()),
        trimmed=int(trimmed.sum()),
        merged=len(notes) - len(position),
        dropped=len(score.notes) - len(notes),
        skipped_bars=skipped,
        rescaled=rescaled,
    )


def check_metre(score: Score) -> None:
    """See that the bars of a piece are those of 4/4.

    Raises:
        TokenError: Some are not.
    """
    last = int(score.notes["start"].max(initial=0))
    for place, (tick, numerator, denominator) in enumerate(score.time_signatures):
        following = score.time_signatures[place + 1].tick if place + 1 < len(score.time_signatures) else last + 1
        is_used = tick <= last and following > tick
        if is_used and (numerator, denominator) != (4, 4):
            beat = tick // score.ticks_per_beat + 1
            raise TokenError(f"not in 4/4 ({numerator}/{denominator} from beat {beat} on)")


def nearest(ticks: NDArray[Any], ticks_per_beat: int, parts: int) -> Integers:
    """Ticks as whole numbers of a beat's parts, halves upwards."""
    rounded: Integers = (2 * parts * ticks.astype(np.int64) + ticks_per_beat) // (2 * ticks_per_beat)
    return rounded


def _rescaled(velocity: NDArray[Any]) -> tuple[Integers, bool]:
    """Velocities, moved into the range of tokens if too many lie outside, and whether that was done."""
    low, high = VELOCITIES[0], VELOCITIES[-1]
    velocity = velocity.astype(np.int64)
    outside = (velocity < low - 1) | (velocity > high + 1)
    if outside.mean() <= TOO_MANY_CLAMPED:
        return velocity, False
    softest, loudest = np.percentile(velocity, [1, 99])
    squeeze = min(1.0, (high - low) / max(loudest - softest, 1.0))  # a narrow range is moved and not stretched
    floor = min(max(softest, low), high - squeeze * (loudest - softest))
    return np.rint(floor + squeeze * (velocity - softest)).astype(np.int64), True


def _merged(columns: Integers) -> Integers:
    """One note for each position and pitch, with the longest duration and the greatest velocity of its twins.

    Args:
        columns: Rows position, pitch, halves, velocity, moved and clamped, shape (6, notes).

    Returns:
        The same, ordered by position and by pitch from the highest down.
    """
    order = np.lexsort((-columns[1], columns[0]))
    columns = columns[:, order]
    first = np.flatnonzero(np.concatenate([[True], (np.diff(columns[:2]) != 0).any(0)]))
    return np.maximum.reduceat(columns, first, axis=1)


def _until_struck_again(position: Integers, pitch: Integers) -> Integers:
    """Positions from each note to the next of the same pitch; very many for the last."""
    order = np.lexsort((position, pitch))
    gaps = np.diff(position[order], append=0)
    gaps[np.diff(pitch[order], append=-1) != 0] = MAX_HALVES
    room = np.empty_like(gaps)
    room[order] = gaps
    return room


def _tempos(score: Score, skipped: int, bars: int) -> list[tuple[int, float]]:
    """Ticks and beats a minute of the tempo tokens."""
    changes: list[tuple[int, float]] = [(0, DEFAULT_BPM), *score.tempos.tolist()]
    return _changes(score, ((tick, _nearest_tempo(bpm)) for tick, bpm in changes), skipped, bars)


def _nearest_tempo(bpm: float) -> float:
    number = round((min(bpm, TEMPOS[-1]) - TEMPOS[0]) / TEMPOS.step)  # a file may say that it is infinite
    return float(TEMPOS[max(number, 0)])


def _changes(score: Score, changes: Iterable[tuple[int, Any]], skipped: int, bars: int) -> list[tuple[int, Any]]:
    """Changes on the grid, the last of those in one place, and of those no two in a row alike.

    What came before the first bar is in force there.
    """
    latest: dict[int, Any] = {}
    for tick, value in changes:
        position = (8 * tick + score.ticks_per_beat) // (2 * score.ticks_per_beat) - POSITIONS * skipped
        if position < POSITIONS * bars:
            latest[max(position, 0)] = value
    ordered = sorted(latest.items())
    return [
        (position * POSITION_TICKS, value)
        for place, (position, value) in enumerate(ordered)
        if place == 0 or value != ordered[place - 1][1]
    ]
