"""A fill of a groove under constraints: the grammar's mask, combined with tracks, key, range and polyphony.

Tokens before the first `Fill` are given. After it nothing hangs, as in any new music, and each fill has a note if one
may begin in it. The grammar ends the notes of a fill in time for what follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.fill_mask import FillMask
from musicgen.languages.grammar import Grammar
from musicgen.languages.groove.gap_grammar import GapMoment
from musicgen.languages.groove.mask import MOST_TICKS, SHIFTS, allowed_notes
from musicgen.languages.groove.presence import FOREVER
from musicgen.languages.groove.time import BAR, TICKS
from musicgen.languages.mask import Mask


class GrooveFillMask(FillMask[GapMoment]):
    """Follows one sequence with gaps.

    Args:
        grammar: The grammar of grooves with gaps.
        constraints: What new music must keep to.
        tokens: The sequence up to its first `Fill`, or further.
        setting: The setting of the prompt.

    Raises:
        UserError: The constraints cannot be kept.
    """

    def __init__(
        self,
        grammar: Grammar[GapMoment],
        constraints: Constraints,
        tokens: Sequence[int],
        setting: Mapping[str, Any],
    ) -> None:
        super().__init__(grammar, constraints, setting)
        if constraints.tempo is not None:
            raise UserError("tempo=: the bars of a groove that are filled have the tempo of the others; leave it out")
        self._polyphony = constraints.polyphony or len(MOST_TICKS)
        self._notes = allowed_notes(constraints)
        self._has_note, self._first = False, 0
        self._due = np.full(len(MOST_TICKS), FOREVER)  # when each note of the fill has to end
        for token in tokens:
            self.advance(token)
        for gap in self._state.counters.gaps:
            if not (self._notes & gap.keys).any():
                raise UserError("no note is left that may begin in the gap: choose other tracks or pitches")

    def advance(self, token: int) -> None:
        """Add a token to the sequence."""
        super().advance(token)
        on, off = self._ids["NoteOn"], self._ids["NoteOff"]
        moment = self._state.counters
        if moment.answered and on.start <= token < on.stop:
            self._has_note |= moment.clock >= self._first
            self._due[token - on.start] = moment.clock + MOST_TICKS[token - on.start]
        elif off.start <= token < off.stop:
            self._due[token - off.start] = FOREVER

    def _begin_gap(self) -> None:
        moment = self._state.counters
        self._has_note, self._first = False, moment.gaps[moment.answered - 1].start + BAR * self._lead_bars
        self._due[:] = FOREVER

    def _free_mask(self) -> Mask:
        mask, moment = self._state.mask(), self._state.counters
        if self.is_complete:
            return mask
        clock = moment.clock
        may_begin = moment.strikable & self._notes & (int(moment.sounding.sum()) < self._polyphony)
        mask[self._ids["NoteOn"]] &= may_begin
        if not self._has_note and may_begin.any():
            mask[self._ids["EOS"]] = mask[self._ids["Fill"]] = False
        later = clock - clock % TICKS + SHIFTS
        mask[self._ids["Shift"]] &= later <= self._due[self._due > clock].min(initial=FOREVER)
        if not moment.free.any():
            mask[self._ids["Shift"]] &= bool(may_begin.any())
        first = int((self._due <= clock).argmax())
        if self._due[first] <= clock and mask[self._ids["NoteOff"]][first]:
            mask[self._ids["NoteOff"]][first + 1 :] = False  # a higher one would leave it behind
            mask[self._ids["NoteOn"]] = mask[self._ids["Shift"]] = False
        return mask
