"""The grammar of REMI with gaps: the table of REMI, two more families, and counters that know the gaps.

Design note: as without gaps, the grammar accepts exactly what is written by taking bars out of a piece. A fill has as
many bars as are missing and keeps their metre. Its notes end before their keys are struck again after the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grammar import Grammar
from musicgen.languages.remi.grammar import (
    AFTER,
    CLOSING,
    CONDITIONS,
    METRES,
    OTHER_CHORD,
    OTHER_METRE,
    SOUNDED,
    TABLE,
    Place,
)
from musicgen.languages.remi.tokens import PITCHES, TokenSet

FOREVER = 1 << 40
MISSING = "no note ends in the gap"
UNFILLED = "a gap is not filled"
IN_TIME = "it ends before its key is struck again"

GAP_TABLE = {
    **TABLE,
    **METRES,
    "bar": {**METRES["bar"], "Gap": MISSING, "Fill": UNFILLED},
    "metre": {**METRES["metre"], "Gap": MISSING},
    "velocity": {"Duration": IN_TIME},
    "gap": {"Bar": ""},
    "fill": {"Bar": ""},
}
GAP_AFTER = {**AFTER, "Metre": "metre", "Gap": "gap", "Fill": "fill"}


@dataclass
class KnownGap:
    """A gap, and the piece where it begins.

    Attributes:
        bar: Its first bar.
        bars: How many are missing.
        start, end: Its time in units.
        metre, tempo, chord, up_at: The counters before it.
        strikes: When each key is struck after it, or when the next gap begins, shape (88,).
        may_name_chords: Whether its fill may name chords: if there were none before, what follows has to name one.
    """

    bar: int
    bars: int
    start: int
    end: int
    metre: int
    tempo: int
    chord: int
    up_at: NDArray[np.int64]
    strikes: NDArray[np.int64] = field(default_factory=lambda: np.full(len(PITCHES), FOREVER))
    may_name_chords: bool = True


@dataclass
class GapPlace(Place):
    """A place in a piece that may have gaps.

    Attributes:
        gaps: The gaps so far.
        answered: How many of them have a fill, complete or begun.
    """

    gaps: list[KnownGap] = field(default_factory=list)
    answered: int = 0

    @property
    def gap(self) -> KnownGap:
        """The gap that is being filled."""
        return self.gaps[self.answered - 1]

    @property
    def is_filled(self) -> bool:
        """Whether the present section is complete: a fill has all its bars; other sections always are."""
        return not self.answered or self.bar >= self.gap.bar + self.gap.bars

    def is_after(self, gap: KnownGap) -> bool:
        """Whether this is the bar line at which a gap ends."""
        return self.bar == gap.bar + gap.bars and self.beat < 0

    def update(self, family: str, value: int) -> None:
        """Add a token to the piece."""
        if family == "Pitch" and not self.answered:
            for gap in self.gaps:
                gap.strikes[value] = min(gap.strikes[value], self.now)
        if not self.answered and (family in ("Pitch", "Bar") or (family == "Beat" and value > 0)):
            self._end_head()
        super().update(family, value)
        if family == "Gap":
            self._begin_gap(value + 1)
        elif family == "Fill" and self.answered < len(self.gaps):
            self.answered += 1
            gap = self.gap
            self.metre, self.tempo, self.chord, self.up_at = gap.metre, gap.tempo, gap.chord, gap.up_at.copy()
            self.bar, self.start = gap.bar - 1, gap.start - (self.length if gap.bar else 0)

    def _end_head(self) -> None:
        """What follows a gap names its chord at its first position, or has none."""
        for gap in self.gaps:
            if gap.chord < 0 and self.bar >= gap.bar + gap.bars and self.chord < 0:
                gap.may_name_chords = False

    def _begin_gap(self, bars: int) -> None:
        for gap in self.gaps:
            gap.strikes = np.minimum(gap.strikes, self.start)
        end = self.start + bars * self.length
        now = (self.metre, self.tempo, self.chord, self.up_at.copy())
        self.gaps.append(KnownGap(self.bar, bars, self.start, end, *now))
        self.bar += bars - 1
        self.start = end - self.length


def _missing(place: GapPlace, number: Any) -> Any:
    """Gaps in which no note of those before them ends. A whole bar stays between two gaps."""
    follows = bool(place.gaps) and place.bar <= place.gaps[-1].bar + place.gaps[-1].bars
    if place.answered or place.metre < 0 or follows:
        return np.zeros_like(number, np.bool_)
    ends = place.start + (np.asarray(number)[..., None] + 1) * place.length
    return ~((place.up_at > place.start) & (place.up_at < ends)).any(-1)


def _in_time(place: GapPlace, number: Any) -> Any:
    if not place.answered:
        return np.ones_like(number, np.bool_)
    return place.now + np.array(place.durations)[number] <= place.gap.strikes[place.pitch]


def _bar(place: GapPlace, _: Any) -> bool:
    """Bars may be empty after the first note, or after a gap, if the tempo is known."""
    return (place.notes > 0 or bool(place.gaps)) and place.tempo >= 0 and (not place.answered or not place.is_filled)


def _later(place: GapPlace, beat: Any) -> Any:
    return CONDITIONS["later in the bar"](place, beat) & (not place.answered or not place.is_filled)


GAP_CONDITIONS: dict[str, Any] = {
    **CONDITIONS,
    "later in the bar": _later,
    SOUNDED: _bar,
    MISSING: _missing,
    IN_TIME: _in_time,
    OTHER_METRE: lambda place, metre: (metre != place.metre) & (not place.answered),
    OTHER_CHORD: lambda place, chord: (chord != place.chord) & (not place.answered or place.gap.may_name_chords),
    UNFILLED: lambda place, _: place.answered < len(place.gaps) and place.is_filled,
    CLOSING: lambda place, _: (
        place.is_filled and place.answered == len(place.gaps) and (bool(place.gaps) or place.closed_notes > 0)
    ),
}


def gap_grammar(tokens: TokenSet) -> Grammar[GapPlace]:
    """The grammar of REMI with gaps over a set of tokens."""
    start = partial(GapPlace, tokens.bar_lengths, tokens.step, tokens.durations, -1)
    return Grammar(tokens.vocabulary, GAP_TABLE, GAP_AFTER, GAP_CONDITIONS, start, end="ended")
