"""Keys and pitches by the names that musicians give them.

The hard choice: a minor key has eight tones, those of the natural scale and the leading tone. Pop in A minor goes to
E major in every other song; a key that forbade its own dominant would be of no use.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from musicgen.midi.chord import ROOTS, parse_root

MAJOR = (0, 2, 4, 5, 7, 9, 11)
MINOR = (0, 2, 3, 5, 7, 8, 10, 11)
_KEY = re.compile(r"([A-Ga-g][#b]*)[ _:-]*(major|maj|M|minor|min|m)?\Z")
_PITCH = re.compile(r"([A-G][#b]*)(-?\d+)\Z")


class Key(NamedTuple):
    """A key.

    Attributes:
        root: Semitones above C, 0 to 11.
        is_minor: Whether it is a minor key.
    """

    root: int
    is_minor: bool

    @classmethod
    def parse(cls, text: str) -> Key | None:
        """Read `C`, `F#m`, `Bb major`, `a minor`; None for what is not a key. A small letter alone is minor."""
        match = _KEY.match(text.strip().replace("♯", "#").replace("♭", "b"))
        if match is None:
            return None
        name, mode = match[1], match[2] or ("m" if match[1][0].islower() else "M")
        root = parse_root(name[0].upper() + name[1:])
        return None if root is None else cls(root, mode in ("m", "min", "minor"))

    @property
    def pitch_classes(self) -> frozenset[int]:
        """Its tones, in semitones above C, 0 to 11."""
        return frozenset((self.root + tone) % 12 for tone in (MINOR if self.is_minor else MAJOR))

    def __str__(self) -> str:
        return f"{ROOTS[self.root]} {'minor' if self.is_minor else 'major'}"


def parse_pitch(text: str) -> int | None:
    """`C4` or `60` to 60 (middle C); None for what is not a pitch of MIDI."""
    text = text.strip().replace("♯", "#").replace("♭", "b")
    match = _PITCH.match(text)
    if match:
        accidentals = match[1].count("#") - match[1].count("b")
        pitch = 12 * (int(match[2]) + 1) + (parse_root(match[1][0]) or 0) + accidentals
    elif text.isascii() and text.isdigit():
        pitch = int(text)
    else:
        return None
    return pitch if 0 <= pitch <= 127 else None
