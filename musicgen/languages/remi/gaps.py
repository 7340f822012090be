"""REMI with gaps: their time, and how bars are taken out and put back.

The `Bar` that begins a gap stays, with its `Metre` if it says one, and `Gap_n` follows it: n bars of that metre are
missing. Each section (what comes before, what follows, each fill) ends with the `Bar` after its last bar. What follows
a gap says metre, chord and tempo at its beginning if they differ from those before the gap.

Design note: a sequence is cut into sections of tokens. Only two things in them are rewritten: durations of notes that
end in a gap, and what the first bar of a section says about metre, chord and tempo.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grid import Integers, TokenError
from musicgen.languages.infill import Gap
from musicgen.languages.remi.clock import RemiClock
from musicgen.languages.remi.codec import lay_out
from musicgen.languages.remi.tokens import TokenSet
from musicgen.languages.vocabulary import Tokens

STATED = ("Metre", "Chord", "Tempo")
Stated = dict[str, int]
"""The tokens of metre, chord and tempo that are in force."""


def clock(ids: Sequence[int] | NDArray[Any], tokens: TokenSet) -> NDArray[np.float64]:
    """The time after each token, in quarter notes. It goes back only at `Fill`."""
    ids = np.asarray(ids, np.int64)
    words = tokens.vocabulary
    gap, fill, beats = words.ids["Gap"], words["Fill"], words.ids["Beat"]
    time, fills = np.empty(len(ids), np.int64), list[int]()
    gaps = list[tuple[int, int]]()
    begin, start, metre = 0, 0, tokens.common
    for place in [*np.flatnonzero((ids >= gap.start) & (ids <= fill)).tolist(), len(ids)]:
        part = ids[begin:place]
        layout = lay_out(part, tokens, start, metre)
        offset = np.where((part >= beats.start) & (part < beats.stop), tokens.step * (part - beats.start), 0)
        time[begin:place] = layout.start + np.where(offset < layout.length, offset, 0)
        if place == len(ids):
            break
        if len(part):
            start, metre = int(layout.start[-1]), int(layout.metre[-1])
        if ids[place] == fill:
            start, metre = gaps[len(fills)] if len(fills) < len(gaps) else (start, metre)
            fills.append(place)
        else:
            gaps.append((start, metre))
            start += int(ids[place] - gap.start + 1) * tokens.bar_lengths[metre]
        time[place], begin = start, place + 1
    for first, last in zip([0, *fills], [*fills, len(ids)], strict=True):
        time[first:last] = np.maximum.accumulate(time[first:last])
    return time / tokens.units


def complete_bars(ids: Sequence[int] | NDArray[Any], tokens: TokenSet) -> Integers:
    """How many bars are complete after each token: a `Bar` ends the one before, and a gap counts its bars."""
    ids, words = np.asarray(ids, np.int64), tokens.vocabulary
    gap, fill = words.ids["Gap"], words["Fill"]
    bars: Integers = np.cumsum(ids == words["Bar"]) - 1
    gaps, answered = list[int](), 0
    for place in np.flatnonzero((ids >= gap.start) & (ids <= fill)).tolist():
        here = int(bars[place])
        if ids[place] == fill:
            here = gaps[answered] if answered < len(gaps) else here
            answered += 1
        else:
            gaps.append(here)
            here += int(ids[place] - gap.start + 1)
        bars[place:] += here - 1 - int(bars[place])  # the next `Bar` begins this bar
        bars[place] = here
    return bars


class GapClock(RemiClock):
    """The time of a piece that may have gaps, token by token."""

    def __init__(self, tokens: TokenSet) -> None:
        super().__init__(tokens)
        self._gap, self._fill = tokens.vocabulary.ids["Gap"], tokens.vocabulary["Fill"]
        self._gaps, self._answered = list[tuple[int, int]](), 0

    def advance(self, token: int) -> float:
        """The time after a token, in quarter notes."""
        if token in self._gap:
            self._gaps.append((self._start, self._length))
            self._start, self._bars = self._start + (token - self._gap.start + 1) * self._length, 0
        elif token == self._fill:
            if self._answered < len(self._gaps):
                self._start, self._length = self._gaps[self._answered]
            self._answered, self._bars, self._latest = self._answered + 1, 0, self._start
        return super().advance(token)


class Heads:
    """What the first bars of sections say.

    Args:
        tokens: What tokens can say.
    """

    def __init__(self, tokens: TokenSet) -> None:
        words = tokens.vocabulary
        self._ids = {family: words.ids[family] for family in STATED}
        self._beat, self._pitch = words.first("Beat"), words.ids["Pitch"]

    def in_force(self, ids: NDArray[Any], before: Stated | None = None) -> Stated:
        """What is in force after some tokens."""
        stated = dict(before or {})
        for family, own in self._ids.items():
            said = ids[(ids >= own.start) & (ids < own.stop)]
            if len(said):
                stated[family] = int(said[-1])
        return stated

    def rewritten(self, section: NDArray[Any], before: Stated, now: Stated) -> NDArray[Any]:
        """A section that was written after some tokens, as it is written after others. It begins with a `Bar`.

        Args:
            section: Its tokens.
            before: What was in force before it.
            now: What is in force before it now.
        """
        if np.count_nonzero(section == section[0]) < 2 if len(section) else True:
            return section  # it has no whole bar
        own, place = dict[str, int](), 1
        if section[1] in self._ids["Metre"]:
            own["Metre"], place = int(section[1]), 2
        has_beat = place < len(section) and section[place] == self._beat
        if has_beat:
            place += 1
            for family in ("Chord", "Tempo"):
                if place < len(section) and section[place] in self._ids[family]:
                    own[family], place = int(section[place]), place + 1
        effect = before | own
        says = {family: token for family, token in effect.items() if token != now.get(family)}
        has_notes = has_beat and place < len(section) and section[place] in self._pitch
        named = [says[family] for family in ("Chord", "Tempo") if family in says]
        head = [int(section[0]), *([says["Metre"]] if "Metre" in says else [])]
        head += [self._beat, *named] if named or has_notes else []
        return np.concatenate([np.array(head, np.int64), section[place:]])


class Sections(NamedTuple):
    """A sequence with gaps in parts, without the tokens between them.

    Attributes:
        context: What is before the first gap, between gaps, and after the last.
        fills: What is in each gap.
        gaps: How many bars each has.
    """

    context: list[NDArray[np.int64]]
    fills: list[NDArray[np.int64]]
    gaps: list[int]


def take_out(piece: NDArray[Any], gaps: Sequence[Gap], tokens: TokenSet, bars: int | None = None) -> Tokens:
    """A piece as a sequence with gaps.

    Args:
        piece: Tokens of a piece or of its beginning.
        gaps: The gaps, in order.
        tokens: What tokens can say.
        bars: Keep only this many bars; None keeps all.

    Raises:
        TokenError: The metre changes in a gap.
    """
    words, heads = tokens.vocabulary, Heads(tokens)
    ids = np.asarray(piece, np.int64)
    ids = ids[(ids != words["EOS"]) & (ids != words["PAD"])]
    lines = np.flatnonzero(ids == words["Bar"])
    if bars is not None and bars < len(lines):
        ids = ids[: lines[bars] + 1]
    layout = lay_out(ids, tokens)
    ids = _cut_durations(ids, gaps, tokens, layout.start, lines)
    context, first, stated = list[NDArray[np.int64]](), 0, Stated()
    fills, then = [], Stated()
    for gap in gaps:
        begin, end = int(lines[gap.first]), int(lines[gap.end])
        if layout.is_metre[begin + 2 : end].any():
            raise TokenError(f"the metre changes in the bars {gap}")
        has_metre = bool(layout.is_metre[begin + 1 : begin + 2].any())
        head = heads.rewritten(ids[first : begin + 1 + has_metre], then, stated)
        context.append(head)
        stated = heads.in_force(head, stated)
        rest = ids[begin + 1 + has_metre : end + 1]
        fills.append(np.concatenate([ids[begin : begin + 1], rest]))
        then, first = heads.in_force(ids[: end + 1]), end
    # A fill is read after what came before its gap, as it is in the sequence.
    last = heads.rewritten(ids[first:], then, stated)
    known, written = Stated(), list[NDArray[np.int64]]()
    for section, fill, gap in zip(context, fills, gaps, strict=True):
        known = heads.in_force(section, known)
        true = heads.in_force(ids[: int(lines[gap.first]) + 1])
        true |= {"Metre": known["Metre"]} if "Metre" in known else {}
        written.append(heads.rewritten(fill, true, known))
    parts = [np.append(section, words.first("Gap") + gap.bars - 1) for section, gap in zip(context, gaps, strict=True)]
    answers = [np.insert(fill, 0, words["Fill"]) for fill in written]
    return np.concatenate([*parts, last, *answers, [words["EOS"]]]).astype(np.uint16)


def split_sections(ids: NDArray[np.int64], tokens: TokenSet) -> Sections:
    """The sections of a sequence with gaps."""
    words = tokens.vocabulary
    ids = ids[np.cumsum(ids == words["EOS"]) == 0]
    gap = words.ids["Gap"]
    parts = np.split(ids, np.flatnonzero(ids == words["Fill"]))
    sizes = parts[0][(parts[0] >= gap.start) & (parts[0] < gap.stop)] - gap.start + 1
    places = np.flatnonzero((parts[0] >= gap.start) & (parts[0] < gap.stop))
    context = [part[number > 0 :] for number, part in enumerate(np.split(parts[0], places))]
    fills = [part[1:] for part in parts[1 : len(sizes) + 1]]
    return Sections(context, fills, sizes.tolist())


def put_in(tokens: Sequence[int] | NDArray[Any], known: TokenSet) -> Tokens:
    """The piece that a sequence with gaps stands for, without gaps. Fills that are missing are empty bars."""
    words, heads = known.vocabulary, Heads(known)
    context, fills, sizes = split_sections(np.asarray(tokens, np.int64), known)
    whole, then = context[0], heads.in_force(context[0])
    for number, size in enumerate(sizes):
        bar = np.full(size + 1, words["Bar"])
        fill = fills[number] if number < len(fills) and len(fills[number]) else bar
        now = heads.in_force(whole)
        now |= {"Metre": then["Metre"]} if "Metre" in then else {}
        fill = heads.rewritten(fill, then, now)
        lines = np.flatnonzero(fill == words["Bar"])
        fill = np.concatenate([fill[1:], bar[: size + 1 - len(lines)]])  # bars that are missing are empty
        whole = np.concatenate([whole, fill])
        section = heads.rewritten(context[number + 1], then, heads.in_force(whole))
        then = heads.in_force(context[number + 1], then)
        whole = np.concatenate([whole[:-1], section]) if len(section) else whole
    return np.append(whole, words["EOS"]).astype(np.uint16)


def _cut_durations(
    ids: NDArray[np.int64], gaps: Sequence[Gap], tokens: TokenSet, starts: Integers, lines: Integers
) -> NDArray[np.int64]:
    """Tokens in which notes that end in a gap end where it begins, and notes of a gap where the next begins."""
    words, ids = tokens.vocabulary, ids.copy()
    durations, beats = words.ids["Duration"], words.ids["Beat"]
    place = np.flatnonzero((ids >= durations.start) & (ids < durations.stop))
    is_beat = (ids >= beats.start) & (ids < beats.stop)
    latest = np.maximum.accumulate(np.where(is_beat, np.arange(len(ids)), 0))[place]
    start = starts[place] + tokens.step * (ids[latest] - beats.start)
    end = start + tokens.lengths[ids[place] - durations.start]
    missing = np.zeros(len(place), np.bool_)
    for gap in gaps:
        begin, after = int(starts[lines[gap.first]]), int(starts[lines[gap.end]])
        is_cut = (start < begin) & (end > begin) & (end < after) | (missing & (end > begin))
        number = tokens.longest_within(begin - start)
        ids[place] = np.where(is_cut, durations.start + number, ids[place])
        end = np.where(is_cut, start + tokens.lengths[number], end)
        missing |= (start >= begin) & (start < after)
    return ids
