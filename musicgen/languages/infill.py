"""Infilling: bars are taken out of the middle of a piece and written again at its end, where everything else is known.

A sequence with gaps reads: the piece, with `Gap_n` where n bars are missing; then, for each gap in order, `Fill` and
the missing bars; then the end. `Part_drums Gap_n` takes out one instrument only, and the others play on. Musical time
jumps over a gap at `Gap_n` and returns to it at `Fill`, so moved bars keep the time that they have in the piece.

A note belongs to the bar in which it begins. Notes that begin before a gap and end in it end where it begins; those
that sound to its end or longer are held through it. Notes of a gap keep their lengths, but end where their key is
struck again or where the next gap begins.

Design note: a memory of constant size knows least of what it read first, and that is what stands before the gap. So
the bars just before a gap go with it: the sequence has a larger gap, and its fill begins with these bars, the lead. The
lead is given. The model comes from it to the missing bars as it comes to any new bar, and knows what follows.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.mask import ConstraintMask
from musicgen.languages.vocabulary import Tokens
from musicgen.midi.score import Score
from musicgen.request import PromptReading

if TYPE_CHECKING:
    from musicgen.languages.language import Language

LONGEST_GAP = 16
"""The most bars of a gap."""
SEVERAL = 0.125
"""Chance that a training example has two gaps."""
ONE_PART = 0.25
"""Chance that a gap of a training example is one of one instrument, in languages with instruments."""


MOST_LEAD = 4
"""The most bars of a lead."""
LEADS = "leads"
"""The key of a prompt's setting that holds, for each gap, how many bars its lead has, and their tokens."""
_GAPS = 3
"""The purpose of the random numbers that draw gaps; examples themselves use 1 and 2."""


class Gap(NamedTuple):
    """Bars that are missing.

    Attributes:
        first: The first of them, counted from 0.
        bars: How many.
        part: The instrument that is missing; empty for all.
    """

    first: int
    bars: int
    part: str = ""

    @property
    def end(self) -> int:
        """The bar after the last."""
        return self.first + self.bars

    def __str__(self) -> str:
        bars = f"{self.first + 1}" if self.bars == 1 else f"{self.first + 1}-{self.end}"
        return f"{self.part}:{bars}" if self.part else bars


class Gapped(NamedTuple):
    """A piece that was read, and the gaps in it.

    Attributes:
        piece: Its tokens, without gaps.
        gaps: The gaps, as tokens count bars.
        bars: How many bars it has.
        setting: As in `Prompt`.
        report: What was read, and what quantising did to it.
        score: The piece as it was read.
    """

    piece: Tokens
    gaps: Sequence[Gap]
    bars: int
    setting: Mapping[str, Any]
    report: str
    score: Score


def gap_families(parts: Sequence[str] = ()) -> dict[str, list[str]]:
    """The token families that a vocabulary with gaps has after all others."""
    one_part = {"Part": list(parts)} if parts else {}
    return {**one_part, "Gap": [str(bars) for bars in range(1, LONGEST_GAP + 1)], "Fill": [""]}


