"""Songs of POP909: a performance, with annotated beats and chords in text files of the same folder."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from musicgen.inputs import read_regular
from musicgen.midi.chord import Chord
from musicgen.midi.grid import to_grid
from musicgen.midi.read import MidiError, parse_file
from musicgen.midi.score import BEAT, ChordMark, Score

BEATS, CHORDS = "beat_midi.txt", "chord_midi.txt"


def is_annotated(path: Path) -> bool:
    """Whether a file is a song of POP909 with its annotations."""
    return path.stem == path.parent.name and (path.parent / BEATS).is_file()


def load_pop909(path: Path) -> Score:
    """The performance, put on the annotated beats, with the annotated chords.

    Malformed files may kill the process: call it in a child process.

    Raises:
        MidiError: A file cannot be used; the message says why.
    """
    score = parse_file(str(path))
    beats = _read_table(path.parent / BEATS, 3)
    if not all(_is_number(row[2]) for row in beats):
        raise MidiError(f"{path.parent / BEATS}: a downbeat that is not a number")
    times = np.array([float(row[0]) for row in beats])
    annotated = np.empty(len(beats), BEAT)
    annotated["tick"] = score.ticks(times)
    annotated["is_downbeat"] = [float(row[2]) == 1 for row in beats]  # the second column has every other beat
    chords = _read_chords(path.parent / CHORDS)
    ticks = score.ticks(np.array([time for time, _ in chords])).tolist() if chords else []
    marks = tuple(ChordMark(tick, chord) for tick, (_, chord) in zip(ticks, chords, strict=True))
    try:
        return to_grid(score.replace(beats=annotated, chords=marks))
    except ValueError as error:
        raise MidiError(f"{path.parent / BEATS}: {error}") from None


def _read_chords(path: Path) -> list[tuple[float, Chord]]:
    """Chord changes and their times, from lines of start, end and chord; none if there is no such file."""
    if not path.is_file():
        return []
    changes: list[tuple[float, Chord]] = []
    for start, _, symbol in _read_table(path, 3):
        chord = Chord.from_harte(symbol)
        if chord is None:
            raise MidiError(f"{path}: no chord is written {symbol!r}")
        if not changes or changes[-1][1] != chord:
            changes.append((float(start), chord))
    return changes


def _read_table(path: Path, columns: int) -> list[list[str]]:
    """Rows of a text file; all but the last column must be finite numbers."""
    try:
        rows = [line.split() for line in read_regular(path).decode("utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise MidiError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise MidiError(f"{path}: not text in UTF-8") from None
    for number, row in enumerate(rows, 1):
        if len(row) != columns or not all(map(_is_number, row[:-1])):
            raise MidiError(f"{path}, line {number}: not {columns - 1} numbers and what they are of")
    return rows


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
