"""Chord symbols: a root and one of eleven qualities, or no chord.

The hard choice: the bass is not kept. No token of ours says it, and a chord that came back from a file with
another bass than it went in with would be worse than one that never had any.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

ROOTS = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
QUALITIES = ("M", "m", "o", "+", "7", "M7", "m7", "o7", "/o7", "sus2", "sus4")
"""Major, minor, diminished, augmented, dominant, major and minor seventh, diminished and half-diminished seventh,
and the two suspensions: the qualities that the `chorder` package finds, under its names."""

HARTE = {
    "maj": "M",
    "min": "m",
    "dim": "o",
    "aug": "+",
    "7": "7",
    "maj7": "M7",
    "min7": "m7",
    "dim7": "o7",
    "hdim7": "/o7",
    "sus2": "sus2",
    "sus4": "sus4",
    "maj6": "M",
    "min6": "m",
    "minmaj7": "m",
    "9": "7",
    "maj9": "M7",
    "min9": "m7",
    "": "M",
}
"""Shorthands of Harte's syntax to the nearest of the eleven qualities."""

_LETTERS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
_ROOT = re.compile(r"([A-G])([#b]*)\Z")


class Chord(NamedTuple):
    """A chord, or the absence of one.

    Attributes:
        root: Semitones above C, 0 to 11; -1 for no chord.
        quality: One of `QUALITIES`; `N` for no chord.
    """

    root: int
    quality: str

    @classmethod
    @lru_cache(1024)  # a song names the same few chords again and again
    def from_mark(cls, text: str) -> Chord | None:
        """Read `root_quality` or `root_quality_bass`, as in `A_M7_C#` and `N_N_N`; None for any other text."""
        root, _, rest = text.partition("_")
        quality = rest.partition("_")[0]
        if root == "N" and quality == "N":
            return NO_CHORD
        pitch_class = parse_root(root)
        if pitch_class is None or quality not in QUALITIES:
            return None
        return cls(pitch_class, quality)

    @classmethod
    def from_harte(cls, text: str) -> Chord | None:
        """Read Harte's syntax, as in `Bb:min7/b7`, `G:sus4(b7)` and `N`; None for what is not a chord in it."""
        if text == "N":
            return NO_CHORD
        root, _, rest = text.partition("/")[0].partition(":")
        pitch_class = parse_root(root)
        quality = HARTE.get(rest.partition("(")[0])
        if pitch_class is None or quality is None:
            return None
        return cls(pitch_class, quality)

    def transposed(self, semitones: int) -> Chord:
        """The same quality on another root."""
        return self if self == NO_CHORD else Chord((self.root + semitones) % 12, self.quality)

    def __str__(self) -> str:
        return f"{'N' if self == NO_CHORD else ROOTS[self.root]}_{self.quality}"


NO_CHORD = Chord(-1, "N")


def parse_root(text: str) -> int | None:
    """`Bb` to 10; None for what is not the name of a pitch class."""
    match = _ROOT.match(text)
    if match is None:
        return None
    letter, accidentals = match.groups()
    return (_LETTERS[letter] + accidentals.count("#") - accidentals.count("b")) % 12
