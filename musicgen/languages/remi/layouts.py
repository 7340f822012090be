"""How folders of pop piano are laid out: which files are songs, and which files belong to them.

A layout is a way to find songs and a way to load one. All that follows (chords, metre, tokens, splits) treats a song
of POP909 like one from any folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from musicgen.languages.layouts import FOLDER, Found, midi_files
from musicgen.midi.pop909 import BEATS, load_pop909
from musicgen.midi.read import parse_file
from musicgen.midi.score import Score


class Layout(NamedTuple):
    """A kind of folder.

    Attributes:
        find: The songs in a folder, as relative paths in order; none if the folder is not of this kind.
        load: A song on its metrical grid, with its chords if there are any.
    """

    find: Callable[[Path], list[str]]
    load: Callable[[Path], Score]


def find(folder: Path, layout: str) -> Found | None:
    """The songs of a folder: by a layout, or with `auto` by the first layout that finds some."""
    for name in LAYOUTS if layout == "auto" else [layout]:
        songs = LAYOUTS[name].find(folder) if name in LAYOUTS else []
        if songs:
            return Found(name, songs)
    return None


def _pop1k7_files(folder: Path) -> list[str]:
    songs = midi_files(folder)
    return songs if all(re.search(r"(^|/)src_\d+/", path) for path in songs) else []


def _pop909_files(folder: Path) -> list[str]:
    """Every NNN/NNN.mid, if any has a file of beats. A song without beats is reported, not overlooked."""
    if next(folder.rglob(BEATS), None) is None:
        return []
    return [path for path in midi_files(folder) if Path(path).stem == Path(path).parent.name]


LAYOUTS = {
    "pop909": Layout(_pop909_files, load_pop909),
    "pop1k7": Layout(_pop1k7_files, parse_file),
    FOLDER: Layout(midi_files, parse_file),
}
"""Layouts, the most specific first."""
