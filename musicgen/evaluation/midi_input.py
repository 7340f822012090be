"""MIDI files that an evaluation reads: each in a child process that may crash, and a line for each that is unusable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from musicgen.errors import UserError
from musicgen.evaluation import Progress
from musicgen.files import kind_of
from musicgen.midi.folder import midi_files
from musicgen.midi.markers import continuation_start
from musicgen.midi.read import MidiError, parse_file
from musicgen.midi.score import Score
from musicgen.subprocess_call import SubprocessError, subprocess_map

T = TypeVar("T")


def shown(path: Path | str) -> str:
    """A path on one line, whatever its name holds."""
    return str(path) if str(path).isprintable() else repr(str(path))


def files_at(place: Path, key: str) -> list[Path]:
    """The MIDI files in a folder and its subfolders, in order; or the one file. Messages name the option `key`."""
    kind = kind_of(place)
    if kind == "file":
        return [place]
    if kind != "folder":
        raise UserError(f"{key}={place}: there is no such file or folder")
    found = midi_files(place)
    if not found:
        raise UserError(f"{key}={place}: no MIDI files (*.mid, *.midi, *.kar) in it")
    return found


def read_each(
    function: Callable[..., T], jobs: Mapping[Path, tuple[Any, ...]], workers: int, progress: Progress
) -> tuple[dict[Path, T], list[str]]:
    """What a function makes of each file, and a line for each file that it cannot use.

    The function is at the top of a module. It takes a path and the further arguments of its job, in a child process.
    """
    calls = [(str(path), *arguments) for path, arguments in jobs.items()]
    found: dict[Path, T] = {}
    left_out: list[str] = []
    for path, answer in zip(jobs, progress(subprocess_map(function, calls, workers), len(calls), "file"), strict=True):
        if isinstance(answer, SubprocessError):
            left_out.append(f"{shown(path)}: not a MIDI file that can be read (reading it {answer})")
        elif isinstance(answer, UserError):
            left_out.append(str(answer))
        else:
            found[path] = answer
    return found, left_out


def parse_music(path: str) -> tuple[Score, int]:
    """A file that has notes after its prompt, and the tick where its prompt ends.

    A malformed file may end the process, so call it in a child process.
    """
    score = parse_file(path)
    first = continuation_start(score)
    if not (score.notes["start"] >= first).any():
        raise MidiError(f"{shown(path)}: no notes{' after its prompt' if first else ''}")
    return score, first