class Infill(abc.ABC):
    """What a language with gaps can do.

    Args:
        language: The language.
        parts: Instruments that can be missing alone.
    """

    def __init__(self, language: Language, parts: Sequence[str] = ()) -> None:
        self.language, self.parts = language, tuple(parts)
        self.fill: int = language.vocabulary["Fill"]

    has_tempo: ClassVar[bool] = False
    """Whether tokens hold tempos and chords."""

    def beats(self, score: Score, gap: Gap) -> tuple[float, float]:  # noqa: ARG002
        """Where a gap of a piece begins and ends, in beats."""
        return 4.0 * gap.first, 4.0 * gap.end

    @abc.abstractmethod
    def take_out(self, piece: Tokens, gaps: Sequence[Gap], bars: int | None = None) -> Tokens:
        """A piece with gaps, and its missing bars after it.

        Args:
            piece: A piece without gaps, or the beginning of one.
            gaps: The gaps, in order.
            bars: Keep only this many bars of the piece; None keeps all.
        """

    @abc.abstractmethod
    def put_in(self, tokens: Sequence[int] | NDArray[Any]) -> Tokens:
        """The whole piece without gaps that a sequence with gaps stands for. What is not filled stays empty."""

    @abc.abstractmethod
    def mask(self, constraints: Constraints, tokens: Sequence[int], setting: Mapping[str, Any]) -> ConstraintMask:
        """What may follow in a sequence with gaps that has come to its first `Fill`, or further.

        Args:
            constraints: What new music must keep to. Lengths are those of the gaps.
            tokens: The sequence so far.
            setting: The setting of the prompt.

        Raises:
            UserError: The constraints cannot be kept.
        """

    @abc.abstractmethod
    def lead_of(self, fill: Tokens, beats: NDArray[np.float64], start: float) -> Tokens:
        """The beginning of a fill that is before a bar line.

        Args:
            fill: The tokens of a fill after `Fill`.
            beats: The time after each of them.
            start: The time of the bar line.
        """

    def begin(self, piece: Tokens, gaps: Sequence[Gap]) -> tuple[list[int], dict[str, Any]]:
        """A sequence with gaps up to its first `Fill`, and the part of its setting that holds the leads.

        Args:
            piece: A piece without gaps.
            gaps: The gaps to fill, in order.
        """
        whole = self.put_in(self.take_out(piece, gaps))  # notes before a gap end where it begins
        wider = self.widen(whole, gaps)
        tokens, score = self.take_out(whole, wider), self.language.decode(whole)
        beats, fills = self.language.clock(tokens), np.flatnonzero(tokens == self.fill)
        leads = []
        for gap, wide, first, end in zip(gaps, wider, fills, [*fills[1:], len(tokens)], strict=True):
            inside, lead = slice(first + 1, end), gap.first - wide.first
            start = self.beats(score, gap)[0]
            leads.append((lead, self.lead_of(tokens[inside], beats[inside], start).tolist() if lead else []))
        return tokens[: int(fills[0]) + 1].tolist(), {LEADS: leads}

    def finish(self, piece: Tokens, gaps: Sequence[Gap], tokens: Sequence[int] | NDArray[Any]) -> Tokens:
        """The whole piece, outside the gaps as it was.

        Args:
            piece: As for `begin`.
            gaps: As for `begin`.
            tokens: The sequence that began so, with all its fills.
        """
        given, made = self.take_out(piece, gaps), self.take_out(self.put_in(tokens), gaps)
        before, after = (int((sequence == self.fill).argmax()) for sequence in (given, made))
        return self.put_in(np.concatenate([given[:before], made[after:]]))

    def widen(self, piece: Tokens, gaps: Sequence[Gap]) -> list[Gap]:
        """The gaps with their leads: as many of the bars before them as can go with them."""
        score, wider = self.language.decode(piece), list[Gap]()
        for gap in gaps:
            nearest = wider[-1].end + 1 if wider else 0  # a bar stays between two gaps
            most = min(MOST_LEAD, gap.first - nearest, LONGEST_GAP - gap.bars)
            choices = (Gap(gap.first - lead, gap.bars + lead, gap.part) for lead in range(most, 0, -1))
            wider.append(next((wide for wide in choices if self._can_lead(piece, score, wide, gap)), gap))
        return wider

    def _can_lead(self, piece: Tokens, score: Score, wide: Gap, gap: Gap) -> bool:
        """Whether a gap can begin earlier: no note of its lead is held through the gap."""
        begin, start = (self.beats(score, each)[0] * score.ticks_per_beat for each in (wide, gap))
        notes = score.notes
        is_held = (notes["start"] >= begin) & (notes["start"] < start) & (notes["end"] > start)
        return self.can_take_out(piece, [wide]) and not is_held.any()

    @abc.abstractmethod
    def read(self, source: Path | str | Score, gaps: Sequence[Gap], reading: PromptReading) -> Gapped:
        """A piece with gaps.

        Args:
            source: A MIDI file or a score.
            gaps: The gaps, as the user counts bars.
            reading: How it is read.

        Raises:
            UserError: It cannot be used; the message says why.
        """

    @abc.abstractmethod
    def tracks(self, score: Score) -> list[tuple[int, ...]]:
        """The tracks of a piece that each track of the music in tokens comes from."""

    def example(self, piece: Tokens, length: int, random: np.random.Generator) -> Tokens | None:
        """A training example with gaps: at most `length` + 1 tokens of the beginning of a piece.

        Args:
            piece: The beginning of a piece, or all of it.
            length: Tokens in a window.
            random: Draws the gaps.

        Returns:
            None if the piece has no two bars that fit.
        """
        bars = self.bars_within(piece, length)
        while bars >= 2:
            gaps = self.draw(bars, random)
            if self.can_take_out(piece, gaps):
                tokens = self.take_out(piece, gaps, bars)
                if len(tokens) <= length + 1:
                    return tokens
            bars -= 1
        return None

    def bars_within(self, piece: Tokens, length: int) -> int:
        """Bars of a piece that are in its first tokens, all of it or `length`."""
        bars = int(self.language.complete_bars(piece)[min(length, len(piece) - 1)])
        return bars + (len(piece) <= length)  # the last bar of a piece may end before its bar line

    def can_take_out(self, piece: Tokens, gaps: Sequence[Gap]) -> bool:  # noqa: ARG002
        """Whether these bars can be missing."""
        return True

    def draw(self, bars: int, random: np.random.Generator) -> tuple[Gap, ...]:
        """Random gaps in a piece of some bars; at least one bar stays."""
        most = min(LONGEST_GAP, bars - 1)
        size = int(random.integers(1, most, endpoint=True))
        first = int(random.integers(bars - size, endpoint=True))
        places = [(first, size)]
        later = bars - first - size - 1  # after a bar that stays
        if later >= 1 and random.random() < SEVERAL:
            second = int(random.integers(1, min(later, most), endpoint=True))
            places.append((first + size + 1 + int(random.integers(later - second, endpoint=True)), second))
        return tuple(Gap(*place, self._part(random)) for place in places)

    def _part(self, random: np.random.Generator) -> str:
        if not self.parts or random.random() >= ONE_PART:
            return ""
        return self.parts[int(random.integers(len(self.parts)))]


