"""REMI: pop piano as bars, positions, chords, tempos and notes.

A piece reads `Bar`, then for every sixteenth of the bar where something begins `Beat`, a `Chord` and a `Tempo` if
they change there, and for each note, from the highest down, `Pitch`, `Velocity`, `Duration`; after the last bar a
closing `Bar` and `EOS`. That is the order of the Pop1K7 data set.

The hard choice: encoding is sorting. Every token gets a key (its sixteenth, and its rank within it), and one stable
sort puts the piece together; there is no loop over notes. Decoding reads columns off the array in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.chord import NO_CHORD, QUALITIES, ROOTS, Chord
from musicgen.midi.score import ChordMark, Score, TimeSignature, Track, make_notes, make_tempos
from musicgen.tokens.grammar import Grammar
from musicgen.tokens.language import Encoded
from musicgen.tokens.quantise import (
    HALF_TICKS,
    MAX_HALVES,
    PITCHES,
    POSITION_TICKS,
    POSITIONS,
    TEMPOS,
    TICKS_PER_BEAT,
    VELOCITIES,
    quantise,
)
from musicgen.tokens.remi_grammar import Place, remi_grammar
from musicgen.tokens.vocabulary import Tokens, Vocabulary

CHORDS = (NO_CHORD, *(Chord(root, quality) for root in range(len(ROOTS)) for quality in QUALITIES))
_CHORD_NUMBER = {chord: number for number, chord in enumerate(CHORDS)}

VOCABULARY = Vocabulary(
    {
        "PAD": [""],
        "EOS": [""],
        "Bar": [""],
        "Beat": [str(position) for position in range(POSITIONS)],
        "Tempo": [str(bpm) for bpm in TEMPOS],
        "Chord": [str(chord) for chord in CHORDS],
        "Pitch": [str(pitch) for pitch in PITCHES],
        "Velocity": [str(velocity) for velocity in VELOCITIES],
        "Duration": [f"{halves / 2:g}" for halves in range(1, MAX_HALVES + 1)],  # in sixteenths
    }
)
_BAR, _BEAT, _TEMPO, _CHORD, _PITCH, _VELOCITY, _DURATION = (
    VOCABULARY.number(name) for name in ("Bar", "Beat", "Tempo", "Chord", "Pitch", "Velocity", "Duration")
)


class Remi:
    """The token language of pop piano.

    Attributes:
        name: What `tokenizer.json` calls it.
        vocabulary: Its 361 tokens.
        pad, end: The ids of `PAD` and `EOS`.
    """

    name = "remi"
    vocabulary = VOCABULARY
    pad, end = VOCABULARY["PAD"], VOCABULARY["EOS"]

    @cached_property
    def grammar(self) -> Grammar[Place]:
        """What may follow what."""
        return remi_grammar(VOCABULARY)

    def encode(self, score: Score) -> Encoded:
        """A piece in tokens.

        Raises:
            TokenError: It is not in 4/4, or has no notes that a piano could play.
        """
        score, quantisation = quantise(score)
        first, notes = VOCABULARY.first, score.notes
        position = notes["start"] // POSITION_TICKS
        bars = np.arange(int(position[-1]) // POSITIONS + 2) * POSITIONS  # the last is the closing one
        tempo_position = score.tempos["tick"] // POSITION_TICKS
        chord_position = np.array([mark.tick // POSITION_TICKS for mark in score.chords], np.int64)
        beats = np.unique(np.concatenate([position, tempo_position, chord_position]))
        triples = np.stack(
            [
                first("Pitch") + notes["pitch"] - PITCHES[0],
                first("Velocity") + (notes["velocity"] - VELOCITIES[0]) // VELOCITIES.step,
                first("Duration") + (notes["end"] - notes["start"]) // HALF_TICKS - 1,
            ],
            axis=1,
        )
        parts = [  # in the order that they have within one position
            (bars, np.full(len(bars), first("Bar"))),
            (beats, first("Beat") + beats % POSITIONS),
            (chord_position, first("Chord") + np.array([_CHORD_NUMBER[mark.chord] for mark in score.chords], np.int64)),
            (tempo_position, first("Tempo") + (score.tempos["bpm"].astype(np.int64) - TEMPOS[0]) // TEMPOS.step),
            (np.repeat(position, 3), triples.ravel()),
        ]
        order = np.argsort(np.concatenate([where for where, _ in parts]), kind="stable")
        tokens = np.concatenate([what for _, what in parts])[order]
        return Encoded(np.append(tokens, self.end).astype(np.uint16), quantisation)

    def decode(self, tokens: NDArray[Any] | Sequence[int]) -> Score:
        """The piece that tokens say; of tokens that no piece has, what can be understood.

        Args:
            tokens: Ids, up to the first `EOS`. They need not begin at the beginning of a piece, nor follow the
                grammar: a note is read where its three tokens stand together after a `Beat`.
        """
        ids = np.asarray(tokens, np.int64)
        ids = ids[np.cumsum(ids == self.end) == 0]
        ids = ids[ids != self.pad]
        family, value = VOCABULARY.family[ids], VOCABULARY.value[ids]
        bar = np.cumsum(family == _BAR) - 1
        metre = np.maximum.accumulate(np.where((family == _BAR) | (family == _BEAT), np.arange(len(ids)), -1))
        placed = (bar >= 0) & (family[metre] == _BEAT)
        tick = (bar * POSITIONS + value[metre]) * POSITION_TICKS
        following, after = np.append(family[1:], [-1]), np.append(family[2:], [-1, -1])[: len(family)]
        pitch = np.flatnonzero(placed & (family == _PITCH) & (following == _VELOCITY) & (after == _DURATION))
        tempo, chord = np.flatnonzero(placed & (family == _TEMPO)), np.flatnonzero(placed & (family == _CHORD))
        return Score(
            ticks_per_beat=TICKS_PER_BEAT,
            notes=make_notes(
                tick[pitch],
                tick[pitch] + (value[pitch + 2] + 1) * HALF_TICKS,
                PITCHES[0] + value[pitch],
                VELOCITIES[0] + VELOCITIES.step * value[pitch + 1],
            ),
            tracks=(Track("Piano"),),
            tempos=make_tempos([(int(tick[i]), float(TEMPOS[value[i]])) for i in tempo]),
            time_signatures=(TimeSignature(0, 4, 4),),
            chords=tuple(ChordMark(int(tick[i]), CHORDS[value[i]]) for i in chord),
        )

    def transposition(self, semitones: int) -> Tokens:
        """The permutation of ids that transposes: `permutation[tokens]`, shape (vocabulary,).

        It is meant for pieces that stay on the keyboard (see `headroom`): what leaves it comes in at the other end.
        """
        permutation = np.arange(len(VOCABULARY))
        pitches, chords = VOCABULARY.ids["Pitch"], VOCABULARY.ids["Chord"]
        permutation[pitches.start : pitches.stop] = np.roll(np.array(pitches), -semitones)
        for number, chord in enumerate(CHORDS):
            permutation[chords.start + number] = chords.start + _CHORD_NUMBER[chord.transposed(semitones)]
        return permutation.astype(np.uint16)

    def headroom(self, tokens: NDArray[Any]) -> tuple[int, int]:
        """How far tokens can be transposed down (at most 0) and up (at least 0) and stay on the keyboard."""
        pitch = VOCABULARY.value[tokens][VOCABULARY.family[tokens] == _PITCH]
        if not len(pitch):
            return -len(PITCHES), len(PITCHES)
        return -int(pitch.min()), len(PITCHES) - 1 - int(pitch.max())

    def bar_starts(self, tokens: NDArray[Any]) -> NDArray[np.int64]:
        """Where the `Bar` tokens stand."""
        return np.flatnonzero(np.asarray(tokens) == VOCABULARY["Bar"])
