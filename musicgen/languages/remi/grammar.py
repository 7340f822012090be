"""The grammar of REMI: the table, and the counters that its conditions use.

Design note: the grammar accepts exactly what the encoder writes, so that token sequences and quantised pieces are one
to one. A piece states its metre (if tokens have metres) and its tempo first. Its first and last bars contain a note.
Positions in a bar go forward, pitches at one position go down. Metres, chords and tempos are named where they change. A
key that is down is not struck.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grammar import Grammar
from musicgen.languages.remi.tokens import PITCHES, TokenSet

LATER = "later in the bar"
FREE = "a key that is up, below the last"
SOUNDED = "a note has begun"
OTHER_METRE = "another metre"
OTHER_TEMPO = "another tempo"
OTHER_CHORD = "another chord"
CLOSING = "a note began in the bar before"

TABLE = {
    "start": {"Bar": ""},
    "bar": {"Beat": LATER, "Bar": SOUNDED, "EOS": CLOSING},
    "beat": {"Chord": OTHER_CHORD, "Tempo": OTHER_TEMPO, "Pitch": FREE},
    "chord": {"Tempo": OTHER_TEMPO, "Pitch": FREE, "Beat": LATER, "Bar": SOUNDED},
    "tempo": {"Pitch": FREE, "Beat": LATER, "Bar": SOUNDED},
    "pitch": {"Velocity": ""},
    "velocity": {"Duration": ""},
    "note": {"Pitch": FREE, "Beat": LATER, "Bar": SOUNDED},
    "ended": {"PAD": ""},
}
METRES = {
    "bar": {"Metre": OTHER_METRE, **TABLE["bar"]},
    "metre": {"Beat": LATER, "Bar": SOUNDED},
}
"""What tokens with metres add to the table."""
AFTER = {
    "Bar": "bar",
    "Beat": "beat",
    "EOS": "ended",
    "Chord": "chord",
    "Tempo": "tempo",
    "Pitch": "pitch",
    "Velocity": "velocity",
    "Duration": "note",
    "PAD": "ended",
}


@dataclass
class Place:
    """A place in a piece. Times are in units.

    Attributes:
        lengths: Units in a bar of each metre.
        step: Units between positions.
        durations: Lengths of notes.
        metre: The number of the metre; -1 before it is stated.
        bar: Bars begun, minus one.
        start: When the bar began.
        beat: The position in the bar; -1 before the first.
        pitch: The number of the last pitch at this position; above the highest before the first.
        tempo: The number of the tempo; -1 before it is stated.
        chord: The number of the chord; -1 before it is stated.
        notes: Notes in the piece so far.
        bar_notes: Notes in this bar so far.
        closed_notes: Notes in the bar before.
        up_at: When each key is up again, shape (88,).
    """

    lengths: tuple[int, ...]
    step: int
    durations: tuple[int, ...]
    metre: int
    bar: int = -1
    start: int = 0
    beat: int = -1
    pitch: int = len(PITCHES)
    tempo: int = -1
    chord: int = -1
    notes: int = 0
    bar_notes: int = 0
    closed_notes: int = 0
    up_at: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(PITCHES), np.int64))

    @property
    def bars(self) -> int:
        """Bars that are complete."""
        return self.bar

    @property
    def length(self) -> int:
        """Units in the bar; 0 before the metre is stated."""
        return self.lengths[self.metre] if self.metre >= 0 else 0

    @property
    def now(self) -> int:
        """Units since the beginning."""
        return self.start + self.step * self.beat

    def update(self, family: str, value: int) -> None:
        """Add a token to the piece."""
        if family == "Bar":
            self.start += self.length if self.bar >= 0 else 0
            self.bar += 1
            self.beat = -1
            self.bar_notes, self.closed_notes = 0, self.bar_notes
        elif family == "Metre":
            self.metre = value
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
            self.up_at[self.pitch] = self.now + self.durations[value]


def _is_later(place: Place, beat: Any) -> Any:
    # Before the tempo is stated only the first position is open, so that the tempo is stated there.
    return (beat > place.beat) & (place.step * beat < place.length) & ((place.tempo >= 0) | (beat == 0))


CONDITIONS: dict[str, Any] = {
    LATER: _is_later,
    FREE: lambda place, pitch: (pitch < place.pitch) & (place.up_at[pitch] <= place.now) & (place.tempo >= 0),
    OTHER_METRE: lambda place, metre: metre != place.metre,
    OTHER_TEMPO: lambda place, tempo: tempo != place.tempo,
    OTHER_CHORD: lambda place, chord: chord != place.chord,
    SOUNDED: lambda place, _: place.notes > 0,
    CLOSING: lambda place, _: place.closed_notes > 0,
}


def remi_grammar(tokens: TokenSet) -> Grammar[Place]:
    """The grammar of REMI over a set of tokens."""
    metre = -1 if tokens.has_metres else tokens.common
    start = partial(Place, tokens.bar_lengths, tokens.step, tokens.durations, metre)
    table = TABLE | METRES if tokens.has_metres else TABLE
    after = AFTER | ({"Metre": "metre"} if tokens.has_metres else {})
    return Grammar(tokens.vocabulary, table, after, CONDITIONS, start, end="ended")
