"""What a piece is asked to keep to, from the words of a command to values, and what of it can be seen to be impossible.

The hard choice: this file knows music and no tokens. How a token language keeps a constraint, and whether it can, is
said where the language's guide is (`remi_guide.py`); each constraint is one attribute here, whoever keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from musicgen.errors import UserError
from musicgen.midi.chord import ROOTS, Chord
from musicgen.midi.key import Key, parse_pitch

LENGTHS = ("bars", "seconds", "tokens")
MUSICAL = ("key", "pitches", "polyphony", "tempo", "chords", "tracks")


@dataclass(frozen=True)
class Constraints:
    """What holds for a piece; None is no constraint.

    Attributes:
        grammar: Whether only what the token language allows may follow. Without it nothing else is kept but lengths.
        bars: How many bars the piece has, prompt included; its last note ends with the last of them.
        seconds: How long it lasts, prompt included: it ends there, or less than a thirty-second note before.
        tokens: After so many tokens it ends as soon as it can; it may end before.
        key: New notes are of this key, and new chords too.
        pitches: The lowest and the highest pitch of new notes.
        polyphony: How many notes sound together at most.
        tempo: The lowest and the highest tempo, in quarter notes a minute; if they are the same, the tempo.
        chords: One for each bar, again from the first after the last.
        tracks: Names of the tracks that play.
    """

    grammar: bool = True
    bars: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    key: Key | None = None
    pitches: tuple[int, int] | None = None
    polyphony: int | None = None
    tempo: tuple[float, float] | None = None
    chords: tuple[Chord, ...] | None = None
    tracks: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        given = [name for name in LENGTHS if getattr(self, name) is not None]
        if len(given) != 1:
            said = " and ".join(f"{name}={getattr(self, name):g}" for name in given) or "no length"
            raise UserError(f"{said}: give one of {', '.join(LENGTHS)}")
        if not getattr(self, given[0]) > 0 or math.isinf(getattr(self, given[0])):
            raise UserError(f"{given[0]}={getattr(self, given[0]):g}: takes a number above 0")
        musical = [name for name in MUSICAL if getattr(self, name) is not None]
        if not self.grammar and musical:
            raise UserError(f"grammar=false and {musical[0]}=: it is the grammar that keeps constraints; leave out one")
        if not self.grammar and self.seconds is not None:
            raise UserError("grammar=false and seconds=: give bars= or tokens=, or leave the grammar on")
        if self.polyphony is not None and self.polyphony < 1:
            raise UserError(f"polyphony={self.polyphony}: takes 1 or more")
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


def parse_constraints(
    *,
    grammar: bool = True,
    bars: int | None = None,
    seconds: float | None = None,
    tokens: int | None = None,
    key: str | None = None,
    pitches: str | None = None,
    polyphony: int | None = None,
    tempo: float | str | None = None,
    chords: str | Sequence[str] | None = None,
    tracks: str | Sequence[str] | None = None,
) -> Constraints:
    """Constraints as a person writes them.

    Args:
        grammar: See `Constraints`, as for bars, seconds, tokens and polyphony.
        bars: See there. 16 if no length is given.
        seconds: See there.
        tokens: See there.
        key: `C`, `F#m`, `Bb major`.
        pitches: `48-84`, `C3-C6`.
        polyphony: See there.
        tempo: `120`, `90-130`.
        chords: `C Am F G7`.
        tracks: `piano`; several with spaces or commas between.

    Raises:
        UserError: A value cannot be read, or two contradict each other; the sentence names them.
    """
    if bars is None and seconds is None and tokens is None:
        bars = 16
    return Constraints(
        grammar=grammar,
        bars=bars,
        seconds=seconds,
        tokens=tokens,
        key=None if key is None else _parse_key(key),
        pitches=None if pitches is None else _parse_pitches(str(pitches)),
        polyphony=polyphony,
        tempo=None if tempo is None else _parse_tempo(tempo),
        chords=None if chords is None else _parse_chords(chords),
        tracks=None if tracks is None else tuple(_words(tracks)),
    )


def _parse_key(text: str) -> Key:
    key = Key.parse(str(text))
    if key is None:
        raise UserError(f"key={text}: not a key; write it as C, F#m or Bb major")
    return key


def _parse_pitches(text: str) -> tuple[int, int]:
    """Two pitches with a hyphen between; a pitch may have one of its own, as in `C-1`."""
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


def _chart(chord: Chord) -> str:
    return f"{ROOTS[chord.root]}{'' if chord.quality == 'M' else chord.quality}"
