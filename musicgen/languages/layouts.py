"""How folders of music are laid out: which files are songs, and what is known about them before they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from musicgen.midi.folder import midi_files as files_below

FOLDER = "folder"
"""The layout of any folder: every MIDI file is a song."""


@dataclass(frozen=True)
class Found:
    """The songs of a folder.

    Attributes:
        layout: Name of the layout.
        paths: Relative paths, in order.
        facts: What is known about each file before it is read, by path.
        lists: The split of each file, if the user chose it.
        about: What the corpus records about the folder.
    """

    layout: str
    paths: list[str]
    facts: Mapping[str, Any] = field(default_factory=dict)
    lists: Mapping[str, str] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


def midi_files(folder: Path) -> list[str]:
    """Every MIDI file below a folder, as relative paths in order."""
    return sorted(path.relative_to(folder).as_posix() for path in files_below(folder))


def find_midi(folder: Path) -> Found | None:
    """Every MIDI file of a folder; None if there is none."""
    paths = midi_files(folder)
    return Found(FOLDER, paths) if paths else None
