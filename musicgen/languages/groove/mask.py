"""A groove under constraints: the grammar's mask, combined with length, tracks, key, range and polyphony.

No note hangs: a note that the model forgets to end must end after two bars, a drum after one beat. No instrument of a
prompt falls silent: see `presence.py`.

A piece of exact length ends when its last note ends. So before that moment a note always sounds or may still begin,
time never passes the end, and in the last moment notes end from the lowest up, which is the grammar's order.

Notes of a prompt that still sound continue in the new music. Nothing new happens before the bar line at which the
prompt ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.grammar import Grammar
from musicgen.languages.groove.grammar import Moment
from musicgen.languages.groove.presence import FOREVER, Presence
from musicgen.languages.groove.quantise import PITCHES, TRIO
from musicgen.languages.groove.time import BAR, LONGEST, TICKS
from musicgen.languages.mask import Mask, PieceMask

SHIFTS = np.arange(1, LONGEST + 1)
"""Where shifts lead, counted from the beginning of the present beat."""
TRACKS = tuple(track.name.lower() for track in TRIO)
MOST_TICKS = np.repeat([TICKS if track.is_drum else 2 * BAR for track in TRIO], PITCHES)
"""How long a note may last, by track and pitch. 26 of two million notes of real grooves last longer."""


class GrooveMask(PieceMask[Moment]):
    """Follows one piece.

    Args:
        grammar: The grammar of grooves.
        constraints: What new music must keep to.
        tokens: The beginning of the piece.
        prompt_bars: How many bars were given. New events come after them.
        tempo: Quarter notes per minute, for a length in seconds.

    Raises:
        UserError: The constraints cannot be kept.
    """

    def __init__(
        self, grammar: Grammar[Moment], constraints: Constraints, tokens: Sequence[int], prompt_bars: int, tempo: float
    ) -> None:
        super().__init__(grammar, constraints)
        self._limit = FOREVER
        if constraints.bars is not None:
            self._limit = BAR * constraints.bars
        elif constraints.seconds is not None:
            self._limit = int(constraints.seconds * tempo / 60 * TICKS + 1e-6)
        self._polyphony = constraints.polyphony or len(TRIO) * PITCHES
        self._notes = allowed_notes(constraints)
        self._begins = BAR * prompt_bars
        self._paper = grammar.vocabulary.ids["BOS"].stop
        self._due = np.full(len(MOST_TICKS), FOREVER)  # when each note that sounds has to end
        self._presence = Presence(self._begins, self._notes)
        for token in tokens:
            self.advance(token)
        self._check(prompt_bars)

    @property
    def _clock(self) -> int:
        return self._state.counters.clock

    def advance(self, token: int) -> None:
        """Add a token to the piece."""
        super().advance(token)
        began, ended = (token - self._ids[family].start for family in ("NoteOn", "NoteOff"))
        if 0 <= began < len(self._due):  # a note of the prompt may also last this long after the prompt
            self._due[began] = max(self._clock, self._begins) + MOST_TICKS[began]
            self._presence.note(began, self._clock)
        elif 0 <= ended < len(self._due):
            self._due[ended] = FOREVER

    def mask(self) -> Mask:
        """Whether each token may follow, shape (vocabulary,)."""
        mask = self._state.mask()
        if self._state.name in ("start", "ended"):
            return mask
        mask[self._paper :] = False  # new music has no gaps
        moment, clock, limit = self._state.counters, self._clock, self._limit
        sounding = int(np.count_nonzero(moment.sounding))
        has_begun = clock >= self._begins
        mask[self._ids["NoteOn"]] &= self._notes & (has_begun and clock < limit and sounding < self._polyphony)
        mask[self._ids["NoteOff"]] &= has_begun
        mask[self._ids["EOS"]] &= has_begun and clock > 0 and (limit == FOREVER or clock == limit)
        if clock == limit:
            self._keep_first(mask, "NoteOff")  # no note may be left behind
        later = clock - clock % TICKS + SHIFTS
        # Until the new music begins, only the longest shifts are allowed, because others may follow them.
        arrives = (later >= self._begins) | (SHIFTS == LONGEST)
        mask[self._ids["Shift"]] &= arrives & ((later < limit) | ((later == limit) & (sounding > 0)))
        if has_begun and not self._has_enough_tokens:
            shifts, end, notes = (mask[self._ids[family]] for family in ("Shift", "EOS", "NoteOn"))
            self._presence.wait(shifts, end, notes, clock, later, limit)
        self._end_what_is_due(mask, clock, later)
        return self._hurried(mask, sounding) if self._has_enough_tokens and has_begun else mask

    def _end_what_is_due(self, mask: Mask, clock: int, later: NDArray[np.int_]) -> None:
        """Do not pass a moment in which a note must end, and allow nothing else before it has ended."""
        mask[self._ids["Shift"]] &= later <= self._due[self._due > clock].min(initial=FOREVER)
        first = int((self._due <= clock).argmax())
        if self._due[first] <= clock and mask[self._ids["NoteOff"]][first]:
            mask[self._ids["NoteOff"]][first + 1 :] = False  # a higher one would leave it behind
            mask[self._ids["NoteOn"]] = mask[self._ids["Shift"]] = False

    def _hurried(self, mask: Mask, sounding: int) -> Mask:
        """Allow only what ends the piece soonest: the end, the end of a note, the next moment, or a last note."""
        for family in ("EOS", "NoteOff", "Shift") if sounding else ("EOS", "NoteOn"):
            if mask[self._ids[family]].any():
                kept = self._only(mask, family)
                self._keep_first(kept, family)
                return kept
        return mask

    def _keep_first(self, mask: Mask, family: str) -> None:
        """Keep only the lowest token of a family."""
        part = mask[self._ids[family]]
        first = int(part.argmax())
        part[first + 1 :] = False

    def _check(self, prompt_bars: int) -> None:
        """Check that the constraints can be kept."""
        constraints = self._constraints
        if not self._notes.any():
            raise UserError("no note is left that may begin: choose a wider range of pitches, or other tracks")
        begun = max(self._begins, self._clock)
        if begun and (self._limit <= begun or self._has_enough_tokens):
            self._refuse_length("the prompt", max(prompt_bars, self.bars), ", which is counted in")
        if self._limit < 1:
            raise UserError(f"seconds={constraints.seconds:g}: too short for a note")


def allowed_notes(constraints: Constraints) -> Mask:
    """Which notes may begin, by track and pitch, shape (384,). Keys and ranges do not apply to drums.

    Raises:
        UserError: A track does not exist, or grooves cannot keep a constraint.
    """
    if constraints.chords is not None:
        raise UserError("chords: models of grooves take no chords; leave this key out")
    tracks = TRACKS if constraints.tracks is None else constraints.tracks
    for name in tracks:
        if name not in TRACKS:
            raise UserError(f"tracks={' '.join(tracks)}: this model plays {', '.join(TRACKS)}")
    pitches = np.isin(np.arange(PITCHES), list(constraints.pitch_set()))
    everything = np.ones(PITCHES, np.bool_)
    rows = [
        (everything if track.is_drum else pitches) & (name in tracks) for name, track in zip(TRACKS, TRIO, strict=True)
    ]
    return np.concatenate(rows)
