"""Grooves with gaps: their tokens, their time, and how notes are taken out and put back.

`Gap_4` stands on a bar line, and time jumps four bars. `Part_drums Gap_4` takes out the drums of four bars; time goes
on, because bass and other still play. At each `Fill` time returns to where the next gap begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grid import Integers
from musicgen.languages.groove.codec import (
    BEGIN,
    END,
    FAMILIES,
    KEYS,
    RANKS,
    SHIFT,
    decode_events,
    encode_notes,
    events,
    separate,
    write_events,
)
from musicgen.languages.groove.quantise import PITCHES, TRIO, VELOCITY
from musicgen.languages.groove.time import BAR, TICKS, after_shift, after_shifts
from musicgen.languages.infill import Gap, gap_families
from musicgen.languages.vocabulary import Tokens, Vocabulary
from musicgen.midi.score import Notes, make_notes

PARTS = tuple(track.name.lower() for track in TRIO)
EXTENDED = Vocabulary({**FAMILIES, **gap_families(PARTS)})
"""The paper's tokens, and after them those for gaps."""
PART, GAP, FILL = (EXTENDED.first(family) for family in ("Part", "Gap", "Fill"))


class Walk(NamedTuple):
    """Time in a sequence with gaps.

    Attributes:
        ticks: Ticks since the beginning after each token, shape (tokens,).
        fills: The places of the tokens `Fill`.
    """

    ticks: Integers
    fills: list[int]


