"""Reads token names of other programs as tokens of the paper.

Three dialects of REMI are known: the original program of 2020 (`Note On_60`), the Pop1K7 data set and programs based on
it (`Note_Pitch_60`), and MidiTok (`Pitch_60`).

Design note: a whole sequence is read, not one name at a time. The original program writes a tempo as two tokens and
puts the velocity before the pitch. MidiTok repeats positions, and only its durations tell the unit of positions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from musicgen.languages.grid import TokenError
from musicgen.languages.remi.tokens import PAPER, PITCHES
from musicgen.languages.vocabulary import Tokens
from musicgen.midi.chord import HARTE, NO_CHORD, Chord, parse_root

VOCABULARY = PAPER.vocabulary
POSITIONS = len(VOCABULARY.ids["Beat"])
FAMILIES = {
    "Bar": "Bar",
    "Beat": "Beat",
    "Position": "Beat",
    "Pitch": "Pitch",
    "Note_Pitch": "Pitch",
    "Note On": "Pitch",
    "Velocity": "Velocity",
    "Note_Velocity": "Velocity",
    "Note Velocity": "Velocity",
    "Duration": "Duration",
    "Note_Duration": "Duration",
    "Note Duration": "Duration",
    "Tempo": "Tempo",
    "Tempo Class": "Tempo",
    "Tempo Value": "Tempo",
    "Chord": "Chord",
    "EOS": "EOS",
    "PAD": "PAD",
}
"""From the first part of a name in any dialect to our family."""

TEMPO_CLASSES = {"slow": 30, "mid": 90, "fast": 150}
"""Tempo classes of the original REMI. The value that follows is added to this many beats per minute."""

QUALITIES = {
    **HARTE,
    "dom": "7",
    "7dom": "7",
    "7min": "m7",
    "7maj": "M7",
    "7halfdim": "/o7",
    "7dim": "o7",
    "7aug": "+",
    "9maj": "M7",
    "9min": "m7",
}
_NAME = re.compile("(" + "|".join(sorted(FAMILIES, key=len, reverse=True)) + r")(?:_(.+))?$")


def read_names(names: Iterable[str]) -> Tokens:
    """Ids of tokens from their names in any dialect. Values become the nearest value that we have.

    A sequence in our own names or in those of Pop1K7 keeps its order. In the other dialects the three tokens of a note
    are put in our order, and repeated positions are written once. Tokens that mark the beginning (`BOS_None`) are left
    out.

    Raises:
        TokenError: No dialect has a name, or the last note is not complete.
    """
    sequence = [name for name in names if not name.startswith("BOS")]
    per_bar = _positions_per_bar(sequence)
    tokens: list[int] = []
    note: dict[str, int] = {}
    tempo_floor, beat = TEMPO_CLASSES["slow"], -1
    for name in sequence:
        match = _NAME.match(name)
        if match is None:
            raise TokenError(f"no token is called {name!r}")
        kind, value = match.group(1), match.group(2) or ""
        family = FAMILIES[kind]
        try:
            if kind == "Tempo Class":
                tempo_floor = TEMPO_CLASSES[value]
                continue
            if kind == "Tempo Value":
                value = str(tempo_floor + int(value))
            number = 0 if family in ("Bar", "EOS", "PAD") else _READERS.get(kind, _READERS[family])(value, per_bar)
        except (ValueError, KeyError, ZeroDivisionError, TypeError):
            raise TokenError(f"no token is called {name!r}") from None
        token = VOCABULARY.first(family) + number
        if family in ("Pitch", "Velocity", "Duration"):
            note[family] = token
            if len(note) == 3:
                tokens += [note["Pitch"], note["Velocity"], note["Duration"]]
                note = {}
            continue
        if family == "Beat" and number == beat:
            continue
        beat = number if family == "Beat" else -1 if family == "Bar" else beat
        tokens.append(token)
    if note:
        raise TokenError(f"the last note has only {' and '.join(sorted(note))}")
    return np.array(tokens, np.uint16)


def _positions_per_bar(names: list[str]) -> int:
    """Positions in a bar. MidiTok's durations tell how many there are in a beat, as in `Duration_1.0.8`."""
    parts = [int(name.rpartition(".")[2]) for name in names if re.match(r"Duration_\d+\.\d+\.\d+$", name)]
    return 4 * max(parts) if parts else POSITIONS


def _nearest(value: float, choices: range) -> int:
    """The number of the nearest choice."""
    return min(max(round((value - choices[0]) / choices.step), 0), len(choices) - 1)


def _position(value: str, per_bar: int) -> int:
    """`5/16` counts from one, `4` counts from zero."""
    if "/" in value:
        place, _, total = value.partition("/")
        return _within((int(place) - 1) * POSITIONS // int(total), POSITIONS)
    return _within(int(value) * POSITIONS // per_bar, POSITIONS)


def _within(number: int, size: int) -> int:
    if not 0 <= number < size:
        raise ValueError(number)
    return number


def _duration(value: str, _: int) -> int:
    """`1.0.8` is one beat and zero eighths of a beat (MidiTok); `4.5` is in sixteenths (ours)."""
    if value.count(".") == 2:
        beats, part, parts = map(int, value.split("."))
        return _halves(8 * (beats + part / parts))
    return _halves(2 * float(value))


def _halves(halves: float) -> int:
    return _nearest(halves, range(1, PAPER.durations[-1] + 1))


def _chord(value: str, _: int) -> int:
    """We and Pop1K7 write `A_M7`; the others write `A:maj7`."""
    if value in ("N:N", "N"):
        chord: Chord | None = NO_CHORD
    elif ":" in value:
        root, _colon, quality = value.partition(":")
        chord = Chord(pitch_class, QUALITIES[quality]) if (pitch_class := parse_root(root)) is not None else None
    else:
        chord = Chord.from_mark(value)
    return VOCABULARY[f"Chord_{chord}"] - VOCABULARY.first("Chord")


_READERS: dict[str, Callable[[str, int], Any]] = {
    "Beat": lambda value, _: _within(int(value), POSITIONS),
    "Position": _position,
    "Pitch": lambda value, _: _within(int(value) - PITCHES[0], len(PITCHES)),
    "Velocity": lambda value, _: _nearest(float(value), PAPER.velocities),
    "Note Velocity": lambda value, _: _nearest(4 * int(value), PAPER.velocities),  # bins of four
    "Duration": _duration,
    "Note_Duration": lambda value, _: _halves(int(value) / 60),  # ticks
    "Note Duration": lambda value, _: _halves(int(value) + 1),  # bins of 60 ticks, from 60 on
    "Tempo": lambda value, _: _nearest(float(value), PAPER.tempos),
    "Chord": _chord,
}
"""From the first part of a name, or else the family, to a function that reads the rest as a number in our family."""
