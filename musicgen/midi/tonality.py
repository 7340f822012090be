"""Which chord notes are in, by how long each pitch class sounds: a root and its third.

That is all it takes to say whether music came home. `musicgen.midi.key` finds the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.key import Key

Weights = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]
"""How long each pitch class sounds, shape (12,)."""

BASS_BONUS = 0.2
"""How much it counts, of all that sounds, that the root of a chord is its lowest note."""


class Triad(NamedTuple):
    """A chord, as far as an ear needs it.

    Attributes:
        root: Semitones above C, 0 to 11.
        third: 1 for a major third, -1 for a minor third, 0 if there is neither or both alike.
    """

    root: int
    third: int

    def agrees(self, other: Triad) -> bool:
        """Whether both have the same root, and their thirds do not contradict each other."""
        return self.root == other.root and self.third * other.third >= 0


def key_triad(key: Key) -> Triad:
    """The chord on the first tone of a key."""
    return Triad(key.root, -1 if key.is_minor else 1)


def find_triad(weights: Weights, bass: int) -> Triad:
    """The chord of some weights, of which at least one is above 0, and of their lowest pitch class.

    It is the major or minor triad with the largest share of its own tones minus that of others. The lowest note speaks
    for the triad of which it is the root.
    """
    fits = _TRIADS @ (weights / np.sum(weights))
    fits[[bass, bass + 12]] += BASS_BONUS
    root = int(fits.argmax()) % 12
    return Triad(root, int(np.sign(weights[(root + 4) % 12] - weights[(root + 3) % 12])))


def _on_every_root(*counts: Mapping[int, float]) -> NDArray[np.float64]:
    """What each tone above the root counts (0 if it is not there), on each root in turn, shape (12 · counts, 12)."""
    rows = [[count.get(tone, 0.0) for tone in range(12)] for count in counts]
    return np.array([np.roll(row, root) for row in rows for root in range(12)])


_TRIADS = 2 * _on_every_root({0: 1, 4: 1, 7: 1}, {0: 1, 3: 1, 7: 1}) - 1
