"""A REMI piece under constraints: the grammar's mask, with those of length, key, range, polyphony, tempo and chords.

Everything turns on two questions. Where may a note begin? (`_playable`: in time, with a pitch that is allowed and
whose key is up.) And is the piece *done*: has the last bar a note, and does one sound to the very end? Before that, a
token is left in the mask only if a note may still begin after it. A key is down for a bar at most, so that in a bar
where no note has begun all keys are up at the last sixteenth: that is why bars can always be finished.

The hard choice: time is counted in half sixteenths since the beginning, and a length in seconds becomes such a number
too, at the tempo in force. So tempos may change only while there is a bar to come in which a note may begin.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.sampling.constraints import LENGTHS as LENGTH_NAMES
from musicgen.sampling.constraints import Constraints
from musicgen.tokens import Remi
from musicgen.tokens.quantise import MAX_HALVES, PITCHES, POSITIONS, TEMPOS
from musicgen.tokens.remi import CHORDS

Mask = NDArray[np.bool_]

BAR_HALVES = 2 * POSITIONS
FOREVER = 1 << 40
STARTS = 2 * np.arange(POSITIONS)
LENGTHS = np.arange(1, MAX_HALVES + 1)
TRACKS = ("piano",)


class RemiGuide:
    """Follows one piece.

    Args:
        language: REMI.
        constraints: What new music keeps to.
        tokens: What the piece begins with: a `Bar`, or what there is of it with the `Bar` that follows.
        prompt_bars: How many bars were given; chords are counted from there.

    Raises:
        UserError: The constraints cannot be kept.
    """

    def __init__(self, language: Remi, constraints: Constraints, tokens: Sequence[int], prompt_bars: int = 0) -> None:
        self._ids = {family: slice(ids.start, ids.stop) for family, ids in language.vocabulary.ids.items()}
        self._constraints = constraints
        self._polyphony = constraints.polyphony or len(PITCHES)
        self._pitches = np.isin(np.array(PITCHES), list(constraints.pitch_set()))
        self.bpm, self._tempos = allowed_tempos(constraints.tempo)
        self._half_seconds = 60 / self.bpm / 8
        self._chords = np.array(
            [constraints.key is None or chord.pitch_classes <= constraints.key.pitch_classes for chord in CHORDS]
        )
        self._always = np.ones(len(language.vocabulary), np.bool_)
        for family, allowed in (("Pitch", self._pitches), ("Tempo", self._tempos), ("Chord", self._chords)):
            self._always[self._ids[family]] = allowed
        self._loop = [CHORDS.index(chord) for chord in constraints.chords or ()]

        self._state = language.grammar.start()
        self._length = 0
        self._since, self._at = 0.0, 0  # seconds at the last change of tempo, and when that was
        for token in tokens:
            self.advance(token)
        self._first_bar = prompt_bars
        self._check()

    @property
    def is_complete(self) -> bool:
        """Whether the piece has ended."""
        return self._state.is_complete

    @property
    def bars(self) -> int:
        """Bars that are complete."""
        return self._state.counters.bar

    def advance(self, token: int) -> None:
        """Take note of a token."""
        place = self._state.counters
        if self._ids["Tempo"].start <= token < self._ids["Tempo"].stop:
            self._since, self._at = self._seconds(), self._now
        self._state.advance(token)
        self._length += 1
        if place.tempo < 0:
            self._at = self._now

    def mask(self) -> Mask:
        """Whether each token may follow, shape (vocabulary,)."""
        state = self._state
        mask = state.mask()
        if state.name in ("start", "pitch", "ended"):
            return mask
        if state.name == "velocity":
            mask[self._ids["Duration"]] = self._durations()
            return mask
        mask &= self._always
        place, limit = state.counters, self._limit()
        here = self._playable(place.bar, limit)
        following = bool(self._playable(place.bar + 1, limit).any())
        if state.name == "bar":
            if not here.any():
                return self._only(mask, "EOS")
            if limit < FOREVER or place.bar == self._first_bar:  # a prompt is not the end
                mask[self._ids["EOS"]] = False
        if self._is_long_enough and place.closed_notes > 0 and state.name == "bar":
            return self._only(mask, "EOS")
        if self._is_due():
            return self._what_is_due(mask)
        if self._loop:
            mask[self._ids["Chord"]] = False
        mask[self._ids["Tempo"]] &= self._tempos_in_time()
        mask[self._ids["Pitch"]] &= here[max(place.beat, 0)]
        done = place.bar_notes > 0 and (limit == FOREVER or int(place.up_at.max()) >= limit)
        mask[self._ids["Bar"]] &= following or done
        mask[self._ids["Beat"]] &= self._beats(here, limit, done or (following and place.notes > 0))
        return self._hurried(mask, here) if self._is_long_enough else mask

    @property
    def _now(self) -> int:
        """Half sixteenths since the beginning."""
        place = self._state.counters
        return BAR_HALVES * place.bar + 2 * max(place.beat, 0)

    @property
    def _is_long_enough(self) -> bool:
        tokens = self._constraints.tokens
        return tokens is not None and self._length >= tokens

    def _seconds(self) -> float:
        """When it is now."""
        tempo = self._state.counters.tempo
        return self._since + (self._now - self._at) * float(self._half_seconds[tempo]) if tempo >= 0 else 0.0

    def _limit(self) -> int:
        """By when the last note ends, in half sixteenths since the beginning, at the tempo in force."""
        if self._constraints.bars is not None:
            return BAR_HALVES * self._constraints.bars
        if self._constraints.seconds is None:
            return FOREVER
        tempo = self._state.counters.tempo
        if tempo < 0 or not self._tempos[tempo]:
            tempo = int(np.flatnonzero(self._tempos)[-1])  # it will change: at the fastest there is most time
        return int(self._limits()[tempo])

    def _limits(self) -> NDArray[np.int64]:
        """A limit in seconds, in half sixteenths, if the tempo were to be another from now on, shape (tempos,)."""
        left = (self._constraints.seconds or 0) - self._seconds()
        # A millionth of a second is nothing to hear, and more than what rounding does to a sum of times.
        return self._now + np.floor((left + 1e-6) / self._half_seconds).astype(np.int64)

    def _playable(self, bar: int, limit: int) -> Mask:
        """Where in a bar a note may begin, shape (positions,)."""
        starts = BAR_HALVES * bar + STARTS
        down = self._state.counters.up_at[:, None] > starts
        return (starts < limit) & (self._pitches[:, None] & ~down).any(0) & (down.sum(0) < self._polyphony)

    def _is_due(self) -> bool:
        """Whether a chord of the loop, or a tempo of the range, has to be named at the beginning of this bar."""
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
        """The position at which it has to be named, then the chord, then the tempo."""
        if self._state.name == "bar":
            beats = self._ids["Beat"]
            ends = mask[self._ids["EOS"]].copy()
            mask = self._only(mask, "Beat")
            mask[beats.start + 1 : beats.stop] = False
            mask[self._ids["EOS"]] = ends
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

    def _tempos_in_time(self) -> NDArray[np.bool_] | bool:
        """The tempos to which it may change now: there is a note to come, and none that sounds ends too late."""
        if self._constraints.seconds is None:
            return True
        place, limits = self._state.counters, self._limits()
        bar = place.bar if self._is_due() else place.bar + 1
        begins = np.flatnonzero(self._playable(bar, FOREVER))
        first = BAR_HALVES * bar + int(STARTS[begins[0]])
        in_time: Mask = (first < limits) & (int(place.up_at.max()) <= limits)
        return in_time

    def _beats(self, here: Mask, limit: int, can_wait: bool) -> Mask:
        """Positions of this bar at which something may begin, so that the piece can be finished, shape (positions,)."""
        place = self._state.counters
        something = here.copy()
        if not self._loop:
            something |= int(self._chords.sum()) > int(place.chord >= 0 and self._chords[place.chord])
        if self._constraints.seconds is None:
            something |= int(self._tempos.sum()) > int(place.tempo >= 0 and self._tempos[place.tempo])
        something &= BAR_HALVES * place.bar + STARTS < limit
        later: Mask = np.logical_or.accumulate(here[::-1])[::-1]
        return something & (can_wait | later)

    def _durations(self) -> Mask:
        """Durations with which a note ends in time and, if it does not end the piece, another may begin."""
        place, now, limit = self._state.counters, self._now, self._limit()
        if limit - now > 2 * BAR_HALVES:
            return np.ones(MAX_HALVES, np.bool_)
        ends = now + LENGTHS
        in_time = ends <= limit
        sounding = place.up_at.copy()
        if int(np.delete(sounding, place.pitch).max()) >= limit:
            return in_time
        bars = (place.bar, place.bar + 1)
        starts = np.concatenate([BAR_HALVES * bar + STARTS for bar in bars])
        without = np.concatenate([self._playable(bar, limit) for bar in bars]) & (starts > now)
        place.up_at[place.pitch] = FOREVER
        beside = np.concatenate([self._playable(bar, limit) for bar in bars]) & (starts > now)
        place.up_at[:] = sounding
        after = (without & (starts >= ends[:, None])).any(1)
        return in_time & ((ends == limit) | beside.any() | after)

    def _hurried(self, mask: Mask, here: Mask) -> Mask:
        """What of a mask ends the piece soonest: a bar line after a note, or the note that is missing."""
        place = self._state.counters
        if place.bar_notes > 0:
            return self._only(mask, "Bar") if mask[self._ids["Bar"]].any() else mask
        if mask[self._ids["Pitch"]].any():
            return self._only(mask, "Pitch")
        beats = mask[self._ids["Beat"]] & here
        if beats.any():
            mask[:] = False
            mask[self._ids["Beat"]] = beats
        return mask

    def _only(self, mask: Mask, family: str) -> Mask:
        kept = np.zeros_like(mask)
        kept[self._ids[family]] = mask[self._ids[family]]
        return kept

    def _check(self) -> None:
        """See that there is a piece at all that keeps to the constraints."""
        constraints = self._constraints
        if constraints.tracks is not None and constraints.tracks != TRACKS:
            raise UserError(f"tracks={' '.join(constraints.tracks)}: this model plays one track, piano")
        if not self._pitches.any():
            low, high = constraints.pitches or (0, 127)
            raise UserError(f"pitches={low}-{high}: none is on a piano's keyboard ({PITCHES[0]}-{PITCHES[-1]})")
        limit, place = self._limit(), self._state.counters
        too_late = int(place.up_at.max()) > limit or not self._playable(place.bar, limit).any()
        if place.bar > 0 and (too_late or self._is_long_enough):
            name = next(name for name in LENGTH_NAMES if getattr(constraints, name) is not None)
            asked = f"{name}={getattr(constraints, name):g}"
            raise UserError(
                f"{asked}: no longer than the prompt ({place.bar} bars, {self._length} tokens), which is counted in"
            )
        if too_late:
            raise UserError(f"seconds={constraints.seconds:g}: too short for a note at the tempos allowed")


def allowed_tempos(tempo: tuple[float, float] | None) -> tuple[NDArray[np.float64], Mask]:
    """What each `Tempo` token stands for, in quarter notes a minute, and which may be used, both of shape (tempos,).

    A single tempo is that of the nearest token, which then stands for the very tempo that was asked for.
    """
    bpm = np.array(TEMPOS, np.float64)
    if tempo is None:
        return bpm, np.ones(len(bpm), np.bool_)
    low, high = tempo
    allowed = (bpm >= low) & (bpm <= high)
    if low == high:
        nearest = int(np.abs(bpm - low).argmin())
        allowed = np.arange(len(bpm)) == nearest
        if abs(bpm[nearest] - low) > TEMPOS.step / 2:
            raise UserError(f"tempo={low:g}: takes {TEMPOS[0]} to {TEMPOS[-1]}")
        bpm[nearest] = low
    elif not allowed.any():
        raise UserError(f"tempo={low:g}-{high:g}: no tempo of the tokens ({TEMPOS[0]}, {TEMPOS[1]}, {TEMPOS[2]} ...)")
    return bpm, allowed
