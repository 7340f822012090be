"""The MIDI files of a folder."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = (".mid", ".midi", ".kar")


def has_midi_suffix(path: Path) -> bool:
    """Whether a name ends as those of MIDI files do, in small or capital letters."""
    return path.suffix.lower() in SUFFIXES


def midi_files(folder: Path) -> list[Path]:
    """Everything in a folder and its subfolders that is called like a MIDI file, in order; reading says what it is."""
    return sorted(path for path in folder.rglob("*") if has_midi_suffix(path))
