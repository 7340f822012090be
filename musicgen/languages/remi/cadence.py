"""The end of a pop-piano piece: the last bars lead home, to one long chord on the tonic.

The model writes the notes. A cadence only leaves out some of the tokens that the constraints allow, and leans towards
others. In the bar before the last, tones of the key and its dominant are a little more likely, and notes end with the
bar. The last bar is one chord: it begins in the first half and sounds to the end. Its tones are those of the tonic's
chord, with the tonic lowest, and it has no more notes than the bar before (or three).

Design note: a wish that leaves no token is dropped. Whatever is left was allowed before, and after every allowed token
a piece can be finished. So a cadence never breaks a constraint, and never meets an empty mask.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.constraints import Constraints
from musicgen.languages.grammar import GrammarState
from musicgen.languages.mask import Bias, Mask
from musicgen.languages.remi.grammar import Place
from musicgen.languages.remi.tokens import CHORD_NUMBER, CHORDS, PITCHES, TokenSet
from musicgen.midi.chord import NO_CHORD, Chord
from musicgen.midi.key import Key, heard_key

FEWEST_BARS = 4
"""A shorter piece has no cadence: it would be little else."""
FEWEST_NOTES = 3
"""Notes of the last chord, if so many may sound."""
MIDDLE_C = PITCHES.index(60)
TONE, DOMINANT, DOWNBEAT = 1.0, 1.5, 2.0
"""How many nats are added for tones of the key, for the chord on its fifth degree, and for the beginning of the bar."""
CLASSES = np.array(PITCHES) % 12


class Cadence:
    """Follows one piece.

    Args:
        known: What tokens can say.
        constraints: What the piece keeps to.
        first_bar: The first new bar.
    """

    def __init__(self, known: TokenSet, constraints: Constraints, first_bar: int) -> None:
        self._known, self._constraints, self._first_bar = known, constraints, first_bar
        self._ids = {family: slice(ids.start, ids.stop) for family, ids in known.vocabulary.ids.items()}
        self._heard = np.zeros(12)
        self._before = [self._heard.copy(), self._heard.copy()]  # as the last two bars began, the earlier first

    def hear(self, token: int, place: Place) -> None:
        """Note a token that was added to the piece."""
        length = token - self._ids["Duration"].start
        if token == self._ids["Bar"].start:
            self._before = [self._before[1], self._heard.copy()]
        elif 0 <= length < len(self._known.durations) and place.pitch < len(PITCHES):
            self._heard[CLASSES[place.pitch]] += self._known.durations[length]

    def narrow(self, mask: Mask, state: GrammarState[Place], limit: int) -> Mask:
        """What is left of a mask, shape (vocabulary,).

        Args:
            mask: What the constraints allow.
            state: Where the piece is.
            limit: When it ends, in units.
        """
        place = state.counters
        bars = self._bars_left(place, limit)
        if state.name == "velocity" and bars:
            ends = place.now + self._known.lengths
            last = place.start + (bars - 1) * place.length
            return self._kept(mask, Duration=ends <= last if bars > 1 else ends == limit)
        if state.name == "bar" and bars > 1 and self._constraints.bars is not None and self._known.has_metres:
            return self._without_short_metres(mask, place, bars)
        if bars != 1 or state.name in ("pitch", "ended"):
            return mask
        if state.name in ("bar", "metre"):
            return self._kept(mask, Beat=self._early(place, limit))
        home = self._home(place)
        if state.name == "beat" and home != NO_CHORD and CHORD_NUMBER[home] != place.chord:
            named = self._kept(mask, Chord=np.arange(len(CHORDS)) == CHORD_NUMBER[home])
            if named is not mask:
                return named
        tones = self._tones(mask, place, home)
        if self._is_home(place, home, not tones.any()):
            return self._kept(mask, Bar=np.True_, Pitch=tones)
        return self._kept(mask, Pitch=tones)

    def bias(self, state: GrammarState[Place], limit: int) -> Bias | None:
        """What is added to logits, shape (vocabulary,); None for nothing."""
        place = state.counters
        bars = self._bars_left(place, limit)
        if bars not in (1, 2) or state.name in ("start", "pitch", "velocity", "ended"):
            return None
        bias = np.zeros(len(self._known.vocabulary))
        if bars == 1:
            bias[self._ids["Beat"].start] = DOWNBEAT
            return bias
        key = self._key(self._before[1])
        if key is not None:
            bias[self._ids["Pitch"]] = TONE * np.isin(CLASSES, list(key.pitch_classes))
            dominant = (key.root + 7) % 12
            bias[self._ids["Chord"]] = [DOMINANT * (chord.root == dominant) for chord in CHORDS]
        return bias

    def _bars_left(self, place: Place, limit: int) -> int:
        """Bars to the end of the piece, with the present one; 0 if the piece has no cadence."""
        if place.length == 0:
            return 0
        left = -(-(limit - place.start) // place.length)
        last = place.bar + left - 1
        return left if left > 0 and last >= max(FEWEST_BARS - 1, self._first_bar + 1) else 0

    def _key(self, heard: NDArray[np.float64]) -> Key | None:
        return self._constraints.key or heard_key(heard)

    def _home(self, place: Place) -> Chord:
        """The chord of the last bar: that of the chord loop if there is one, or else the tonic's."""
        loop = self._constraints.chords
        if loop:
            chord = loop[(place.bar - self._first_bar) % len(loop)]
            if chord.root >= 0:
                return chord
        key = self._key(self._before[0])
        return NO_CHORD if key is None else Chord(key.root, "m" if key.is_minor else "M")

    def _early(self, place: Place, limit: int) -> Mask:
        """Positions in the first half of what is left, from which a note can sound to the end, shape (positions,)."""
        ids = self._ids["Beat"]
        left = limit - place.start - place.step * np.arange(ids.stop - ids.start)
        early: Mask = (2 * left >= limit - place.start) & np.isin(left, self._known.lengths)
        return early

    def _without_short_metres(self, mask: Mask, place: Place, bars: int) -> Mask:
        """A mask without metres in which the last bar would begin before a note ends that sounds now."""
        begins = place.start + (bars - 1) * np.array(self._known.bar_lengths)
        kept = mask.copy()
        kept[self._ids["Metre"]] &= begins >= int(place.up_at.max())
        return kept if kept.any() else mask

    def _room(self, place: Place) -> int:
        """How many more notes the last chord may have."""
        most = max(FEWEST_NOTES, place.closed_notes)
        sounding = int((place.up_at > place.now).sum())
        return min(most - place.bar_notes, (self._constraints.polyphony or len(PITCHES)) - sounding)

    def _tones(self, mask: Mask, place: Place, home: Chord) -> Mask:
        """Pitches of the last chord after which the tonic is reached, or can still be, shape (88,)."""
        free, room = mask[self._ids["Pitch"]], self._room(place)
        if room < 1 or home == NO_CHORD:
            return free & (room > 0)
        of_chord = free & np.isin(CLASSES, list(home.pitch_classes))
        tonics = of_chord & (home.root == CLASSES)
        if not tonics.any():
            return of_chord & (place.bar_notes == 0)
        if room == 1:
            low = tonics[:MIDDLE_C].any()
            return tonics & (np.arange(len(free)) < (MIDDLE_C if low else len(free)))
        above = of_chord & (np.arange(len(free)) > int(tonics.argmax()))
        is_enough = place.bar_notes + 1 >= FEWEST_NOTES or not above.any()
        return above | tonics if is_enough else above

    def _is_home(self, place: Place, home: Chord, is_full: bool) -> bool:
        """Whether the chord is complete: enough notes, and the tonic below middle C; or it can have no more."""
        if place.pitch >= len(PITCHES) or home.root not in (NO_CHORD.root, CLASSES[place.pitch]):
            return False
        return is_full or (place.bar_notes >= FEWEST_NOTES and place.pitch < MIDDLE_C)

    def _kept(self, mask: Mask, **wishes: Mask | np.bool_) -> Mask:
        """Only what is wished of some families; the mask itself if that is nothing."""
        kept = np.zeros_like(mask)
        for family, wish in wishes.items():
            kept[self._ids[family]] = mask[self._ids[family]] & wish
        return kept if kept.any() else mask
