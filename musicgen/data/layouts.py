"""How folders of pop piano are laid out: which files are songs, and what lies beside them.

The hard choice: a layout is a way to find songs and a way to load one, and nothing else. All that follows (chords,
metre, tokens, splits) treats a song from POP909 as it treats one from a folder on somebody's desktop.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from musicgen.errors import UserError
from musicgen.files import kind_of
from musicgen.midi.chord import Chord
from musicgen.midi.grid import to_grid
from musicgen.midi.harmony import find_chords
from musicgen.midi.read import MidiError, parse_file
from musicgen.midi.score import BEAT, ChordMark, Score


class Layout(NamedTuple):
    """A kind of folder.

    Attributes:
        about: What it is, for help.
        find: The songs in a folder, as relative paths in order; none if it is not of this kind.
        load: A song, on its metrical grid, with its chords if they are written somewhere.
    """

    about: str
    find: Callable[[Path], list[str]]
    load: Callable[[Path], Score]


def find_songs(folder: Path, layout: str) -> tuple[str, list[str]]:
    """The layout of a folder and its songs.

    Args:
        folder: Where to look.
        layout: A name of `LAYOUTS`, or `auto` for the first that finds something.

    Raises:
        UserError: There are none.
    """
    if kind_of(folder) != "folder":
        raise UserError(f"input={folder}: there is no folder of this name")
    if layout != "auto" and layout not in LAYOUTS:
        raise UserError(f"layout={layout}: choose from auto, {', '.join(LAYOUTS)}")
    for name in LAYOUTS if layout == "auto" else [layout]:
        songs = LAYOUTS[name].find(folder)
        if songs:
            return name, songs
    wanted = "MIDI files (*.mid, *.midi)" if layout == "auto" else f"songs in the layout {layout}"
    raise UserError(f"input={folder}: no {wanted} in it")


def load_song(folder: Path, path: str, layout: str) -> Score:
    """A song of a folder, with chords. Malformed files may end the process: call it in one that may die.

    Raises:
        UserError: It cannot be used, and why.
    """
    score = LAYOUTS[layout].load(folder / path)
    return score if score.chords or not len(score.notes) else score.replace(chords=find_chords(score))


def load_file(path: str) -> Score:
    """A file on its own, as `load_song` loads it; one of POP909 with what lies beside it."""
    file = Path(path)
    is_annotated = file.stem == file.parent.name and (file.parent / "beat_midi.txt").is_file()
    return load_song(file.parent, file.name, "pop909" if is_annotated else "folder")


def midi_files(folder: Path) -> list[str]:
    """Every MIDI file below a folder, as relative paths in order."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in (".mid", ".midi") and path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _pop1k7_files(folder: Path) -> list[str]:
    songs = midi_files(folder)
    return songs if all(re.search(r"(^|/)src_\d+/", path) for path in songs) else []


def _pop909_files(folder: Path) -> list[str]:
    """Every NNN/NNN.mid, if any has beats beside it: one that has none is reported and not overlooked."""
    if next(folder.rglob("beat_midi.txt"), None) is None:
        return []
    return [path for path in midi_files(folder) if Path(path).stem == Path(path).parent.name]


def _load_plain(path: Path) -> Score:
    return parse_file(str(path))


def _load_pop909(path: Path) -> Score:
    """A song of POP909: what was performed, on the beats and with the chords that are annotated beside it."""
    score = parse_file(str(path))
    beats = _read_table(path.parent / "beat_midi.txt", 3)
    if not all(_is_number(row[2]) for row in beats):
        raise MidiError(f"{path.parent / 'beat_midi.txt'}: a downbeat that is not a number")
    times = np.array([float(row[0]) for row in beats])
    annotated = np.empty(len(beats), BEAT)
    annotated["tick"] = score.ticks(times)
    annotated["is_downbeat"] = [float(row[2]) == 1 for row in beats]  # the second column has every other beat
    chords = _read_chords(path.parent / "chord_midi.txt")
    ticks = score.ticks(np.array([time for time, _ in chords])).tolist() if chords else []
    marks = tuple(ChordMark(tick, chord) for tick, (_, chord) in zip(ticks, chords, strict=True))
    try:
        return to_grid(score.replace(beats=annotated, chords=marks))
    except ValueError as error:
        raise MidiError(f"{path.parent / 'beat_midi.txt'}: {error}") from None


def _read_chords(path: Path) -> list[tuple[float, Chord]]:
    """Changes of chord and when they come, from lines of start, end and chord; none if there is no such file."""
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
        rows = [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
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


LAYOUTS = {
    "pop909": Layout("POP909: NNN/NNN.mid with beat_midi.txt and chord_midi.txt", _pop909_files, _load_pop909),
    "pop1k7": Layout("Pop1K7: src_NNN/*.mid with chords as markers", _pop1k7_files, _load_plain),
    "folder": Layout("any folder of metrical MIDI files", midi_files, _load_plain),
}
"""Layouts, the most particular first."""
