"""Any piece as a trio of bass, drums and one other instrument, on the grid that groove tokens can say.

The hard choice: a trio is chosen, not asked for. Basses are one part and so are drums; of all else, the one track
with the most notes stays and the others are dropped and counted. As with REMI, quantising is a step of its own, and
`decode(encode(score))` is exactly the score that it gives.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.parts import parts
from musicgen.midi.score import Score, TimeSignature, Track, make_notes
from musicgen.tokens.quantise import TokenError, check_metre, nearest

Integers = NDArray[np.int64]

TICKS = 12
"""Ticks in a beat."""
PITCHES = 128
TRIO = (Track("Bass", 33), Track("Drums", 0, True), Track("Other", 0))
VELOCITY = 64
"""Tokens say no velocities: every note has this one."""


@dataclass(frozen=True)
class TrioQuantisation:
    """What quantising did to the notes of a piece.

    Attributes:
        notes: Notes of the piece.
        moved: Of those on the three tracks, how many began off the grid.
        lengthened: ... were shorter than a tick of the grid.
        trimmed: ... were cut where the same pitch is struck again.
        merged: Notes that fell on another of the same track and pitch.
        dropped: Notes of instruments that are none of the three.
    """

    notes: int
    moved: int
    lengthened: int
    trimmed: int
    merged: int
    dropped: int

    def __str__(self) -> str:
        counts = [f"{value:,} {name}" for name, value in asdict(self).items() if value or name == "notes"]
        return ", ".join(counts)


def quantise_trio(score: Score) -> tuple[Score, TrioQuantisation]:
    """The nearest trio that tokens can say.

    Three tracks, `TRIO`, at 12 ticks a beat, in 4/4. Notes begin and end on ticks, last at least one, and no longer
    than until their pitch is struck again on their track. Tempo, velocities and instruments are not kept;
    `choose_trio` says from which tracks of the piece the three are.

    Raises:
        TokenError: It is not in 4/4, or has no notes.
    """
    check_metre(score)
    if not len(score.notes):
        raise TokenError("no notes")
    places = np.full(len(score.tracks), -1)
    for place, tracks in enumerate(choose_trio(score)):
        places[list(tracks)] = place
    place = places[score.notes["track"]]
    notes, place = score.notes[place >= 0], place[place >= 0]
    start = nearest(notes["start"], score.ticks_per_beat, TICKS)
    end = nearest(notes["end"], score.ticks_per_beat, TICKS)
    moved = start * score.ticks_per_beat != notes["start"] * TICKS
    short = end <= start

    end, key = np.maximum(end, start + 1), PITCHES * place + notes["pitch"]
    kept, stop = settled(start, end, key)
    quantised = Score(
        ticks_per_beat=TICKS,
        notes=make_notes(start[kept], stop, key[kept] % PITCHES, VELOCITY, key[kept] // PITCHES),
        tracks=TRIO,
        time_signatures=(TimeSignature(0, 4, 4),),
    )
    return quantised, TrioQuantisation(
        notes=len(score.notes),
        moved=int(moved.sum()),
        lengthened=int(short.sum()),
        trimmed=int((stop < end[kept]).sum()),
        merged=len(notes) - len(kept),
        dropped=len(score.notes) - len(notes),
    )


def choose_trio(score: Score) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Numbers of the tracks that are the bass, the drums, and the one of the others that has the most notes."""
    part = parts(score)
    bass, drums, others = (
        tuple(number for number in range(len(part)) if part[number] == name) for name in ("bass", "drums", "other")
    )
    counts = np.bincount(score.notes["track"], minlength=len(part))
    return bass, drums, tuple(sorted(others, key=lambda number: -counts[number])[:1])


def settled(start: NDArray[Any], end: NDArray[Any], key: NDArray[Any]) -> tuple[Integers, Integers]:
    """Which notes stay where each ends when its key is struck again, and when they end.

    Of twins, which begin together on one key, all but the longest are struck again at once: they last no time and go.

    Args:
        start: Ticks, shape (notes,).
        end: Ticks after the last, shape (notes,).
        key: Track and pitch in one number, shape (notes,).

    Returns:
        Their numbers, ordered by key and start, and their ends, both of shape (kept,).
    """
    order = np.lexsort((end, start, key.astype(np.int16)))  # so few keys sort by counting
    start, stop, key = start[order], end[order], key[order]
    stop[:-1] = np.where(key[1:] == key[:-1], np.minimum(stop[:-1], start[1:]), stop[:-1])
    kept = stop > start
    return order[kept], stop[kept]
