"""Chord symbols: a root and one of eleven qualities, or no chord. The bass note is dropped, because no token has it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

ROOTS = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
FLATS = {"m": (3, 10), "m7": (3, 10), "o": (), "o7": (), "/o7": ()}
"""Roots that charts usually write with a flat, by quality: E♭m but C♯m. Other qualities have `MOST_FLATS`."""
MOST_FLATS = (1, 3, 8, 10)
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
"""The nearest of the eleven qualities for each shorthand of Harte's syntax."""

CHART = {
    "M": ("", "M", "maj"),
    "m": ("m", "min", "-"),
    "o": ("o", "dim", "°"),
    "+": ("+", "aug"),
    "7": ("7",),
    "M7": ("M7", "maj7", "Δ"),
    "m7": ("m7", "min7", "-7"),
    "o7": ("o7", "dim7", "°7"),
    "/o7": ("/o7", "m7b5", "ø", "ø7"),
    "sus2": ("sus2",),
    "sus4": ("sus4", "sus"),
}
"""How chord charts write each quality, after the root."""

TONES = {
    "M": (0, 4, 7),
    "m": (0, 3, 7),
    "o": (0, 3, 6),
    "+": (0, 4, 8),
    "7": (0, 4, 7, 10),
    "M7": (0, 4, 7, 11),
    "m7": (0, 3, 7, 10),
    "o7": (0, 3, 6, 9),
    "/o7": (0, 3, 6, 10),
    "sus2": (0, 2, 7),
    "sus4": (0, 5, 7),
    "N": (),
}
"""The tones of each quality, in semitones above the root."""

_LETTERS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
_ROOT = re.compile(r"([A-G])([#b]*)\Z")
_CHART_ROOT = re.compile(r"([A-G][#b]*)(.*)\Z", re.DOTALL)
_CHART_QUALITY = {written: quality for quality, names in CHART.items() for written in names}


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
        """Read `root_quality` or `root_quality_bass`, such as `A_M7_C#` and `N_N_N`. None means that it is no chord."""
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
        """Read Harte's syntax, such as `Bb:min7/b7`, `G:sus4(b7)` and `N`. None means that it is no chord."""
        if text == "N":
            return NO_CHORD
        root, _, rest = text.partition("/")[0].partition(":")
        pitch_class = parse_root(root)
        quality = HARTE.get(rest.partition("(")[0])
        if pitch_class is None or quality is None:
            return None
        return cls(pitch_class, quality)

    @classmethod
    def from_chart(cls, text: str) -> Chord | None:
        """Read a chord chart, such as `Am7`, `F#`, `Bbmaj7`, `Gsus4` and `N.C.`. None means that it is no chord."""
        if text in ("N", "N.C.", "NC"):
            return NO_CHORD
        match = _CHART_ROOT.match(text.replace("♯", "#").replace("♭", "b"))
        quality = _CHART_QUALITY.get(match[2]) if match else None
        pitch_class = parse_root(match[1]) if match else None
        return None if pitch_class is None or quality is None else cls(pitch_class, quality)

    @property
    def pitch_classes(self) -> frozenset[int]:
        """Its tones, in semitones above C, 0 to 11."""
        return frozenset((self.root + tone) % 12 for tone in TONES[self.quality])

    @property
    def root_name(self) -> str:
        """The root as charts usually write it under such a chord: `Bb`, but `A#` under a diminished one."""
        is_flat = self.root in FLATS.get(self.quality, MOST_FLATS)
        return f"{ROOTS[self.root + 1]}b" if is_flat else ROOTS[self.root]

    def transposed(self, semitones: int) -> Chord:
        """The same quality on another root."""
        return self if self == NO_CHORD else Chord((self.root + semitones) % 12, self.quality)

    def __str__(self) -> str:
        return f"{'N' if self == NO_CHORD else ROOTS[self.root]}_{self.quality}"


NO_CHORD = Chord(-1, "N")


def parse_root(text: str) -> int | None:
    """The pitch class of a name: 10 for `Bb`. None means that it is no name of a pitch class."""
    match = _ROOT.match(text)
    if match is None:
        return None
    letter, accidentals = match.groups()
    return (_LETTERS[letter] + accidentals.count("#") - accidentals.count("b")) % 12
