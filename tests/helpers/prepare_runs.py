"""Folders for `musicgen prepare` to prepare, and what tests of it share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from musicgen.languages.remi.synthetic import compose
from musicgen.midi.write import midi_bytes

ROOT = Path(__file__).parents[2]
CORPUS_FILES = ["corpus.json", "corpus.png", "index.jsonl", "tokenizer.json", "tokens.npy"]
SYNTHETIC = ("source=synthetic", "songs=3", "bars=2")
Run = Callable[..., tuple[int, str, str]]


def folder_of(folder: Path, songs: int, bars: int = 4) -> Path:
    for number in range(songs):
        path = folder / f"src_{number % 4 + 1:03d}" / f"{number}.mid"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(midi_bytes(compose(number, bars)))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(run: Run, *arguments: object, naming: str) -> str:
    """Exit status 2, one sentence that names something, and nothing printed."""
    status, printed, complaint = run(*arguments)
    assert (status, printed) == (2, "")
    assert complaint.startswith("musicgen: ")
    assert complaint.count("\n") == 1, complaint
    assert naming in complaint
    return complaint
