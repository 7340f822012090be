"""The grammar of grooves: the table, and the counters that its conditions use.

Design note: the grammar accepts exactly what the encoder writes, so that token sequences and trios are one to one. At
one time notes end before others begin, each in the order of track and pitch. Time moves by shifts of two whole beats
and then at most one shorter shift. Only sounding notes end, only silent notes begin, and a piece ends with the end of
its last note.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grammar import Grammar
from musicgen.languages.groove.quantise import PITCHES, TRIO
from musicgen.languages.groove.time import BAR, LONGEST, TICKS, after_shift
from musicgen.languages.vocabulary import Vocabulary

LATER = "later"
STILL_LATER = "after two whole beats"
SOUNDING = "a note that sounds, above the last"
SILENT = "a note that is silent, above the last"
QUIET = "nothing sounds"

TABLE = {
    "start": {"BOS": ""},
    "begun": {"NoteOn": SILENT, "Shift": LATER},
    "on": {"NoteOn": SILENT, "Shift": LATER},
    "shift": {"NoteOff": SOUNDING, "NoteOn": SILENT, "Shift": STILL_LATER},
    "off": {"NoteOff": SOUNDING, "NoteOn": SILENT, "Shift": LATER, "EOS": QUIET},
}
AFTER = {"BOS": "begun", "NoteOn": "on", "Shift": "shift", "NoteOff": "off", "EOS": "ended"}


@dataclass
class Moment:
    """A place in a piece.

    Attributes:
        clock: Ticks since the beginning.
        is_open: Whether the last shift was by two whole beats, so that another may follow.
        last_on: The number of the note that began last at this time; -1 before the first.
        last_off: The number of the note that ended last at this time; -1 before the first.
        sounding: Which notes sound, by track and pitch in one number, shape (384,).
    """

    clock: int = 0
    is_open: bool = False
    last_on: int = -1
    last_off: int = -1
    sounding: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(len(TRIO) * PITCHES, np.bool_))

    @property
    def bars(self) -> int:
        """Bars that are complete."""
        return self.clock // BAR

    def update(self, family: str, value: int) -> None:
        """Add a token to the piece."""
        if family == "NoteOn":
            self.last_on, self.sounding[value] = value, True
        elif family == "NoteOff":
            self.last_off, self.sounding[value] = value, False
        elif family == "Shift":
            self.clock = after_shift(self.clock, value + 1)
            self.is_open = value + 1 == LONGEST
            self.last_on = self.last_off = -1


CONDITIONS: dict[str, Any] = {
    # A shift of a beat or more is always later, and the numbers are in order: comparing them is enough.
    LATER: lambda moment, shift: shift >= moment.clock % TICKS,
    STILL_LATER: lambda moment, shift: (shift >= moment.clock % TICKS) & moment.is_open,
    SOUNDING: lambda moment, note: (note > moment.last_off) & moment.sounding[note],
    SILENT: lambda moment, note: (note > moment.last_on) & ~moment.sounding[note],
    QUIET: lambda moment, _: not moment.sounding.any(),
}


def groove_grammar(vocabulary: Vocabulary) -> Grammar[Moment]:
    """The grammar of grooves over their vocabulary."""
    return Grammar(vocabulary, TABLE, AFTER, CONDITIONS, Moment, end="ended")
