"""A REMI piece under constraints: the grammar's mask, with length, key, range, polyphony, tempo, metre and chords.

`Cadence` narrows the masks of the last bars, so that they lead home.

There are two questions. When may a note begin? (`_free_from`: from the moment on at which an allowed key is up and not
too many are down. Keys only come up while nothing new begins, so that is one number.) And can the piece be *finished*
in time: is a position left, in its last bar if its length is in bars, at which a note may begin? A token stays in the
mask only if the piece is done, or can still be finished after it.

Design note: time is counted in units since the beginning. A length in seconds is turned into such a number at the
current tempo, a length in bars at the current metre. So a tempo or metre may follow only if the piece can be finished
under it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.grammar import Grammar
from musicgen.languages.mask import Bias, Mask, PieceMask
from musicgen.languages.remi.cadence import Cadence
from musicgen.languages.remi.grammar import Place
from musicgen.languages.remi.tempos import allowed_tempos
from musicgen.languages.remi.tokens import CHORDS, PITCHES, TokenSet

FOREVER = 1 << 40
TRACKS = ("piano",)


class RemiMask(PieceMask[Place]):
    """Follows one piece.

    Args:
        grammar: The grammar of REMI.
        known: What tokens can say.
        constraints: What new music must keep to.
        tokens: The beginning of the piece: a `Bar`, or a prompt and the `Bar` after it.
        prompt_bars: How many bars were given. The chord loop begins after them.

    Raises:
        UserError: The constraints cannot be kept.
    """

    def __init__(
        self,
        grammar: Grammar[Place],
        known: TokenSet,
        constraints: Constraints,
        tokens: Sequence[int],
        prompt_bars: int = 0,
    ) -> None:
        super().__init__(grammar, constraints)
        self._known = known
        self._polyphony = constraints.polyphony or len(PITCHES)
        self._pitches = np.isin(np.array(PITCHES), list(constraints.pitch_set()))
        bpm, self._tempos = allowed_tempos(known, constraints.tempo)
        self._unit_seconds = 60 / bpm / known.units
        self._metres = self._allowed_metres()
        self._lengths = np.array(known.bar_lengths, np.int64)
        self._chords = np.array(
            [constraints.key is None or chord.pitch_classes <= constraints.key.pitch_classes for chord in CHORDS]
        )
        self._loop = [CHORDS.index(chord) for chord in constraints.chords or ()]

        self._has_cadence = constraints.ending == "cadence" and constraints.tokens is None
        self._cadence = Cadence(known, constraints, prompt_bars)
        self._since, self._at = 0.0, 0  # the last change of tempo, in seconds and in units
        for token in tokens:
            self.advance(token)
        self._first_bar = prompt_bars
        if prompt_bars and constraints.tempo is None:
            self._tempos &= self._tempos_of(tokens, prompt_bars)
        self._always = np.ones(len(grammar.vocabulary), np.bool_)
        for family, allowed in (("Pitch", self._pitches), ("Tempo", self._tempos), ("Chord", self._chords)):
            self._always[self._ids[family]] = allowed
        if known.has_metres:
            self._always[self._ids["Metre"]] = self._metres
        self._always[self._ids["Duration"].stop :] = False  # new music has no gaps
        self._check()

    def advance(self, token: int) -> None:
        """Add a token to the piece."""
        place = self._state.counters
        if self._ids["Tempo"].start <= token < self._ids["Tempo"].stop:
            self._since, self._at = self._seconds(), self._now
        super().advance(token)
        if place.tempo < 0:
            self._at = self._now
        self._cadence.hear(token, place)

    def mask(self) -> Mask:
        """Whether each token may follow, shape (vocabulary,)."""
        mask = self._possible()
        return self._cadence.narrow(mask, self._state, self._limit()) if self._has_cadence else mask

    def bias(self) -> Bias | None:
        """What leads home, shape (vocabulary,)."""
        return self._cadence.bias(self._state, self._limit()) if self._has_cadence else None

    def _possible(self) -> Mask:
        """Tokens after which the piece can be finished as requested, shape (vocabulary,)."""
        state = self._state
        mask = state.mask()
        if state.name in ("start", "pitch", "ended"):
            return mask
        if state.name == "velocity":
            mask[self._ids["Duration"]] = self._durations()
            return mask
        mask &= self._always
        place, limit = state.counters, self._limit()
        if state.name == "bar":
            if self._known.has_metres:
                mask[self._ids["Metre"]] &= self._metres_in_time()
            if not self._has_metre():
                return self._only(mask, "Metre")
            if not self._is_open(limit):
                return self._only(mask, "EOS")
            if limit < FOREVER or place.bar == self._first_bar:  # a prompt alone is no piece
                mask[self._ids["EOS"]] = False
            if self._has_enough_tokens and place.closed_notes > 0 and mask[self._ids["EOS"]].any():
                return self._only(mask, "EOS")
        if self._is_due():
            return self._what_is_due(mask)
        if self._loop:
            mask[self._ids["Chord"]] = False
        mask[self._ids["Tempo"]] &= self._tempos_in_time()
        here = self._playable(limit)
        mask[self._ids["Pitch"]] &= here[max(place.beat, 0)]
        done, following = self._is_done(limit), self._can_finish(limit, place.start + place.length)
        mask[self._ids["Bar"]] &= following or done
        mask[self._ids["Beat"]] &= self._beats(here, limit, done or (following and place.notes > 0))
        return self._hurried(mask, here) if self._has_enough_tokens else mask

    @property
    def _now(self) -> int:
        """Units since the beginning."""
        place = self._state.counters
        return place.start + place.step * max(place.beat, 0)

    def _seconds(self) -> float:
        """Seconds since the beginning."""
        tempo = self._state.counters.tempo
        return self._since + (self._now - self._at) * float(self._unit_seconds[tempo]) if tempo >= 0 else 0.0

    # Lengths

    def _limit(self) -> int:
        """The latest end of the last note, in units since the beginning, at the current tempo and metre."""
        place = self._state.counters
        if self._constraints.bars is not None:
            metre = place.metre if self._has_metre() else int(np.flatnonzero(self._metres)[0])
            return int(self._bar_limits()[metre])
        if self._constraints.seconds is None:
            return FOREVER
        tempo = place.tempo
        if tempo < 0 or not self._tempos[tempo]:
            tempo = int(np.flatnonzero(self._tempos)[-1])  # it must change, and the fastest tempo leaves the most time
        return int(self._second_limits()[tempo])

    def _bar_limits(self) -> NDArray[np.int64]:
        """The limit that a length in bars means for each metre from this bar on, shape (metres,)."""
        place = self._state.counters
        limits: NDArray[np.int64] = place.start + ((self._constraints.bars or 0) - place.bar) * self._lengths
        return limits

    def _second_limits(self) -> NDArray[np.int64]:
        """The limit that a length in seconds means for each tempo from now on, shape (tempos,)."""
        left = (self._constraints.seconds or 0) - self._seconds()
        # Nobody hears a millionth of a second, and the rounding error of a sum of times is smaller.
        return self._now + np.floor((left + 1e-6) / self._unit_seconds).astype(np.int64)

    def _free_from(self, up_at: NDArray[np.int64] | None = None) -> int:
        """From when on a note may begin, if no other begins before."""
        up_at = self._state.counters.up_at if up_at is None else up_at
        few = int(np.partition(up_at, -self._polyphony)[-self._polyphony]) if self._polyphony < len(PITCHES) else 0
        return max(int(up_at[self._pitches].min()), few)

    def _last_position(self, limit: int) -> int:
        """The last position before a limit."""
        return (limit - 1) // self._known.step * self._known.step

    def _can_finish(self, limit: int, since: int) -> bool:
        """Whether a note may begin from some time on, and be the last: it can always end at the limit."""
        return limit == FOREVER or max(self._free_from(), since) <= self._last_position(limit)

    def _is_done(self, limit: int) -> bool:
        """Whether the piece may end with this bar."""
        place, bars = self._state.counters, self._constraints.bars
        if not place.bar_notes or (bars is not None and place.bar != bars - 1):
            return False
        return limit == FOREVER or int(place.up_at.max()) >= limit

    def _is_open(self, limit: int) -> bool:
        """Whether the bar that begins here belongs to the piece."""
        place, bars = self._state.counters, self._constraints.bars
        return place.bar < bars if bars is not None else self._can_finish(limit, place.start)

    def _playable(self, limit: int) -> Mask:
        """Where in this bar a note may begin, shape (positions,)."""
        starts, free = self._positions(), self._free_from()
        playable: Mask = (starts >= free) & (starts < limit)
        return playable

    def _positions(self) -> NDArray[np.int64]:
        """When each position of the longest bar is, in this bar, shape (positions,)."""
        ids, place = self._ids["Beat"], self._state.counters
        return place.start + place.step * np.arange(ids.stop - ids.start)

    # What is due

    def _has_metre(self) -> bool:
        """Whether the metre is stated, and one that may be used."""
        metre = self._state.counters.metre
        return metre >= 0 and bool(self._metres[metre])

    def _is_due(self) -> bool:
        """Whether a chord of the loop, or a tempo of the range, must be named at the beginning of this bar."""
        place = self._state.counters
        if place.bar_notes or place.beat > 0 or self._state.name == "tempo":
            return False
        return self._chord_due() is not None or not (place.tempo >= 0 and self._tempos[place.tempo])

    def _chord_due(self) -> int | None:
        place = self._state.counters
        if not self._loop or self._state.name == "chord":
            return None
        chord = self._loop[(place.bar - self._first_bar) % len(self._loop)]
        return chord if chord != place.chord else None

    def _what_is_due(self, mask: Mask) -> Mask:
        """The position at which something must be named, then the chord, then the tempo."""
        if self._state.name in ("bar", "metre"):
            beats = self._ids["Beat"]
            mask[beats.start + 1 : beats.stop] = False
            mask[self._ids["Bar"]] = False
            return mask
        chord = self._chord_due()
        if chord is not None:
            mask[:] = False
            mask[self._ids["Chord"].start + chord] = True
            return mask
        if self._loop or self._state.counters.tempo >= 0:
            mask = self._only(mask, "Tempo")
        mask[self._ids["Tempo"]] &= self._tempos_in_time()
        return mask

    # What may follow

    def _metres_in_time(self) -> NDArray[np.bool_] | bool:
        """Metres that may follow now: a note can still begin in the last bar, and no sounding note ends too late."""
        if self._constraints.bars is None:
            return True
        limits = self._bar_limits()
        lasts = (limits - 1) // self._known.step * self._known.step
        return (self._free_from() <= lasts) & (int(self._state.counters.up_at.max()) <= limits)

    def _tempos_in_time(self) -> NDArray[np.bool_] | bool:
        """Tempos that may follow now: a note can still begin, and no sounding note ends too late."""
        if self._constraints.seconds is None:
            return True
        place, limits = self._state.counters, self._second_limits()
        since = place.start if self._is_due() else place.start + place.length
        lasts = (limits - 1) // self._known.step * self._known.step
        return (max(self._free_from(), since) <= lasts) & (int(place.up_at.max()) <= limits)

    def _beats(self, here: Mask, limit: int, can_wait: bool) -> Mask:
        """Positions of this bar after which the piece can still be finished, shape (positions,)."""
        place = self._state.counters
        starts, end = self._positions(), place.start + place.length
        something = here.copy()
        if not self._loop:
            something |= int(self._chords.sum()) > int(place.chord >= 0 and self._chords[place.chord])
        if self._constraints.seconds is None:
            something |= int(self._tempos.sum()) > int(place.tempo >= 0 and self._tempos[place.tempo])
        something &= starts < limit
        if can_wait:
            return something
        # A note must begin in this bar, there or later.
        last = min(self._last_position(limit), end - place.step)
        return something & (starts <= last) & (self._free_from() <= last)

    def _durations(self) -> Mask:
        """Durations with which a note ends in time and either ends the piece or leaves room for another."""
        place, now, limit = self._state.counters, self._now, self._limit()
        ends = now + self._known.lengths
        last = self._last_position(limit)
        if limit == FOREVER or last >= now + self._known.durations[-1]:  # all keys are up by then
            return np.ones(len(ends), np.bool_)
        beside = place.up_at.copy()
        beside[place.pitch] = FOREVER
        room = np.where(ends <= last, self._free_from() <= last, self._free_from(beside) <= last) & (now < last)
        is_last = self._constraints.bars is None or place.bar == self._constraints.bars - 1
        sounds_on = int(np.delete(place.up_at, place.pitch).max()) >= limit
        return (ends <= limit) & (room | (is_last & (sounds_on | (ends == limit))))

    def _hurried(self, mask: Mask, here: Mask) -> Mask:
        """Allow only what ends the piece soonest: a bar line after a note, or the missing note."""
        if self._state.counters.bar_notes > 0:
            return self._only(mask, "Bar") if mask[self._ids["Bar"]].any() else mask
        if mask[self._ids["Pitch"]].any():
            return self._only(mask, "Pitch")
        beats = mask[self._ids["Beat"]] & here
        if beats.any():
            mask[:] = False
            mask[self._ids["Beat"]] = beats
        elif mask[self._ids["Bar"]].any():
            return self._only(mask, "Bar")
        return mask

    # Constraints

    def _allowed_metres(self) -> Mask:
        """The metres that may be used, shape (metres,).

        Raises:
            UserError: The metre that is asked for is not one of them.
        """
        metre, known = self._constraints.metre, self._known.metres
        if metre is not None and metre not in known:
            names = ", ".join(f"{upper}/{lower}" for upper, lower in known)
            raise UserError(f"metre={metre[0]}/{metre[1]}: this model takes {names}")
        return np.array([metre is None or item == metre for item in known])

    def _tempos_of(self, tokens: Sequence[int], bars: int) -> Mask:
        """The tempos between the slowest and the fastest of a prompt, which its continuation keeps to."""
        ids = np.array(tokens, np.int64)
        ids = ids[np.cumsum(ids == self._ids["Bar"].start) <= bars]
        said = ids[(ids >= self._ids["Tempo"].start) & (ids < self._ids["Tempo"].stop)] - self._ids["Tempo"].start
        numbers = np.arange(len(self._known.tempos))
        between: Mask = (numbers >= said.min(initial=len(numbers))) & (numbers <= said.max(initial=-1))
        return between if between.any() else np.ones(len(numbers), np.bool_)

    def _check(self) -> None:
        """Check that the constraints can be kept."""
        constraints = self._constraints
        if constraints.tracks is not None and constraints.tracks != TRACKS:
            raise UserError(f"tracks={' '.join(constraints.tracks)}: this model plays one track, piano")
        if not self._pitches.any():
            low, high = constraints.pitches or (0, 127)
            raise UserError(f"pitches={low}-{high}: none is on a piano's keyboard ({PITCHES[0]}-{PITCHES[-1]})")
        limit, place = self._limit(), self._state.counters
        too_late = int(place.up_at.max()) > limit or not self._can_finish(limit, place.start)
        if place.bar > 0 and (too_late or self._has_enough_tokens):
            self._refuse_length("the prompt", place.bar, ", which is counted in")
        if too_late:
            raise UserError(f"seconds={constraints.seconds:g}: too short for a note at the tempos allowed")
