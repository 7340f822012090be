"""Instruments of a prompt play on: none rests for longer than it did in the prompt, or than a bar.

Design note: in events, silence feeds itself. An instrument that misses its place once has a rest behind it that the
prompt never had, and a model that copies what it heard goes on with that rest. This rule says only when an instrument
has to play again. The model still says what it plays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.groove.quantise import PITCHES, TRIO
from musicgen.languages.groove.time import BAR
from musicgen.languages.mask import Mask

FOREVER = 1 << 40


class Presence:
    """Follows when each instrument played last.

    Args:
        begins: The tick at which the prompt ends.
        notes: Which notes may begin after it, shape (384,). Nobody waits for an instrument that has none.
    """

    def __init__(self, begins: int, notes: Mask) -> None:
        self._begins = begins
        self._may_play = np.asarray(notes.reshape(len(TRIO), PITCHES).any(1))
        self._last = np.zeros(len(TRIO), np.int64)
        self._longest = np.full(len(TRIO), BAR)
        self._is_heard = np.zeros(len(TRIO), np.bool_)

    def note(self, number: int, clock: int) -> None:
        """A note begins."""
        track = number // PITCHES
        if clock < self._begins:
            self._longest[track] = max(self._longest[track], clock - self._last[track])
            self._is_heard[track] = bool(self._may_play[track])
        self._last[track] = clock

    @property
    def due(self) -> NDArray[np.int64]:
        """The tick at which each instrument has to play at the latest, shape (3,)."""
        rest = np.maximum(self._longest, self._begins - self._last)
        return np.where(self._is_heard, self._last + rest, FOREVER)

    def wait(self, shifts: Mask, others: Mask, notes: Mask, clock: int, later: NDArray[np.int_], end: int) -> None:
        """Do not pass the moment at which an instrument has to play, and begin no higher note before it has played.

        An instrument that cannot play at this moment (too many notes sound) is not waited for.

        Args:
            shifts: Whether each shift may follow; changed in place, like the others.
            others: Whether what else would end the moment may follow.
            notes: Whether each note may begin, shape (384,).
            clock: The present tick.
            later: The ticks to which shifts lead.
            end: The tick at which the piece ends; nobody has to play from there on.
        """
        due = self.due
        due[due >= end] = FOREVER
        shifts &= later <= due[due > clock].min(initial=FOREVER)
        for track in np.flatnonzero(due <= clock):
            if notes[PITCHES * track : PITCHES * (track + 1)].any():
                notes[PITCHES * (track + 1) :] = False
                shifts[:] = others[:] = False
                return
