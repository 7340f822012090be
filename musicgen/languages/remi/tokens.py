"""What REMI tokens can say: the 361 tokens of the paper, and an extended set for any common metre, triplets and swing.

Design note: both sets are one language in code. A `TokenSet` describes grid, metres, durations, velocities and tempos,
and everything else (quantising, codec, grammar, masks, clock) reads it. The paper's set has one metre, so it has no
token for it.

The extended grid has 12 positions in a quarter note, the fewest that contain sixteenths and triplets. Measured on real
songs, 24 would halve the mean shift (Pop1K7 10.7 to 5.8 ms, POP909 1.5 to 0.8 ms), but the position of a note in its
beat would have more entropy (0.58 nats in Pop1K7, 0.12 in POP909; no model was trained). What a finer grid adds is
mostly the unsteadiness of players.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from musicgen.languages.grid import Integers
from musicgen.languages.infill import gap_families
from musicgen.languages.vocabulary import Vocabulary
from musicgen.midi.chord import NO_CHORD, QUALITIES, ROOTS, Chord

Metre = tuple[int, int]
"""Numerator and denominator of a time signature."""

TICKS_PER_BEAT = 480
PITCHES = range(21, 109)
CHORDS = (NO_CHORD, *(Chord(root, quality) for root in range(len(ROOTS)) for quality in QUALITIES))
CHORD_NUMBER = {chord: number for number, chord in enumerate(CHORDS)}
COMMON: Metre = (4, 4)


@dataclass(frozen=True)
class TokenSet:
    """A set of REMI tokens. Times are counted in units, the unit of durations.

    Attributes:
        units: Units in a quarter note.
        step: Units between two positions at which something may begin.
        metres: The metres, as time signatures.
        durations: Lengths of notes in units, in order. The shortest is at most a step.
        unit_name: How many units a duration of 1 in the names of tokens has.
        velocities: Velocities of notes, evenly spaced.
        tempos: Tempos in quarter notes per minute, evenly spaced.
        has_gaps: Whether there are tokens for gaps that are filled.
    """

    units: int
    step: int
    metres: tuple[Metre, ...]
    durations: tuple[int, ...]
    unit_name: int
    velocities: range
    tempos: range
    has_gaps: bool = False

    @property
    def unit_ticks(self) -> int:
        """Ticks in a unit."""
        return TICKS_PER_BEAT // self.units

    @property
    def has_metres(self) -> bool:
        """Whether tokens say the metre."""
        return len(self.metres) > 1

    @property
    def has_triplets(self) -> bool:
        """Whether a third of a quarter note is on the grid."""
        return self.units // self.step % 3 == 0

    @cached_property
    def bar_lengths(self) -> tuple[int, ...]:
        """Units in a bar of each metre."""
        return tuple(4 * self.units * numerator // denominator for numerator, denominator in self.metres)

    @cached_property
    def common(self) -> int:
        """The number of 4/4, the metre of tokens that state none."""
        return self.metres.index(COMMON)

    @cached_property
    def lengths(self) -> Integers:
        """Durations in units, shape (durations,)."""
        return np.array(self.durations, np.int64)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens. New families are added at the end, so that ids stay as they are."""
        metres: dict[str, Sequence[str]] = {"Metre": [f"{upper}/{lower}" for upper, lower in self.metres]}
        return Vocabulary(
            {
                "PAD": [""],
                "EOS": [""],
                "Bar": [""],
                **(metres if self.has_metres else {}),
                "Beat": [str(position) for position in range(max(self.bar_lengths) // self.step)],
                "Tempo": [str(bpm) for bpm in self.tempos],
                "Chord": [str(chord) for chord in CHORDS],
                "Pitch": [str(pitch) for pitch in PITCHES],
                "Velocity": [str(velocity) for velocity in self.velocities],
                "Duration": [f"{units / self.unit_name:g}" for units in self.durations],
                **(gap_families() if self.has_gaps else {}),
            }
        )

    def longest_within(self, units: Integers) -> Integers:
        """The number of the longest duration that is not longer than some lengths in units; at least the first."""
        return (np.searchsorted(self.lengths, units, side="right") - 1).clip(0)

    def nearest_duration(self, units: Integers) -> Integers:
        """The number of the duration that is nearest to some lengths in units; of two, the longer."""
        between = self.lengths[:-1] + self.lengths[1:]
        return np.searchsorted(between, 2 * units, side="right")

    def nearest_tempo(self, bpm: float) -> int:
        """The number of the tempo that is nearest to a tempo, which may be infinite."""
        tempos = self.tempos
        return max(round((min(bpm, tempos[-1]) - tempos[0]) / tempos.step), 0)


PAPER = TokenSet(
    units=8,  # durations are in half sixteenths
    step=2,
    metres=(COMMON,),
    durations=tuple(range(1, 33)),
    unit_name=2,
    velocities=range(40, 87, 2),
    tempos=range(32, 225, 3),
)
"""The tokens of the paper: sixteenths of 4/4."""

EXTENDED = TokenSet(
    units=12,
    step=1,
    metres=(
        (2, 4), (3, 4), (4, 4), (5, 4), (6, 4), (7, 4), (2, 2), (3, 8), (5, 8), (6, 8), (7, 8), (9, 8), (12, 8),
    ),
    # Exact up to two beats, and up to 16 beats with an error of at most a twelfth of the duration.
    durations=tuple(chain(range(1, 25), range(26, 49, 2), range(52, 97, 4), range(108, 193, 12))),
    unit_name=1,
    velocities=range(3, 128, 4),
    tempos=range(20, 301),
    has_gaps=True,
)  # fmt: skip
"""Any common metre, sixteenths and triplets, long notes, the whole range of velocities, every whole tempo."""
