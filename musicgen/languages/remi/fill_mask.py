"""A fill of REMI under constraints: the grammar's mask, combined with key, range, polyphony, tempo and chords.

Tokens before the first `Fill` are given. A fill keeps the tempo unless another is asked for, and has a note if one may
begin in it. Chords and tempos that are asked for are named at the first position of a bar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.fill_mask import FillMask
from musicgen.languages.grammar import Grammar
from musicgen.languages.mask import Mask
from musicgen.languages.remi.gap_grammar import GapPlace, KnownGap
from musicgen.languages.remi.mask import TRACKS
from musicgen.languages.remi.tempos import allowed_tempos
from musicgen.languages.remi.tokens import CHORDS, PITCHES, TokenSet


class RemiFillMask(FillMask[GapPlace]):
    """Follows one sequence with gaps.

    Args:
        grammar: The grammar of REMI with gaps.
        known: What tokens can say.
        constraints: What new music must keep to.
        tokens: The sequence up to its first `Fill`, or further.
        setting: The setting of the prompt.

    Raises:
        UserError: The constraints cannot be kept.
    """

    def __init__(
        self,
        grammar: Grammar[GapPlace],
        known: TokenSet,
        constraints: Constraints,
        tokens: Sequence[int],
        setting: Mapping[str, Any],
    ) -> None:
        super().__init__(grammar, constraints, setting)
        self._known = known
        if constraints.metre is not None:
            raise UserError("metre=: bars that are filled keep their metre; leave it out")
        if constraints.tracks is not None and constraints.tracks != TRACKS:
            raise UserError(f"tracks={' '.join(constraints.tracks)}: this model plays one track, piano")
        self._pitches = np.isin(np.array(PITCHES), list(constraints.pitch_set()))
        if not self._pitches.any():
            raise UserError(f"pitches: none is on a piano's keyboard ({PITCHES[0]}-{PITCHES[-1]})")
        self._polyphony = constraints.polyphony or len(PITCHES)
        self._tempos = allowed_tempos(known, constraints.tempo)[1]
        self._loop = [CHORDS.index(chord) for chord in constraints.chords or ()]
        key = constraints.key
        self._chords = np.array([key is None or chord.pitch_classes <= key.pitch_classes for chord in CHORDS])
        self._before, self._first, self._is_final = 0, 0, False
        for token in tokens:
            self.advance(token)
        gaps = self._state.counters.gaps
        if self._is_final and not self._leaves_room(gaps[-1], gaps[-1].up_at):
            raise UserError(
                "fill: notes held through the last bars leave no room for another; widen polyphony or pitches"
            )

    def advance(self, token: int) -> None:
        """Add a token to the sequence."""
        place = self._state.counters
        if token == self._ids["Fill"].start and place.gaps and not place.answered:
            self._is_final = place.is_after(place.gaps[-1])
        super().advance(token)

    def _begin_gap(self) -> None:
        place = self._state.counters
        self._before, self._first = place.notes, place.gap.bar + self._lead_bars

    def _free_mask(self) -> Mask:
        state, place = self._state, self._state.counters
        mask = state.mask()
        if state.name == "velocity":
            mask[self._ids["Duration"]] &= self._durations()
        if self.is_complete or state.name in ("pitch", "velocity", "fill"):
            return mask
        may_begin = self._may_begin()
        mask[self._ids["Pitch"]] &= self._pitches & bool(may_begin[max(place.beat, 0)])
        mask[self._ids["Chord"]] &= self._chords & (not self._loop)
        mask[self._ids["Tempo"]] &= self._tempos & (self._constraints.tempo is not None or place.tempo < 0)
        due = self._due()
        if due and state.name == "bar" and mask[self._ids["Beat"]].any():
            mask = self._only(mask, "Beat")
            mask[self._ids["Beat"]][1:] = False
            return mask
        if due and place.beat == 0 and not place.bar_notes and state.name in ("beat", "chord"):
            return self._named(mask, due)
        mask[self._ids["Beat"]] &= may_begin
        if self._needs_note() and (mask[self._ids["Beat"]].any() or mask[self._ids["Pitch"]].any()):
            mask[self._ids["Bar"]] = False
        return mask

    def _needs_note(self) -> bool:
        """Whether a note must begin in this bar: the first and the last of a piece have one, and so has a fill."""
        place = self._state.counters
        is_last = place.bar == place.gap.bar + place.gap.bars - 1
        is_end = place.bar == 0 or (is_last and self._ends_piece())
        return not place.bar_notes if is_end else is_last and place.notes == self._before

    def _ends_piece(self) -> bool:
        """Whether the piece ends with the gap that is being filled."""
        place = self._state.counters
        return self._is_final and place.answered == len(place.gaps)

    def _durations(self) -> Mask:
        """Durations after which a note can still begin in the last bar of the piece, shape (durations,)."""
        place, ends = self._state.counters, self._state.counters.now + self._known.lengths
        is_last = place.bar == place.gap.bar + place.gap.bars - 1
        if not self._ends_piece() or is_last:
            return np.ones(len(ends), np.bool_)
        beside = place.up_at.copy()
        beside[place.pitch] = place.gap.end
        is_short = ends <= place.gap.end - place.step
        return is_short | self._leaves_room(place.gap, beside)

    def _leaves_room(self, gap: KnownGap, up_at: NDArray[np.int64]) -> bool:
        """Whether a note may begin at the last position of a gap."""
        down = up_at > gap.end - self._known.step
        return bool((self._pitches & ~down).any()) and int(down.sum()) < self._polyphony

    def _may_begin(self) -> Mask:
        """Where in this bar a note may begin, shape (positions,)."""
        place, ids = self._state.counters, self._ids["Beat"]
        starts = place.start + place.step * np.arange(ids.stop - ids.start)
        down = place.up_at[:, None] > starts
        free: Mask = (self._pitches[:, None] & ~down).any(0) & (down.sum(0) < self._polyphony)
        return free

    def _due(self) -> list[tuple[str, int]]:
        """What must be named at the first position of this bar: families and numbers; -1 for any that is allowed."""
        place = self._state.counters
        due = []
        if self._loop:
            chord = self._loop[(place.bar - self._first) % len(self._loop)]
            if chord != place.chord and self._state.name != "chord":
                due.append(("Chord", chord))
        if place.tempo < 0 or not self._tempos[place.tempo]:
            due.append(("Tempo", -1))
        return due

    def _named(self, mask: Mask, due: list[tuple[str, int]]) -> Mask:
        """What is due, the chord first."""
        family, number = due[0]
        if family == "Chord":
            mask[:] = False
            mask[self._ids["Chord"].start + number] = True
            return mask
        named = self._only(mask, "Tempo")
        if self._state.name == "beat":
            named[self._ids["Chord"]] = mask[self._ids["Chord"]]
        return named