class GapShare:
    """Takes bars out of a share of training examples.

    Args:
        infill: The gaps of the language; may be None if the share is 0.
        share: The share, from 0 to 1.
        length: Tokens in a window.
    """

    def __init__(self, infill: Infill | None, share: float, length: int) -> None:
        self._infill, self._share, self._length = infill, share, length

    def __call__(self, piece: Tokens, random: Callable[[int], np.random.Generator]) -> Tokens:
        """An example of at most length + 1 tokens, from the beginning of a piece that may be longer."""
        if self._infill is not None and self._share > 0:
            chance = random(_GAPS)
            if chance.random() < self._share:
                example = self._infill.example(piece, self._length, chance)
                if example is not None:
                    return example
        return piece[: self._length + 1]


def parse_gaps(text: str, parts: Sequence[str]) -> tuple[Gap, ...]:
    """The gaps that a user asks for: `9-12`, `9-12,17-18`, `drums:5-8`; bars are counted from 1.

    Args:
        text: What the user wrote.
        parts: Instruments of the language.

    Raises:
        UserError: It cannot be read, or gaps overlap.
    """
    gaps = sorted(_parse_gap(text, word.strip(), parts) for word in text.split(","))
    for one, other in pairwise(gaps):
        if other.first < one.end:
            raise UserError(f"fill={text}: {one} and {other} overlap; fill them one after the other")
    return tuple(gaps)


def _parse_gap(text: str, word: str, parts: Sequence[str]) -> Gap:
    part, _, bars = word.rpartition(":")
    part = part.strip().lower()
    low, _, high = bars.partition("-")
    try:
        first, last = int(low), int(high or low)
    except ValueError:
        like = f"9-12, 9-12,17-18 or {parts[0]}:9-12" if parts else "9-12 or 9-12,17-18"
        raise UserError(f"fill={text}: not bars; write them as {like}") from None
    if part and part not in parts:
        known = f"this model plays {', '.join(parts)}" if parts else "this model plays one instrument"
        raise UserError(f"fill={text}: {known}")
    if not 1 <= first <= last:
        raise UserError(f"fill={text}: bars are counted from 1, and the lower number comes first")
    if last - first >= LONGEST_GAP:
        raise UserError(f"fill={text}: a gap has at most {LONGEST_GAP} bars; write {first}-{first + 15},{first + 16}-…")
    return Gap(first - 1, last - first + 1, part)


def check_gaps(gaps: Sequence[Gap], bars: int, skipped: int = 0) -> tuple[Gap, ...]:
    """Gaps in the bars that tokens have.

    Args:
        gaps: The gaps.
        bars: Bars of the piece.
        skipped: Empty bars before it that tokens leave out.

    Raises:
        UserError: A gap is not in the piece, or is all of it.
    """
    for gap in gaps:
        if gap.end > bars + skipped:
            raise UserError(f"fill={gap}: the piece has {bars + skipped} bars")
        if gap.first < skipped:
            raise UserError(f"fill={gap}: the piece begins with bar {skipped + 1}; give bars from there on")
    if sum(gap.bars for gap in gaps if not gap.part) >= bars:
        raise UserError(f"fill={','.join(map(str, gaps))}: this is the whole piece; leave some bars to go by")
    return tuple(gap._replace(first=gap.first - skipped) for gap in gaps)
