"""The grammar of grooves: the table, and the counters that its conditions ask.

The hard choice: the grammar accepts exactly what the encoder writes, so that a sequence and a trio are one to one.
At one time notes end before others begin, each in the order of track and pitch; time goes on, by whole two beats
first and then at most one shift more; nothing is ended that does not sound, nor struck that does; and a piece ends
with the end of its last note.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.tokens.grammar import Grammar, Rule
from musicgen.tokens.groove_quantise import PITCHES, TICKS, TRIO
from musicgen.tokens.vocabulary import Vocabulary

LATER = "later"
STILL_LATER = "after two whole beats"
SOUNDING = "a note that sounds, above the last"
SILENT = "a note that is silent, above the last"
QUIET = "nothing sounds"

RULES = (
    Rule("start", "BOS", "begun"),
    Rule("begun", "NoteOn", "on", SILENT),
    Rule("begun", "Shift", "shift", LATER),
    Rule("on", "NoteOn", "on", SILENT),
    Rule("on", "Shift", "shift", LATER),
    Rule("shift", "NoteOff", "off", SOUNDING),
    Rule("shift", "NoteOn", "on", SILENT),
    Rule("shift", "Shift", "shift", STILL_LATER),
    Rule("off", "NoteOff", "off", SOUNDING),
    Rule("off", "NoteOn", "on", SILENT),
    Rule("off", "Shift", "shift", LATER),
    Rule("off", "EOS", "ended", QUIET),
)

LONGEST = 2 * TICKS
"""Shifts go to 1 to 24 ticks from the beginning of the present beat; those further than the longest follow it."""


@dataclass
class Moment:
    """Where in a piece we are.

    Attributes:
        beat: Beats since the beginning.
        tick: The tick in the beat.
        is_open: Whether the last shift was by two whole beats, so that another may follow.
        last_on: The number of the note that began last at this time; -1 before the first.
        last_off: ... that ended last at this time.
        sounding: Which notes sound, by track and pitch in one number, shape (384,).
    """

    beat: int = 0
    tick: int = 0
    is_open: bool = False
    last_on: int = -1
    last_off: int = -1
    sounding: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(len(TRIO) * PITCHES, np.bool_))

    def update(self, family: str, value: int) -> None:
        """Take note of a token."""
        if family == "NoteOn":
            self.last_on, self.sounding[value] = value, True
        elif family == "NoteOff":
            self.last_off, self.sounding[value] = value, False
        elif family == "Shift":
            beats, self.tick = divmod(value + 1, TICKS)
            self.beat += beats
            self.is_open = value + 1 == LONGEST
            self.last_on = self.last_off = -1


CONDITIONS: dict[str, Any] = {
    # A shift of a beat or more is later whatever the tick, and the numbers are in order: to compare them is enough.
    LATER: lambda moment, shift: shift >= moment.tick,
    STILL_LATER: lambda moment, shift: (shift >= moment.tick) & moment.is_open,
    SOUNDING: lambda moment, note: (note > moment.last_off) & moment.sounding[note],
    SILENT: lambda moment, note: (note > moment.last_on) & ~moment.sounding[note],
    QUIET: lambda moment, _: not moment.sounding.any(),
}


def groove_grammar(vocabulary: Vocabulary) -> Grammar[Moment]:
    """The grammar of grooves over their vocabulary."""
    return Grammar(vocabulary, RULES, CONDITIONS, Moment, end="ended")
