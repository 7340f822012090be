"""The grammar of grooves with gaps: the table of grooves, three more families, and counters that know the gaps.

Design note: as without gaps, the grammar accepts exactly what is written by taking bars out of a piece. So in a fill
only notes of the gap begin, and each ends before its key is struck again after the gap. Notes that are held through a
gap end after it, in what follows, and not in its fill.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grammar import Grammar
from musicgen.languages.groove.codec import KEYS
from musicgen.languages.groove.gaps import bar_line, keys_of
from musicgen.languages.groove.grammar import (
    AFTER,
    CONDITIONS,
    LATER,
    QUIET,
    SILENT,
    SOUNDING,
    STILL_LATER,
    TABLE,
    Moment,
)
from musicgen.languages.groove.time import BAR, TICKS
from musicgen.languages.vocabulary import Vocabulary

FOREVER = 1 << 40
AT_BAR_LINE = "on a bar line, after the last gap"
UNFILLED = "nothing sounds, and a gap is not filled"
GAPS = {"Part": AT_BAR_LINE, "Gap": AT_BAR_LINE}

GAP_TABLE = {
    **TABLE,
    "begun": {**TABLE["begun"], **GAPS},
    "shift": {**TABLE["shift"], **GAPS},
    "off": {**TABLE["off"], **GAPS, "Fill": UNFILLED},
    "part": {"Gap": AT_BAR_LINE},
    "gap": {"NoteOff": SOUNDING, "NoteOn": SILENT, "Shift": LATER, **GAPS, "Fill": UNFILLED},
    "fill": {"NoteOn": SILENT, "Shift": LATER, "Fill": UNFILLED, "EOS": QUIET},
}
GAP_AFTER = {**AFTER, "Part": "part", "Gap": "gap", "Fill": "fill"}


@dataclass
class KnownGap:
    """A gap.

    Attributes:
        start, end: Its ticks.
        keys: Which keys are missing in it, shape (384,).
        held: Which keys are held through it, shape (384,).
        strikes: When each key is struck after it, or when the next gap begins, shape (384,).
    """

    start: int
    end: int
    keys: NDArray[np.bool_]
    held: NDArray[np.bool_]
    strikes: NDArray[np.int64] = field(default_factory=lambda: np.full(KEYS, FOREVER))


@dataclass
class GapMoment(Moment):
    """A place in a piece that may have gaps.

    Attributes:
        gaps: The gaps so far.
        answered: How many of them have a fill, complete or begun.
        part: The part of the gap that comes next; -1 for all.
    """

    gaps: list[KnownGap] = field(default_factory=list)
    answered: int = 0
    part: int = -1

    @property
    def gap(self) -> KnownGap | None:
        """The gap that is being filled, or else the one in which other parts play on; None in plain places."""
        if self.answered:
            return self.gaps[self.answered - 1]
        return self.gaps[-1] if self.gaps and self.clock < self.gaps[-1].end else None

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which sounding notes may end, shape (384,)."""
        gap = self.gap
        return self.sounding if gap is None else self.sounding & ~gap.held

    @property
    def strikable(self) -> NDArray[np.bool_]:
        """Which notes may begin, shape (384,)."""
        gap = self.gap
        if gap is None:
            return ~self.sounding
        if not self.answered:
            return ~self.sounding & ~gap.keys
        return ~self.sounding & gap.keys & (self.clock < gap.end)

    @property
    def due(self) -> NDArray[np.bool_]:
        """Which notes of a fill have to end now, shape (384,)."""
        return self.free & (self.gaps[self.answered - 1].strikes <= self.clock)

    def latest(self) -> int:
        """The latest tick to which time may go in a fill."""
        gap, free = self.gaps[self.answered - 1], self.free
        if free.any():
            return int(gap.strikes[free].min())
        return gap.end - 1 if self.strikable.any() else self.clock

    def update(self, family: str, value: int) -> None:
        """Add a token to the piece."""
        super().update(family, value)
        if family == "NoteOn":
            for gap in self.gaps if not self.answered else ():
                if self.clock >= gap.end:
                    gap.strikes[value] = min(gap.strikes[value], self.clock)
        elif family == "Gap":
            self._begin_gap(BAR * (value + 1))
        elif family == "Fill" and self.answered < len(self.gaps):
            gap = self.gaps[self.answered]
            self.answered += 1
            self.clock, self.sounding = gap.start, gap.held.copy()
            self.last_on = self.last_off = -1
            self.is_open = False
        self.part = value if family == "Part" else -1

    def _begin_gap(self, ticks: int) -> None:
        start, keys = bar_line(self.clock), keys_of(self.part)
        for gap in self.gaps:
            gap.strikes = np.minimum(gap.strikes, start)
        self.gaps.append(KnownGap(start, start + ticks, keys, self.sounding & keys))
        self.is_open = False
        if self.part < 0:
            self.clock, self.last_on, self.last_off = start + ticks, -1, -1
        else:
            self.clock, self.last_off = start, KEYS  # what ended at this time has ended


def _later(moment: GapMoment, shift: Any) -> Any:
    is_later = shift >= moment.clock % TICKS
    if not moment.answered:
        return is_later
    return is_later & (moment.clock - moment.clock % TICKS + shift + 1 <= moment.latest())


def _sounding(moment: GapMoment, note: Any) -> Any:
    may_end = (note > moment.last_off) & moment.free[note]
    if not moment.answered:
        return may_end
    due = moment.due
    return may_end & (note <= (int(due.argmax()) if due.any() else KEYS))


def _silent(moment: GapMoment, note: Any) -> Any:
    return (note > moment.last_on) & moment.strikable[note] & (not moment.answered or not moment.due.any())


def _unfilled(moment: GapMoment, _: Any) -> bool:
    rest = moment.free if moment.answered else moment.sounding
    return moment.answered < len(moment.gaps) and not rest.any()


def _quiet(moment: GapMoment, _: Any) -> bool:
    rest = moment.free if moment.answered else moment.sounding
    return moment.answered == len(moment.gaps) and not rest.any()


GAP_CONDITIONS: dict[str, Any] = {
    **CONDITIONS,
    LATER: _later,
    STILL_LATER: lambda moment, shift: _later(moment, shift) & moment.is_open,
    SOUNDING: _sounding,
    SILENT: _silent,
    QUIET: _quiet,
    UNFILLED: _unfilled,
    AT_BAR_LINE: lambda moment, _: (
        not moment.answered and moment.clock % BAR == 0 and (not moment.gaps or moment.clock >= moment.gaps[-1].end)
    ),
}


def gap_grammar(vocabulary: Vocabulary) -> Grammar[GapMoment]:
    """The grammar of grooves with gaps."""
    return Grammar(vocabulary, GAP_TABLE, GAP_AFTER, GAP_CONDITIONS, GapMoment, end="ended")
