"""Grooves: a bass, drums and one other instrument as events in time.

A piece reads `BOS`, then for every moment at which something happens `Shift`s to it, `NoteOff` for each note that ends
and `NoteOn` for each that begins, in the order of track and pitch, and at last `EOS`. The vocabulary is the paper's,
id by id. `Shift_1_6` goes to tick 6 of the next beat: beats are counted on from the present beat, ticks from its
beginning. The published code orders the events of a moment by where they stood in the file and precedes each but the
first by a shift that goes nowhere; here the order is fixed and such shifts do not exist.

The hard choice: encoding is sorting, as in REMI. An event is one number, its time and its rank at that time, so one
sort of numbers puts the piece in order, and both are read off them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.score import Notes, Score, TimeSignature, make_notes
from musicgen.tokens.grammar import Grammar
from musicgen.tokens.groove_grammar import LONGEST, Moment, groove_grammar
from musicgen.tokens.groove_quantise import PITCHES, TICKS, TRIO, VELOCITY, quantise_trio, settled
from musicgen.tokens.language import Encoded
from musicgen.tokens.quantise import TokenError
from musicgen.tokens.vocabulary import Tokens, Vocabulary

_NOTES = [f"{track + 1}_{pitch}" for track in range(len(TRIO)) for pitch in range(PITCHES)]
VOCABULARY = Vocabulary(
    {
        "NoteOn": _NOTES,
        "NoteOff": _NOTES,
        "Shift": [f"{ticks // TICKS}_{ticks % TICKS}" for ticks in range(1, LONGEST + 1)],  # beats, and the tick
        "EOS": [""],
        "BOS": [""],
    }
)
KEYS = len(_NOTES)
"""A track and a pitch in one number are a key: 128 keys a track."""
RANKS = 1024
"""At least twice the keys, and a power of two, which divides fast."""
_ON, _OFF, _SHIFT = (VOCABULARY.first(family) for family in ("NoteOn", "NoteOff", "Shift"))
_EVENTS = np.concatenate([_OFF + np.arange(KEYS), _ON + np.arange(KEYS)]).astype(np.uint16)
"""The ids of events in the order that they have at one time."""


@dataclass(frozen=True)
class GrooveReport:
    """What decoding found; of a piece that the grammar accepts, notes and nothing else.

    Attributes:
        notes: Notes decoded.
        unclosed: ... that no `NoteOff` ends; they end with the piece.
        instant: ... that end when they begin; they last a tick.
        restruck: `NoteOn` tokens on a key that sounded; they end the note that did.
        spurious: `NoteOff` tokens where nothing sounded.
        null_shifts: Shifts that go nowhere.
        backward_shifts: Shifts that go back in time.
        skipped: Ids that mean nothing, `BOS` among them if it is not first.
    """

    notes: int
    unclosed: int
    instant: int
    restruck: int
    spurious: int
    null_shifts: int
    backward_shifts: int
    skipped: int


class Groove:
    """The token language of grooves.

    Attributes:
        name: What `tokenizer.json` calls it.
        vocabulary: Its 794 tokens. None of them is for padding.
        end, begin: The ids of `EOS` and `BOS`.
    """

    name = "groove"
    vocabulary = VOCABULARY
    end, begin = VOCABULARY["EOS"], VOCABULARY["BOS"]

    @cached_property
    def grammar(self) -> Grammar[Moment]:
        """What may follow what."""
        return groove_grammar(VOCABULARY)

    def encode(self, score: Score) -> Encoded:
        """The trio of a piece in tokens.

        Raises:
            TokenError: It is not in 4/4, or has no notes.
        """
        trio, quantisation = quantise_trio(score)
        return Encoded(self.encode_notes(trio.notes), quantisation)

    def encode_notes(self, notes: Notes, end: int | None = None) -> Tokens:
        """Notes of a trio in tokens.

        A note lasts at least a tick, and ends where its key is struck again; of several that begin together on one
        key, the longest stays.

        Args:
            notes: Rows of `NOTE` in ticks of 12 a beat, on tracks 0 (bass), 1 (drums) and 2, in any order.
            end: Take only what is before this tick: what sounds there ends there.

        Raises:
            TokenError: There are no notes.
            ValueError: Some begin before tick 0, or are not of three tracks and 128 pitches.
        """
        if end is not None:
            notes = notes[notes["start"] < end]
        if not len(notes):
            raise TokenError("no notes")
        start, track, pitch = notes["start"].astype(np.int64), notes["track"].astype(np.int64), notes["pitch"]
        if start.min() < 0:
            raise ValueError(f"a note begins at tick {start.min()}, before the piece")
        if track.min() < 0 or track.max() >= len(TRIO) or pitch.min() < 0 or pitch.max() >= PITCHES:
            raise ValueError(f"notes are on tracks 0 to {len(TRIO) - 1} and of pitches 0 to {PITCHES - 1}")
        stop = np.maximum(notes["end"], start + 1)
        if end is not None:
            stop = np.minimum(stop, end)
        key = PITCHES * track + pitch
        kept, stop = settled(start, stop, key)
        start, key = start[kept], key[kept]

        # An event as one number: its time, then its rank at that time. Notes end before others begin.
        numbers = np.sort(np.concatenate([stop * RANKS + key, start * RANKS + KEYS + key]))
        time, rank = np.append(0, numbers // RANKS), numbers & (RANKS - 1)
        distance = time[1:] - time[:-1] // TICKS * TICKS  # from the beat of the moment before
        shifts = np.where(time[1:] > time[:-1], -(-distance // LONGEST), 0)
        place = np.cumsum(shifts + 1)
        # What is written later goes over what was: the longest shift, the last shift to each event, the events. Where
        # no shift leads to an event, the one written for it goes under the event before.
        tokens = np.full(place[-1] + 2, _SHIFT + LONGEST - 1, np.uint16)
        tokens[place - 1] = _SHIFT + (distance - 1) % LONGEST
        tokens[place] = _EVENTS[rank]
        tokens[0], tokens[-1] = self.begin, self.end
        return tokens

    def decode(self, tokens: NDArray[Any] | Sequence[int]) -> Score:
        """The trio that tokens say; of tokens that no piece has, what can be understood (see `decode_report`)."""
        return self.decode_report(tokens)[0]

    def decode_report(self, tokens: NDArray[Any] | Sequence[int]) -> tuple[Score, GrooveReport]:
        """The trio that tokens say, and what was wrong with them.

        Args:
            tokens: Ids, up to the first `EOS`. They need not begin at the beginning of a piece, nor follow the
                grammar. What is on a key next ends the note that sounds there, and the last moment ends all.
        """
        ids = np.asarray(tokens, np.int64)
        ids = ids[np.cumsum(ids == self.end) == 0]
        skipped = (ids < 0) | (ids >= self.end)
        begins = len(ids) > 0 and ids[0] == self.begin
        ids = ids[~skipped]

        is_shift = ids >= _SHIFT
        beats, tick = np.divmod(np.where(is_shift, ids - _SHIFT + 1, 0), TICKS)
        latest = np.maximum.accumulate(np.where(is_shift, np.arange(len(ids)), 0))
        clock = TICKS * np.cumsum(beats) + tick[latest]
        moves = np.diff(clock, prepend=0)[is_shift]

        event = np.flatnonzero(~is_shift)
        event = event[np.argsort(ids[event] % KEYS, kind="stable")]  # key by key, each in the order of tokens
        key, time, is_on = ids[event] % KEYS, clock[event], ids[event] < _OFF
        goes_on = np.diff(key, append=-1) == 0  # the next event is on the same key; of the last event, it is not
        was_on = np.roll(is_on & goes_on, 1)  # the event before was on the same key, and began a note
        stop = np.where(goes_on, np.roll(time, -1), clock.max(initial=0))
        is_twin = is_on & goes_on & np.roll(is_on, -1) & (stop == time)
        note = is_on & ~is_twin
        score = Score(
            ticks_per_beat=TICKS,
            notes=make_notes(
                time[note], np.maximum(stop, time + 1)[note], key[note] % PITCHES, VELOCITY, key[note] // PITCHES
            ),
            tracks=TRIO,
            time_signatures=(TimeSignature(0, 4, 4),),
        )
        return score, GrooveReport(
            notes=int(note.sum()),
            unclosed=int((is_on & ~goes_on).sum()),
            instant=int((note & goes_on & (stop <= time)).sum()),
            restruck=int((is_on & was_on).sum()),
            spurious=int((~is_on & ~was_on).sum()),
            null_shifts=int((moves == 0).sum()),
            backward_shifts=int((moves < 0).sum()),
            skipped=int(skipped.sum()) - int(begins),
        )

    def transposition(self, semitones: int) -> Tokens:
        """The map of ids that transposes the bass and the other: `transposition[tokens]`, shape (vocabulary,).

        Drums stay. A pitch that would leave 0 to 127 comes as many octaves nearer as it must, where another may be:
        the map is a permutation for no other number of semitones than 0, but no two notes of a piece fall together
        while it stays within its `headroom`.
        """
        moved = np.arange(PITCHES) + semitones
        moved -= 12 * np.ceil((moved - PITCHES + 1) / 12).clip(0).astype(np.int64)
        moved += 12 * np.ceil(-moved / 12).clip(0).astype(np.int64)
        mapped = np.arange(len(VOCABULARY))
        for family in (_ON, _OFF):
            for track, instrument in enumerate(TRIO):
                if not instrument.is_drum:
                    first = family + PITCHES * track
                    mapped[first : first + PITCHES] = first + moved
        return mapped.astype(np.uint16)

    def headroom(self, tokens: NDArray[Any]) -> tuple[int, int]:
        """How far tokens can be transposed down (at most 0) and up (at least 0) with no pitch folded."""
        ids = np.asarray(tokens, np.int64)
        track, pitch = np.divmod(ids[ids < _SHIFT] % KEYS, PITCHES)
        pitch = pitch[~np.array([instrument.is_drum for instrument in TRIO])[track]]
        if not len(pitch):
            return -PITCHES, PITCHES
        return -int(pitch.min()), PITCHES - 1 - int(pitch.max())
