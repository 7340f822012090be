"""The bars of a piece, in metres that a token language can say: one rule for prompts and for corpora.

A metre that tokens lack is read as another whose bars it fills: 8/8 as 4/4, four bars of 1/4 as one of 4/4, one of 9/4
as three of 3/4. An incomplete first bar becomes a whole one that begins with a rest. An incomplete bar elsewhere is
written in the metre of its length, or joined with the bar after it, or filled with a rest. Tokens with one metre go on
counting bars over such places. Where a metre cannot be said at all, the piece ends, and words for a report say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grid import TokenError
from musicgen.midi.score import ChordMark, Score, TimeSignature
from musicgen.midi.write import signatures

Metre = tuple[int, int]
"""Numerator and denominator of a time signature."""
COMMON: Metre = (4, 4)
FOREVER = 1 << 40


class InMetres(NamedTuple):
    """A piece in metres that can be said.

    Attributes:
        score: The piece. Each of its time signatures can be said and holds for whole bars; the first is at tick 0. Bars
            without notes in other metres before it are gone.
        done: What was done to its bars; empty if nothing was.
        end: The tick of the file at which it ends because of its metre.
        cut: Why it ends there; empty if all of it is used.
    """

    score: Score
    done: str = ""
    end: int = FOREVER
    cut: str = ""

    @property
    def words(self) -> str:
        """All that a report says about it."""
        return ", ".join(filter(None, [self.done, self.cut]))


class _Bar(NamedTuple):
    """A bar: where it begins in the file, how long it is there, both in quarter notes, and the metre that says it."""

    start: Fraction
    length: Fraction
    metre: Metre


def in_metres(score: Score, metres: Sequence[Metre]) -> InMetres:
    """A piece in metres that can be said, up to the first bar for which there is none.

    Bars before the first note and after the last do not matter.

    Raises:
        TokenError: The metre of the first note cannot be said.
    """
    used = _used(score)
    if len(used) == 1 and used[0][1:] in metres and used[0].tick == 0:  # by far the most common case
        return InMetres(score if used == score.time_signatures else score.replace(time_signatures=used))
    spans, words, end, cut = list[tuple[Fraction, Metre]](), list[str](), FOREVER, ""
    for place, (tick, *given) in enumerate(used):
        start, metre = Fraction(tick, score.ticks_per_beat), _read_as((given[0], given[1]), metres)
        name, after = _name(given), _pickup(used, metres, score.ticks_per_beat) if place == 0 else None
        if after is not None:
            spans.append(after)
            words.append(f"the first bar ({name}) begins with a rest")
        elif metre is None:
            where = f"{name} from beat {tick // score.ticks_per_beat + 1} on"
            if place == 0:
                known = _name(metres[0]) if len(metres) == 1 else "a metre that tokens can say"
                raise TokenError(f"not in {known} ({where})")
            cut = f"{where} cannot be said, so only what is before it is used"
            score, end = score.replace(notes=score.notes[score.notes["start"] < tick]), tick
            break
        else:
            note = f"{name} read as {_name(metre)}"
            if name != _name(metre) and note not in words:
                words.append(note)
            if not (len(metres) == 1 and spans):
                spans.append((start, metre))
    return InMetres(_rebarred(score, spans, metres), ", ".join(words), end, cut)


def in_whole_bars(score: Score, metres: Sequence[Metre]) -> Score:
    """A piece with notes in metres that can be said. A piece of which only a part can be said stays as it is."""
    read = in_metres(score, metres)
    return score if read.cut else read.score


def _used(score: Score) -> tuple[TimeSignature, ...]:
    """The time signatures of bars with notes, one for each change."""
    first, last = (int(at(score.notes["start"])) if len(score.notes) else 0 for at in (np.min, np.max))
    changes: list[TimeSignature] = []
    for item in signatures(score):
        if item.tick <= last and not (changes and changes[-1][1:] == item[1:]):
            changes.append(item)
    ends = [*(item.tick for item in changes[1:]), last + 1]
    return tuple(item for item, end in zip(changes, ends, strict=True) if end > first)


def _read_as(metre: Metre, metres: Sequence[Metre]) -> Metre | None:
    """The metre that says another: of the same length, of several bars of it, or of a part of a bar; None if none."""
    if metre in metres:
        return metre
    ordered = sorted(metres, key=lambda item: item != COMMON)  # 4/4 first
    ratios = [_quarters(item) / _quarters(metre) for item in ordered]
    tests: list[Callable[[Fraction], bool]] = [
        lambda ratio: ratio == 1,
        lambda ratio: ratio.denominator == 1,
        lambda ratio: ratio.numerator == 1,
    ]
    for test in tests:
        for item, ratio in zip(ordered, ratios, strict=True):
            if test(ratio):
                return item
    return None


def _pickup(
    used: Sequence[TimeSignature], metres: Sequence[Metre], ticks_per_beat: int
) -> tuple[Fraction, Metre] | None:
    """If a piece begins with less than a bar in a metre of its own: where a whole bar would begin, and its metre."""
    if len(used) < 2 or used[0][1:] in metres:
        return None
    metre = _read_as(used[1][1:], metres)
    if metre is None or Fraction(used[1].tick - used[0].tick, ticks_per_beat) >= _quarters(metre):
        return None
    return Fraction(used[1].tick, ticks_per_beat) - _quarters(metre), metre


def _rebarred(score: Score, spans: list[tuple[Fraction, Metre]], metres: Sequence[Metre]) -> Score:
    """A piece in whole bars.

    Args:
        score: The piece.
        spans: Where metres begin, in quarter notes.
        metres: The metres that can be said.
    """
    last = Fraction(int(score.notes["start"].max()) + 1, score.ticks_per_beat)
    ends = [*(start for start, _ in spans[1:]), None]
    bars = list[_Bar]()
    for (start, metre), end in zip(spans, ends, strict=True):
        length = _quarters(metre)
        for number in range(max(-((start - (last if end is None else end)) // length), 0)):
            begin = start + number * length
            bars.append(_Bar(begin, length if end is None else min(length, end - begin), metre))
    late = -bars[0].start
    places, shifts, changes = list[Fraction](), list[Fraction](), list[TimeSignature]()
    bars.reverse()
    while bars:
        start, length, metre = bars.pop()
        if length < _quarters(metre):
            alone = _of_length(length, metre, metres)
            both = _of_length(length + bars[-1].length, bars[-1].metre, metres) if bars else None
            if alone is not None:
                metre = alone
            elif both is not None:
                metre, length = both, length + bars.pop().length
        places.append(start)
        shifts.append(late)
        if not changes or changes[-1][1:] != metre:
            changes.append(TimeSignature(round((start + late) * score.ticks_per_beat), *metre))
        late += _quarters(metre) - length
    return _moved(score.replace(time_signatures=tuple(changes)), places, shifts)


def _of_length(length: Fraction, like: Metre, metres: Sequence[Metre]) -> Metre | None:
    """The metre with bars of some length; if there are several, one that counts as another does."""
    found = [metre for metre in metres if _quarters(metre) == length]
    return min(found, key=lambda metre: metre[1] != like[1], default=None)


def _moved(score: Score, places: list[Fraction], shifts: list[Fraction]) -> Score:
    """A piece in which everything from each place on is later by some time; both in quarter notes."""
    if not any(shifts):
        return score
    starts = np.array([round(place * score.ticks_per_beat) for place in places])
    later = np.array([round(shift * score.ticks_per_beat) for shift in shifts])

    def move(ticks: NDArray[Any]) -> NDArray[np.int64]:
        moved: NDArray[np.int64] = ticks + later[(np.searchsorted(starts, ticks, side="right") - 1).clip(0)]
        return moved

    notes, tempos = score.notes.copy(), score.tempos.copy()
    notes["start"] = move(score.notes["start"])
    notes["end"] = notes["start"] + score.notes["end"] - score.notes["start"]
    tempos["tick"] = np.where(tempos["tick"] <= 0, tempos["tick"], move(tempos["tick"]))
    ticks = move(np.array([mark.tick for mark in score.chords], np.int64)).tolist()
    chords = tuple(ChordMark(tick, mark.chord) for tick, mark in zip(ticks, score.chords, strict=True))
    return score.replace(notes=notes, tempos=tempos, chords=chords)


def _quarters(metre: Sequence[int]) -> Fraction:
    """The length of a bar in quarter notes."""
    return Fraction(4 * metre[0], metre[1])


def _name(metre: Sequence[int]) -> str:
    return f"{metre[0]}/{metre[1]}"
