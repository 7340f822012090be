"""A groove under constraints: the grammar's mask, with those of length, tracks, key, range and polyphony.

No note hangs: one that a model forgets to end has to end after two bars, on the drums after a beat.

A piece of exact length ends in the moment of its last note's end. So before that there is always a note that sounds,
or one that may still begin; time does not pass the end, and in the last moment notes are let go from the lowest up,
which is the order that the grammar knows.

The hard choice: what a prompt has begun goes on. Its clock and the notes that sound in it are the guide's own, and
nothing new happens before the bar line at which the prompt ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.sampling.constraints import Constraints
from musicgen.tokens.groove import Groove
from musicgen.tokens.groove_grammar import LONGEST
from musicgen.tokens.groove_quantise import PITCHES, TICKS, TRIO

Mask = NDArray[np.bool_]

BAR = 4 * TICKS
FOREVER = 1 << 40
SHIFTS = np.arange(1, LONGEST + 1)
"""How far shifts go from the beginning of the present beat."""
TRACKS = tuple(track.name.lower() for track in TRIO)
MOST_TICKS = np.repeat([TICKS if track.is_drum else 2 * BAR for track in TRIO], PITCHES)
"""How long a note may last, by track and pitch. Of two million notes of real grooves 26 last longer."""


class GrooveGuide:
    """Follows one piece.

    Args:
        language: That of grooves.
        constraints: What new music keeps to.
        tokens: What the piece begins with.
        prompt_bars: How many bars were given; new events come after them.
        tempo: Quarter notes a minute, for a length in seconds.

    Raises:
        UserError: The constraints cannot be kept.
    """

    def __init__(
        self, language: Groove, constraints: Constraints, tokens: Sequence[int], prompt_bars: int, tempo: float
    ) -> None:
        self._ids = {family: slice(ids.start, ids.stop) for family, ids in language.vocabulary.ids.items()}
        self._constraints = constraints
        self._limit = FOREVER
        if constraints.bars is not None:
            self._limit = BAR * constraints.bars
        elif constraints.seconds is not None:
            self._limit = int(constraints.seconds * tempo / 60 * TICKS + 1e-6)
        self._polyphony = constraints.polyphony or len(TRIO) * PITCHES
        self._notes = _allowed_notes(constraints)
        self._begins = BAR * prompt_bars
        self._state = language.grammar.start()
        self._due = np.full(len(MOST_TICKS), FOREVER)  # when each note that sounds has to end
        self._length = 0
        for token in tokens:
            self.advance(token)
        self._check(prompt_bars)

    @property
    def is_complete(self) -> bool:
        """Whether the piece has ended."""
        return self._state.is_complete

    @property
    def bars(self) -> int:
        """Bars that are complete."""
        return self._clock // BAR

    @property
    def _clock(self) -> int:
        moment = self._state.counters
        return TICKS * moment.beat + moment.tick

    def advance(self, token: int) -> None:
        """Take note of a token."""
        self._state.advance(token)
        self._length += 1
        began, ended = (token - self._ids[family].start for family in ("NoteOn", "NoteOff"))
        if 0 <= began < len(self._due):  # what a prompt holds is as long as it likes, and then as long as another note
            self._due[began] = max(self._clock, self._begins) + MOST_TICKS[began]
        elif 0 <= ended < len(self._due):
            self._due[ended] = FOREVER

    def mask(self) -> Mask:
        """Whether each token may follow, shape (vocabulary,)."""
        mask = self._state.mask()
        if self._state.name in ("start", "ended"):
            return mask
        moment, clock, limit = self._state.counters, self._clock, self._limit
        sounding = int(np.count_nonzero(moment.sounding))
        has_begun = clock >= self._begins
        mask[self._ids["NoteOn"]] &= self._notes & (has_begun and clock < limit and sounding < self._polyphony)
        mask[self._ids["NoteOff"]] &= has_begun
        mask[self._ids["EOS"]] &= has_begun and clock > 0 and (limit == FOREVER or clock == limit)
        if clock == limit:
            self._keep_first(mask, "NoteOff")  # so that none is left behind
        later = TICKS * moment.beat + SHIFTS
        # On the way to where new music begins there are only the longest shifts, which others may follow.
        arrives = (later >= self._begins) | (SHIFTS == LONGEST)
        mask[self._ids["Shift"]] &= arrives & ((later < limit) | ((later == limit) & (sounding > 0)))
        self._end_what_is_due(mask, clock, later)
        tokens = self._constraints.tokens
        return self._hurried(mask, sounding) if tokens is not None and self._length >= tokens and has_begun else mask

    def _end_what_is_due(self, mask: Mask, clock: int, later: NDArray[np.int_]) -> None:
        """Pass over no moment in which a note has to end, and let nothing else happen before it has."""
        mask[self._ids["Shift"]] &= later <= self._due[self._due > clock].min(initial=FOREVER)
        first = int((self._due <= clock).argmax())
        if self._due[first] <= clock and mask[self._ids["NoteOff"]][first]:
            mask[self._ids["NoteOff"]][first + 1 :] = False  # higher ones would leave it behind
            mask[self._ids["NoteOn"]] = mask[self._ids["Shift"]] = False

    def _hurried(self, mask: Mask, sounding: int) -> Mask:
        """What of a mask ends the piece soonest: the end, or the end of a note, or the next moment, or a last note."""
        for family in ("EOS", "NoteOff", "Shift") if sounding else ("EOS", "NoteOn"):
            if mask[self._ids[family]].any():
                kept = np.zeros_like(mask)
                kept[self._ids[family]] = mask[self._ids[family]]
                self._keep_first(kept, family)
                return kept
        return mask

    def _keep_first(self, mask: Mask, family: str) -> None:
        """Leave only the lowest of a family's tokens that a mask has."""
        part = mask[self._ids[family]]
        first = int(part.argmax())
        part[first + 1 :] = False

    def _check(self, prompt_bars: int) -> None:
        """See that there is a piece at all that keeps to the constraints."""
        constraints = self._constraints
        if not self._notes.any():
            raise UserError("no note is left that may begin: choose a wider range of pitches, or other tracks")
        too_long = constraints.tokens is not None and self._length >= constraints.tokens
        if prompt_bars and (self._limit <= self._begins or too_long):
            name = next(name for name in ("bars", "seconds", "tokens") if getattr(constraints, name) is not None)
            raise UserError(
                f"{name}={getattr(constraints, name):g}: no longer than the prompt ({prompt_bars} bars, "
                f"{self._length} tokens), which is counted in"
            )
        if self._limit < 1:
            raise UserError(f"seconds={constraints.seconds:g}: too short for a note")


def _allowed_notes(constraints: Constraints) -> Mask:
    """Which notes may begin, by track and pitch, shape (384,). Keys and ranges are not for drums.

    Raises:
        UserError: A track is asked for that there is not, or what grooves do not have.
    """
    if constraints.chords is not None:
        raise UserError("chords=: a model of grooves is told no chords; leave it out")
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