def bar_line(tick: int) -> int:
    """The bar line at a tick or after it."""
    return -(-tick // BAR) * BAR


def walk(tokens: Sequence[int] | NDArray[Any]) -> Walk:
    """Time in a sequence, which may have gaps."""
    ids = np.asarray(tokens, np.int64)
    shifts = np.where((ids >= SHIFT) & (ids < END), ids - SHIFT + 1, 0)
    ticks, fills, gaps = np.empty(len(ids), np.int64), list[int](), list[int]()
    begin, clock = 0, 0
    for place in [*np.flatnonzero((ids >= GAP) & (ids <= FILL)).tolist(), len(ids)]:
        ticks[begin:place] = clock + after_shifts(shifts[begin:place])
        if place == len(ids):
            break
        before = int(ticks[place - 1]) if place else 0
        if ids[place] == FILL:
            clock = gaps[len(fills)] if len(fills) < len(gaps) else bar_line(before)
            fills.append(place)
        else:
            is_part = place > 0 and PART <= ids[place - 1] < GAP
            gaps.append(bar_line(before))
            clock = gaps[-1] + (0 if is_part else BAR * int(ids[place] - GAP + 1))
        ticks[place], begin = clock, place + 1
    return Walk(ticks, fills)


def clock_of(tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
    """The time after each token in beats. It goes back only at `Fill`."""
    ticks, fills = walk(tokens)
    for begin, end in zip([0, *fills], [*fills, len(ticks)], strict=True):
        ticks[begin:end] = np.maximum.accumulate(ticks[begin:end])
    return ticks / TICKS


class GapClock:
    """The time of a piece that may have gaps, token by token."""

    def __init__(self) -> None:
        self._ticks = self._latest = 0
        self._gaps, self._answered, self._is_part = list[int](), 0, False

    def advance(self, token: int) -> float:
        """The time after a token, in beats."""
        if SHIFT <= token < END:
            self._ticks = after_shift(self._ticks, token - SHIFT + 1)
        elif token == FILL:
            has_gap = self._answered < len(self._gaps)
            self._ticks = self._latest = self._gaps[self._answered] if has_gap else bar_line(self._ticks)
            self._answered += 1
        elif GAP <= token < FILL:
            self._gaps.append(bar_line(self._ticks))
            self._ticks = self._gaps[-1] + (0 if self._is_part else BAR * (token - GAP + 1))
        self._is_part = PART <= token < GAP
        self._latest = max(self._latest, self._ticks)
        return self._latest / TICKS


def keys_of(part: int) -> NDArray[np.bool_]:
    """Which keys belong to a part, or all for -1, shape (384,)."""
    return (np.arange(KEYS) // PITCHES == part) | (part < 0)


def cut_notes(notes: Notes, gaps: Sequence[Gap]) -> tuple[Integers, Integers, Integers, Integers]:
    """Notes as sequences with gaps have them.

    Returns:
        Start, end and key of each note, and the number of the gap in which it is missing (-1 for none), all (notes,).
    """
    start, stop, key = separate(notes)
    missing = np.full(len(start), -1)
    for number, gap in enumerate(gaps):
        is_own = keys_of(PARTS.index(gap.part) if gap.part else -1)[key]
        begin, end = BAR * gap.first, BAR * gap.end
        is_cut = is_own & (start < begin) & (stop > begin) & (stop < end)
        is_cut |= (missing >= 0) & (stop > begin)  # notes of a gap end where the next begins
        stop = np.where(is_cut, begin, stop)
        missing[is_own & (start >= begin) & (start < end)] = number
    return start, stop, key, missing


def take_out(notes: Notes, gaps: Sequence[Gap]) -> Tokens:
    """Notes of a trio as a sequence with gaps.

    Args:
        notes: As for `encode_notes`.
        gaps: The gaps, in order.
    """
    start, stop, key, missing = cut_notes(notes, gaps)
    stays = missing < 0
    places = np.array([BAR * gap.first for gap in gaps], np.int64)
    numbers = np.sort(np.append(events(start[stays], stop[stays], key[stays]), places * RANKS + KEYS))
    is_gap = np.flatnonzero(numbers % RANKS == KEYS)
    time = numbers // RANKS
    for place, gap in zip(is_gap, gaps, strict=True):
        time[place] += 0 if gap.part else BAR * gap.bars  # time jumps over the gap, as the next event sees it
    context = write_events(BEGIN, numbers, np.append(0, time[:-1]))
    # The tokens of gaps are written as those of key 0: their places are found by counting events.
    event = np.append(False, (context[1:] < SHIFT))
    at = np.flatnonzero(event)[is_gap]
    context[at] = [GAP + gap.bars - 1 for gap in gaps]
    parts = [(place, PART + PARTS.index(gap.part)) for place, gap in zip(at, gaps, strict=True) if gap.part]
    context = np.insert(context, [place for place, _ in parts], [part for _, part in parts])
    fills = []
    for number, gap in enumerate(gaps):
        own = missing == number
        inside = events(start[own], stop[own], key[own])
        begin = np.append(BAR * gap.first, (inside // RANKS)[:-1])[: len(inside)]
        fills.append(write_events(FILL, inside, begin))
    return np.concatenate([context, *fills, [END]]).astype(np.uint16)


def read_notes(tokens: Sequence[int] | NDArray[Any]) -> Notes:
    """All notes of a sequence, which may have gaps: those that stayed, and those of the fills."""
    ids = np.asarray(tokens, np.int64)
    ids = ids[np.cumsum(ids == END) == 0]
    ticks, fills = walk(ids)
    parts = []
    for begin, end in zip([0, *fills], [*fills, len(ids)], strict=True):
        own = np.flatnonzero((ids[begin:end] < END) & (ids[begin:end] >= 0)) + begin
        parts.append(decode_events(ids[own], ticks[own])[0].notes)
    return np.concatenate(parts)


def put_in(tokens: Sequence[int] | NDArray[Any]) -> Tokens:
    """The piece that a sequence with gaps stands for, without gaps.

    Raises:
        TokenError: It has no notes.
    """
    return encode_notes(read_notes(tokens))


def joined(start: Integers, stop: Integers, key: Integers) -> Notes:
    """Notes of a trio by key."""
    return make_notes(start, stop, key % PITCHES, VELOCITY, key // PITCHES)
