"""Constraints on a piece: parses what the user writes, and detects impossible combinations.

Design note: this file knows music, but no tokens. The constraint mask of each language decides how, and whether, it can
keep a constraint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from musicgen.errors import UserError
from musicgen.midi.chord import ROOTS, Chord
from musicgen.midi.key import Key, parse_pitch
from musicgen.options import fit
from musicgen.request import RequestOptions

LENGTHS = ("bars", "seconds", "tokens")
MUSICAL = ("key", "pitches", "polyphony", "tempo", "metre", "chords", "tracks")


@dataclass(frozen=True)
class Constraints:
    """What holds for a piece; None means no constraint.

    Attributes:
        grammar: Whether only tokens that the grammar allows may follow. If not, only lengths are kept.
        bars: How many bars the piece has, prompt included; its last note ends with the last of them.
        seconds: How long it lasts, prompt included; it may end less than a thirty-second note earlier.
        tokens: After this many tokens the piece ends as soon as it can; it may end earlier.
        key: New notes are of this key, and new chords too.
        pitches: The lowest and the highest pitch of new notes.
        polyphony: The most notes that sound together.
        tempo: The lowest and the highest tempo, in quarter notes per minute; equal for a fixed tempo.
        metre: The metre of new bars, as numerator and denominator.
        chords: One for each bar; after the last they start again.
        tracks: Names of the tracks that play.
        ending: `cadence` leads the last bars home if the language can; `open` does not.
    """

    grammar: bool = True
    bars: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    key: Key | None = None
    pitches: tuple[int, int] | None = None
    polyphony: int | None = None
    tempo: tuple[float, float] | None = None
    metre: tuple[int, int] | None = None
    chords: tuple[Chord, ...] | None = None
    tracks: tuple[str, ...] | None = None
    ending: str = "cadence"

    def __post_init__(self) -> None:
        given = [name for name in LENGTHS if getattr(self, name) is not None]
        if len(given) != 1:
            lengths = " and ".join(f"{name}={getattr(self, name):g}" for name in given) or "no length"
            raise UserError(f"{lengths}: give one of {', '.join(LENGTHS)}")
        musical = [name for name in MUSICAL if getattr(self, name) is not None]
        if not self.grammar and musical:
            raise UserError(f"grammar=false and {musical[0]}=: it is the grammar that keeps constraints; leave out one")
        if not self.grammar and self.seconds is not None:
            raise UserError("grammar=false and seconds=: give bars= or tokens=, or leave the grammar on")
        if self.key and self.pitches and not self.pitch_set():
            low, high = self.pitches
            raise UserError(f"key={self.key} and pitches={low}-{high}: no pitch is in both")
        for chord in self.chords or () if self.key else ():
            strange = sorted(chord.pitch_classes - self.key.pitch_classes) if self.key else []
            if strange:
                raise UserError(
                    f"key={self.key} and chords: {_chart(chord)} has {ROOTS[strange[0]]}, which is not in the key; "
                    "leave out the key, or choose another chord"
                )

    def pitch_set(self) -> frozenset[int]:
        """The pitches that key and range leave."""
        low, high = self.pitches or (0, 127)
        return frozenset(
            pitch for pitch in range(low, high + 1) if self.key is None or pitch % 12 in self.key.pitch_classes
        )


def parse_constraints(**asked: Any) -> Constraints:
    """Constraints from the user's texts: `parse_constraints(bars=8, key="F#m", pitches="C3-C6")`.

    Args:
        asked: The fields of `Constraints`, written as `RequestOptions` says. 16 bars if no length is given.

    Raises:
        UserError: A value cannot be read, or two contradict each other; the message names them.
    """
    given = {name: value for name, value in fit(RequestOptions, asked).items() if value is not None}
    if not set(LENGTHS) & set(given):
        given["bars"] = 16
    return Constraints(**given | {name: parse(given[name]) for name, parse in PARSERS.items() if name in given})


def _parse_key(text: str) -> Key:
    key = Key.parse(str(text))
    if key is None:
        raise UserError(f"key={text}: not a key; write it as C, F#m or Bb major")
    return key


def _parse_pitches(text: str) -> tuple[int, int]:
    """Two pitches with a hyphen between them; a pitch may contain a hyphen itself, as in `C-1`."""
    for place, letter in enumerate(text):
        low, high = parse_pitch(text[:place]), parse_pitch(text[place + 1 :])
        if letter == "-" and low is not None and high is not None:
            if low > high:
                raise UserError(f"pitches={text}: the lower pitch comes first")
            return low, high
    raise UserError(f"pitches={text}: not a range of pitches; write it as 48-84 or C3-C6")


def _parse_tempo(tempo: float | str) -> tuple[float, float]:
    parts = str(tempo).split("-")
    try:
        low, high = float(parts[0]), float(parts[-1])
    except ValueError:
        low = high = math.nan
    if len(parts) > 2 or not (math.isfinite(low) and math.isfinite(high) and low > 0):
        raise UserError(f"tempo={tempo}: not a tempo; write it as 120 or 90-130")
    if low > high:
        raise UserError(f"tempo={tempo}: the lower tempo comes first")
    return low, high


def _parse_metre(text: str) -> tuple[int, int]:
    upper, _, lower = str(text).partition("/")
    if not (upper.isascii() and lower.isascii() and upper.isdigit() and lower.isdigit() and int(upper) and int(lower)):
        raise UserError(f"metre={text}: not a metre; write it as 3/4 or 6/8")
    return int(upper), int(lower)


def _parse_chords(chords: str | Sequence[str]) -> tuple[Chord, ...]:
    parsed = []
    for word in _words(chords):
        chord = Chord.from_chart(word) or Chord.from_mark(word)
        if chord is None:
            raise UserError(f"chords: {word!r} is not a chord; write C, Am, F#m7, Gsus4, Bdim, Cmaj7, N ...")
        parsed.append(chord)
    if not parsed:
        raise UserError("chords=: no chord is named; write chords='C Am F G'")
    return tuple(parsed)


def _words(text: str | Sequence[str]) -> list[str]:
    return text.replace(",", " ").replace("|", " ").split() if isinstance(text, str) else list(text)


PARSERS: dict[str, Callable[[Any], Any]] = {
    "key": _parse_key,
    "pitches": _parse_pitches,
    "tempo": _parse_tempo,
    "metre": _parse_metre,
    "chords": _parse_chords,
    "tracks": lambda text: tuple(_words(text)),
}
"""Functions that read what the user writes."""


def _chart(chord: Chord) -> str:
    return f"{ROOTS[chord.root]}{'' if chord.quality == 'M' else chord.quality}"
