"""The grammar of REMI: the table, and the counters that its conditions ask.

The hard choice: the grammar accepts exactly what the encoder writes, so that a sequence and a MIDI file are one to
one. A piece says its tempo at once, begins and ends with a bar in which a note begins, goes through a bar in order
and through a chord from the top, names chords and tempos where they change, and does not strike a key that is down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.tokens.grammar import Grammar, Rule
from musicgen.tokens.quantise import PITCHES, POSITIONS
from musicgen.tokens.vocabulary import Vocabulary

LATER = "later in the bar"
FREE = "a key that is up, below the last"
SOUNDED = "a note has begun"
OTHER_TEMPO = "another tempo"
OTHER_CHORD = "another chord"
CLOSING = "a note began in the bar before"

RULES = (
    Rule("start", "Bar", "bar"),
    Rule("bar", "Beat", "beat", LATER),
    Rule("bar", "Bar", "bar", SOUNDED),
    Rule("bar", "EOS", "ended", CLOSING),
    Rule("beat", "Chord", "chord", OTHER_CHORD),
    Rule("beat", "Tempo", "tempo", OTHER_TEMPO),
    Rule("beat", "Pitch", "pitch", FREE),
    Rule("chord", "Tempo", "tempo", OTHER_TEMPO),
    Rule("chord", "Pitch", "pitch", FREE),
    Rule("chord", "Beat", "beat", LATER),
    Rule("chord", "Bar", "bar", SOUNDED),
    Rule("tempo", "Pitch", "pitch", FREE),
    Rule("tempo", "Beat", "beat", LATER),
    Rule("tempo", "Bar", "bar", SOUNDED),
    Rule("pitch", "Velocity", "velocity"),
    Rule("velocity", "Duration", "note"),
    Rule("note", "Pitch", "pitch", FREE),
    Rule("note", "Beat", "beat", LATER),
    Rule("note", "Bar", "bar", SOUNDED),
    Rule("ended", "PAD", "ended"),
)


@dataclass
class Place:
    """Where in a piece we are.

    Attributes:
        bar: Bars begun, less one.
        beat: The position in the bar; -1 before the first.
        pitch: The number of the last pitch begun at this position; past the highest before the first.
        tempo: The number of the tempo; -1 before it is said.
        chord: The number of the chord; -1 before it is said.
        notes: Notes begun in the piece.
        bar_notes: Notes begun in this bar.
        closed_notes: Notes begun in the bar before.
        up_at: When each key is up again, in half positions since the beginning, shape (88,).
    """

    bar: int = -1
    beat: int = -1
    pitch: int = len(PITCHES)
    tempo: int = -1
    chord: int = -1
    notes: int = 0
    bar_notes: int = 0
    closed_notes: int = 0
    up_at: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(PITCHES), np.int64))

    @property
    def now(self) -> int:
        """Half positions since the beginning."""
        return 2 * (POSITIONS * self.bar + self.beat)

    def update(self, family: str, value: int) -> None:
        """Take note of a token."""
        if family == "Bar":
            self.bar += 1
            self.beat = -1
            self.bar_notes, self.closed_notes = 0, self.bar_notes
        elif family == "Beat":
            self.beat, self.pitch = value, len(PITCHES)
        elif family == "Tempo":
            self.tempo = value
        elif family == "Chord":
            self.chord = value
        elif family == "Pitch":
            self.pitch = value
            self.notes += 1
            self.bar_notes += 1
        elif family == "Duration" and self.pitch < len(PITCHES):
            self.up_at[self.pitch] = self.now + value + 1


CONDITIONS: dict[str, Any] = {
    # Before the tempo has been said there is one position, the first, so that it is said there.
    LATER: lambda place, beat: (beat > place.beat) & ((place.tempo >= 0) | (beat == 0)),
    FREE: lambda place, pitch: (pitch < place.pitch) & (place.up_at[pitch] <= place.now) & (place.tempo >= 0),
    OTHER_TEMPO: lambda place, tempo: tempo != place.tempo,
    OTHER_CHORD: lambda place, chord: chord != place.chord,
    SOUNDED: lambda place, _: place.notes > 0,
    CLOSING: lambda place, _: place.closed_notes > 0,
}


def remi_grammar(vocabulary: Vocabulary) -> Grammar[Place]:
    """The grammar of REMI over its vocabulary."""
    return Grammar(vocabulary, RULES, CONDITIONS, Place, end="ended")
