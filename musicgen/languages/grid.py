"""Arithmetic that quantising shares: ticks to the nearest grid step, and whether a piece is in 4/4."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.midi.score import Score

Integers = NDArray[np.int64]


class TokenError(UserError):
    """Music that a token language cannot express, and why."""


def nearest(ticks: NDArray[Any], ticks_per_beat: int, steps: int) -> Integers:
    """Ticks as the nearest whole numbers of a beat's steps; halves are rounded up."""
    rounded: Integers = (2 * steps * ticks.astype(np.int64) + ticks_per_beat) // (2 * ticks_per_beat)
    return rounded


AUDIBLE = 0.005
"""Seconds by which a note must be shifted to count as moved: a tick of most files is less."""


class Shifts(NamedTuple):
    """How notes are shifted in time.

    Attributes:
        is_moved: Whether each is shifted audibly, shape (notes,).
        mean: By how many milliseconds those are shifted on average.
    """

    is_moved: NDArray[np.bool_]
    mean: float

    @staticmethod
    def of(score: Score, places: NDArray[np.floating[Any]]) -> Shifts:
        """How the notes of a piece are shifted if they begin at other places, in ticks, shape (notes,)."""
        away = np.abs(score.seconds(places) - score.seconds(score.notes["start"]))
        is_moved = away > AUDIBLE
        return Shifts(is_moved, round(1000 * float(away[is_moved].mean()), 3) if is_moved.any() else 0.0)


def counted(number: int, noun: str) -> str:
    """A number of things in words: `1 note`, `2 notes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def check_metre(score: Score) -> None:
    """Check that every bar with notes is in 4/4.

    Raises:
        TokenError: A bar is in another metre.
    """
    last = int(score.notes["start"].max(initial=0))
    for place, (tick, numerator, denominator) in enumerate(score.time_signatures):
        following = score.time_signatures[place + 1].tick if place + 1 < len(score.time_signatures) else last + 1
        is_used = tick <= last and following > tick
        if is_used and (numerator, denominator) != (4, 4):
            beat = tick // score.ticks_per_beat + 1
            raise TokenError(f"not in 4/4 ({numerator}/{denominator} from beat {beat} on)")


def resolve_overlaps(start: NDArray[Any], end: NDArray[Any], key: NDArray[Any]) -> tuple[Integers, Integers]:
    """End each note where its key is struck again, and drop notes that would then have no length.

    If several notes begin together on one key, the longest is kept.

    Args:
        start: Ticks, shape (notes,).
        end: Ticks after the last, shape (notes,).
        key: Track and pitch in one number, shape (notes,).

    Returns:
        The numbers of the notes that stay, ordered by key and start, and their ends; both of shape (kept,).
    """
    order = np.lexsort((end, start, key.astype(np.int16)))  # so few keys sort by counting
    start, stop, key = start[order], end[order], key[order]
    stop[:-1] = np.where(key[1:] == key[:-1], np.minimum(stop[:-1], start[1:]), stop[:-1])
    kept = stop > start
    return order[kept], stop[kept]
