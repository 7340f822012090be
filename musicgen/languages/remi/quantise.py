"""Any piece on the grid that REMI tokens can express, with a report of what that changed.

Design note: quantising is a separate step, from `Score` to `Score`, and encoding loses nothing more. So the report
lists everything that was lost, and `decode(encode(score))` is exactly this score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grid import Integers, Shifts, TokenError, counted, nearest
from musicgen.languages.metre import InMetres, in_metres
from musicgen.languages.remi.tokens import CHORD_NUMBER, CHORDS, PAPER, PITCHES, TICKS_PER_BEAT, TokenSet
from musicgen.midi.score import (
    DEFAULT_BPM,
    ChordMark,
    Score,
    TimeSignature,
    Track,
    make_notes,
    tempo_rows,
)

TOO_MANY_CLAMPED = 0.05
TRIPLET_GRID, TRIPLET_SLACK = 12, 96
"""Triplets are on the first grid in a beat. A note is on it if it is nearer than a part of a beat."""
FOREVER = 1 << 40


@dataclass(frozen=True)
class Quantisation:
    """What quantising did to the notes of a piece.

    Attributes:
        notes: Notes of the bars that tokens can express.
        moved: Kept notes that began audibly off the grid.
        clamped: Kept notes that were shorter, longer, softer or louder than tokens can express.
        trimmed: Kept notes that were cut where the same key is struck again.
        merged: Notes that fell on another note of the same pitch.
        dropped: Notes of drums, or outside the piano's keyboard.
        drums: Those of them that are of drums.
        skipped_bars: Bars before the first note.
        rescaled: Whether all velocities were moved into the range of tokens together, because more than a twentieth
            lay outside: relative dynamics matter more than absolute ones.
        shift: By how many milliseconds moved notes were shifted on average.
        straightened: Notes in triplets or swing that were moved, because tokens have only sixteenths.
        metre: What was done to the bars; empty if nothing was.
    """

    notes: int
    moved: int
    clamped: int
    trimmed: int
    merged: int
    dropped: int
    skipped_bars: int
    rescaled: bool
    drums: int = 0
    shift: float = 0.0
    straightened: int = 0
    metre: str = ""

    def __str__(self) -> str:
        parts = [counted(self.notes, "note")]
        if self.moved:
            parts.append(f"{self.moved:,} moved ({self.shift:.0f} ms on average)")
        counts = {"clamped": self.clamped, "trimmed": self.trimmed, "merged": self.merged}
        parts += [f"{value:,} {name}" for name, value in counts.items() if value]
        if self.drums:
            parts.append(f"{self.drums:,} of drums left out")
        if self.dropped > self.drums:
            parts.append(f"{self.dropped - self.drums:,} outside a piano's keyboard left out")
        if self.skipped_bars:
            parts.append(f"{counted(self.skipped_bars, 'empty bar')} skipped")
        if self.rescaled:
            parts.append("velocities rescaled")
        if self.straightened:
            parts.append(f"{self.straightened:,} in triplets or swing straightened")
        return ", ".join([*parts, self.metre] if self.metre else parts)


class Bars(NamedTuple):
    """The bars of a piece, and where ticks are on the grid.

    Attributes:
        starts: Where bars begin, in units, shape (bars,).
        metres: The number of the metre of each, shape (bars,).
        spans: Ticks at which metres begin, shape (spans,).
        firsts: The same places in units, shape (spans,).
        score: The piece.
        tokens: What tokens can say.
    """

    starts: Integers
    metres: Integers
    spans: Integers
    firsts: Integers
    score: Score
    tokens: TokenSet

    @staticmethod
    def of(score: Score, tokens: TokenSet) -> Bars:
        """The bars of a piece in metres that tokens can say, up to the last in which a note begins."""
        metres = [tokens.metres.index(item[1:]) for item in score.time_signatures]
        spans = np.array([item.tick for item in score.time_signatures], np.int64)
        lengths = [tokens.bar_lengths[metre] for metre in metres]
        firsts, starts, numbers = [0], list[Integers](), list[Integers]()
        ends = [*spans[1:].tolist(), int(score.notes["start"].max()) + score.ticks_per_beat // tokens.units + 1]
        for start, end, metre, length in zip(spans.tolist(), ends, metres, lengths, strict=True):
            bars = (end - start) * tokens.units / (score.ticks_per_beat * length)
            count = round(bars) if len(starts) + 1 < len(metres) else int(bars) + 1
            starts.append(firsts[-1] + length * np.arange(count))
            numbers.append(np.full(count, metre))
            firsts.append(firsts[-1] + length * count)
        table = (np.concatenate(starts), np.concatenate(numbers), spans, np.array(firsts[:-1]))
        return Bars(*table, score, tokens)

    def place(self, ticks: NDArray[Any]) -> Integers:
        """The nearest positions to ticks, in units."""
        tokens, resolution = self.tokens, self.score.ticks_per_beat
        if len(self.spans) == 1:
            return tokens.step * nearest(ticks - self.spans[0], resolution, tokens.units // tokens.step)
        span = (np.searchsorted(self.spans, ticks, side="right") - 1).clip(0)
        since = nearest(ticks - self.spans[span], resolution, tokens.units // tokens.step)
        return self.firsts[span] + tokens.step * since

    def ticks(self, units: Integers) -> NDArray[np.floating[Any]]:
        """The ticks of positions, or places between ticks."""
        span = (np.searchsorted(self.firsts, units, side="right") - 1).clip(0)
        return self.spans[span] + (units - self.firsts[span]) * (self.score.ticks_per_beat / self.tokens.units)

    def bar(self, units: Integers) -> Integers:
        """The number of the bar of each position."""
        return np.searchsorted(self.starts, units, side="right") - 1


def unquantised(score: Score, tokens: TokenSet) -> Score:
    """What `quantise` takes, before anything is put on the grid: the notes of a piano, from the first bar with one on.

    Raises:
        TokenError: It begins in a metre that tokens cannot express, or no note of it can be kept.
    """
    score = _read(score, tokens).score
    bars = Bars.of(score, tokens)
    first = bars.starts[bars.bar(bars.place(score.notes["start"]).min())]
    notes, begin = score.notes.copy(), round(float(bars.ticks(first)))
    notes["start"] -= begin
    notes["end"] -= begin
    return score.replace(notes=notes)


def quantise(score: Score, tokens: TokenSet = PAPER) -> tuple[Score, Quantisation]:
    """The nearest piece that tokens can express.

    It has one piano track at 480 ticks per beat, from the first bar in which a note begins to the last. Notes begin on
    positions of the grid, have lengths that tokens have, and end where their key is struck again. There are a tempo
    and a metre at the beginning. Metres stand where they change, on bar lines; tempos and chords where they change, on
    positions.

    Raises:
        TokenError: It begins in a metre that tokens cannot express, or no note of it can be kept.
    """
    read, given = _read(score, tokens), score.notes
    given = given[given["start"] < read.end]
    drums = int(score.is_drum(given).sum())
    score = read.score
    notes, bars = score.notes, Bars.of(score, tokens)
    position = bars.place(notes["start"])
    length = nearest(notes["end"] - notes["start"], score.ticks_per_beat, tokens.units)
    velocity, rescaled = _rescaled(notes["velocity"], tokens)
    shifts = Shifts.of(score, bars.ticks(position))
    clamped = (length < tokens.lengths[0]) | (length > tokens.lengths[-1]) | _is_outside(velocity, tokens)
    straightened = 0 if tokens.has_triplets else _in_triplets(notes["start"], score.ticks_per_beat)
    skipped, last = (int(bars.bar(at)) for at in (position.min(), position.max()))
    first = int(bars.starts[skipped])

    columns = np.stack([position - first, notes["pitch"], length, velocity, shifts.is_moved, clamped])
    position, pitch, length, velocity, moved, clamped = _merged(columns)
    room = _until_struck_again(position, pitch)
    trimmed = length > room
    duration = tokens.lengths[np.minimum(tokens.nearest_duration(length), tokens.longest_within(room))]
    lowest, steps = tokens.velocities[0], tokens.velocities.step
    level = np.rint((velocity - lowest) / steps).astype(np.int64).clip(0, len(tokens.velocities) - 1)
    ticks = tokens.unit_ticks
    changes = np.flatnonzero(np.diff(bars.metres[skipped : last + 1], prepend=-1))
    numbers = bars.metres[skipped : last + 1][changes].tolist()
    lines = ((bars.starts[skipped : last + 1][changes] - first) * ticks).tolist()
    stop = int(bars.starts[last]) + tokens.bar_lengths[int(bars.metres[last])] - first
    when, tempos = _changes(bars, *_tempos(score, tokens), first, stop)
    chords = np.array([(mark.tick, CHORD_NUMBER[mark.chord]) for mark in score.chords], np.int64).reshape(-1, 2)
    named, names = _changes(bars, chords[:, 0], chords[:, 1], first, stop)
    quantised = Score(
        ticks_per_beat=TICKS_PER_BEAT,
        notes=make_notes(position * ticks, (position + duration) * ticks, pitch, lowest + steps * level),
        tracks=(Track("Piano"),),
        tempos=tempo_rows(when, tokens.tempos[0] + tokens.tempos.step * tempos),
        time_signatures=tuple(
            TimeSignature(line, *tokens.metres[number]) for line, number in zip(lines, numbers, strict=True)
        ),
        chords=tuple(ChordMark(tick, CHORDS[name]) for tick, name in zip(named.tolist(), names.tolist(), strict=True)),
    )
    return quantised, Quantisation(
        notes=len(given),
        moved=int(moved.sum()),
        clamped=int(clamped.sum()),
        trimmed=int(trimmed.sum()),
        merged=len(notes) - len(position),
        dropped=len(given) - len(notes),
        skipped_bars=skipped,
        rescaled=rescaled,
        drums=drums,
        shift=shifts.mean,
        straightened=straightened,
        metre=read.words,
    )


def _read(score: Score, tokens: TokenSet) -> InMetres:
    """The notes of a piece that a piano has, in metres that tokens can say."""
    if not len(score.notes):
        raise TokenError("no notes")
    is_drum = score.is_drum(score.notes)
    keyboard = np.isin(score.notes["pitch"], PITCHES) & ~is_drum
    if not keyboard.any():
        raise TokenError("no notes but drums" if is_drum.all() else "no notes on a piano's keyboard")
    return in_metres(score if keyboard.all() else score.replace(notes=score.notes[keyboard]), tokens.metres)


def _is_outside(velocity: Integers, tokens: TokenSet) -> NDArray[np.bool_]:
    """Whether velocities are further from all that tokens have than two neighbours among those are apart."""
    slack = tokens.velocities.step / 2
    outside: NDArray[np.bool_] = (velocity < tokens.velocities[0] - slack) | (velocity > tokens.velocities[-1] + slack)
    return outside


def _rescaled(velocity: NDArray[Any], tokens: TokenSet) -> tuple[Integers, bool]:
    """Velocities, and whether they were moved into the range of tokens because too many were outside."""
    low, high = tokens.velocities[0], tokens.velocities[-1]
    velocity = velocity.astype(np.int64)
    if _is_outside(velocity, tokens).mean() <= TOO_MANY_CLAMPED:
        return velocity, False
    softest, loudest = np.percentile(velocity, [1, 99])
    squeeze = min(1.0, (high - low) / max(loudest - softest, 1.0))  # a narrow range is moved and not stretched
    floor = min(max(softest, low), high - squeeze * (loudest - softest))
    return np.rint(floor + squeeze * (velocity - softest)).astype(np.int64), True


def _in_triplets(ticks: NDArray[Any], resolution: int) -> int:
    """How many notes are in triplets or swing. None if most notes off the sixteenths are elsewhere: nobody plays so."""
    place = nearest(ticks, resolution, TRIPLET_GRID)
    off = np.abs(ticks * TRIPLET_GRID - place * resolution) * TRIPLET_SLACK >= resolution * TRIPLET_GRID
    in_triplets = int((~off & (place % 3 != 0)).sum())
    return in_triplets if in_triplets > int(off.sum()) else 0


def _merged(columns: Integers) -> Integers:
    """One note for each position and pitch, with the longest duration and the greatest velocity of its twins.

    Args:
        columns: Rows position, pitch, length, velocity, moved and clamped, shape (6, notes).

    Returns:
        The same, ordered by position and by pitch from the highest down.
    """
    order = np.lexsort((-columns[1], columns[0]))
    columns = columns[:, order]
    first = np.flatnonzero(np.concatenate([[True], (np.diff(columns[:2]) != 0).any(0)]))
    return np.maximum.reduceat(columns, first, axis=1)


def _until_struck_again(position: Integers, pitch: Integers) -> Integers:
    """Units from each note to the next with the same pitch; more than any duration if there is none."""
    order = np.lexsort((position, pitch))
    gaps = np.diff(position[order], append=0)
    gaps[np.diff(pitch[order], append=-1) != 0] = FOREVER
    room = np.empty_like(gaps)
    room[order] = gaps
    return room


def _tempos(score: Score, tokens: TokenSet) -> tuple[Integers, Integers]:
    """Ticks at which tempos begin, and the numbers of their tokens."""
    bpm = np.append(DEFAULT_BPM, score.tempos["bpm"])
    number = np.rint((np.minimum(bpm, tokens.tempos[-1]) - tokens.tempos[0]) / tokens.tempos.step)
    return np.append(0, score.tempos["tick"]), number.astype(np.int64).clip(0)


def _changes(bars: Bars, ticks: Integers, values: Integers, first: int, stop: int) -> tuple[Integers, Integers]:
    """Changes on the grid, as ticks and values. The last at a position counts; one to the same value is left out.

    Args:
        bars: The bars of the piece.
        ticks: When there are changes, shape (changes,).
        values: What to, shape (changes,).
        first: Where the first bar begins, in units. The last change before it is moved there.
        stop: How many units follow.
    """
    place = bars.place(ticks) - first
    order = np.argsort(place, kind="stable")
    order = order[place[order] < stop]
    place, values = place[order].clip(0), values[order]
    is_last = np.diff(place, append=stop) != 0
    place, values = place[is_last], values[is_last]
    is_new = np.diff(values, prepend=-1) != 0
    return place[is_new] * bars.tokens.unit_ticks, values[is_new]
