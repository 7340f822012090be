"""Which songs are for training, validation and the final test.

Design note: a song's place is drawn by hashing the seed together with the song's own hash. It does not depend on the
order or the names of files, and when a corpus grows, most songs keep their split.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from musicgen.errors import UserError
from musicgen.files import kind_of
from musicgen.inputs import read_regular

SPLITS = ("train", "valid", "test")
UNLISTED = "in none of the given lists"
"""The reason that is recorded for a song that no list names."""
HELD_OUT = 0.05
"""The share of songs in each of `valid` and `test`."""
LISTS = {
    "train": ("train.txt", "train-names.txt"),
    "valid": ("valid.txt", "val.txt", "valid-names.txt"),
    "test": ("test.txt", "test-names.txt"),
}
"""File names of lists of songs."""


@dataclass(frozen=True)
class Placement:
    """Where a file goes: its split, or the reason why it has none, and fields of its record that follow from it."""

    split: str | None
    dropped: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)


def draw_splits(hashes: Sequence[str], groups: Sequence[int], seed: int, held_out: int | None = None) -> list[str]:
    """The split of each song. Songs of a group stay together.

    If there are at least three groups, every split has at least one song.

    Args:
        hashes: A hash of each song's contents.
        groups: The number of each song's group.
        seed: Another seed draws another split.
        held_out: Songs in each of `valid` and `test`; None for the share `HELD_OUT` of all.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for song, group in enumerate(groups):
        members[group].append(song)

    def ticket(group: int) -> bytes:
        least = min(hashes[song] for song in members[group])
        return hashlib.blake2b(f"{seed}/{least}".encode()).digest()

    queue = sorted(members, key=ticket)
    wanted = max(1, round(HELD_OUT * len(hashes))) if held_out is None else held_out
    held_out = wanted if len(queue) >= len(SPLITS) else 0
    splits = ["train"] * len(hashes)
    for name, needed in (("valid", 2), ("test", 1)):  # the groups that later splits need
        taken = 0
        while taken < held_out and len(queue) > needed:
            # A group that is too large for the rest of the split goes to training, unless the split is still empty.
            chosen = next((group for group in queue if taken + len(members[group]) <= held_out), None)
            if chosen is None and taken:
                break
            chosen = min(queue, key=lambda group: len(members[group])) if chosen is None else chosen
            queue.remove(chosen)
            for song in members[chosen]:
                splits[song] = name
            taken += len(members[chosen])
    return splits


def read_lists(folder: Path, paths: Sequence[str]) -> dict[str, str]:
    """The split of each listed song, from text files with one relative path in each line.

    Args:
        folder: Holds `train.txt`, `valid.txt` and `test.txt`, or some of them (or files with other usual names).
        paths: The songs of the input folder. A list may leave out the extension, as in `001/001`.

    Raises:
        UserError: There are no lists, a song is in two lists, or a listed song does not exist.
    """
    if kind_of(folder) != "folder":
        raise UserError(f"splits={folder}: no such folder")
    known = _names(paths)
    splits: dict[str, str] = {}
    for split, names in LISTS.items():
        for file in (folder / name for name in names if (folder / name).is_file()):
            for number, line in enumerate(_lines(file), 1):
                name = line.strip()
                if not name:
                    continue
                path = known.get(name)
                if path is None:
                    raise UserError(f"{file}, line {number}: {name!r} is not a song of the input folder")
                if splits.setdefault(path, split) != split:
                    raise UserError(f"{file}, line {number}: {name!r} is also in the list for {splits[path]!r}")
    if not splits:
        wanted = ", ".join(names[0] for names in LISTS.values())
        raise UserError(f"splits={folder}: no lists of songs in it (they are called {wanted})")
    return splits


def _names(paths: Sequence[str]) -> dict[str, str]:
    """From names that a list may use to paths. The extension may be left out where only one song fits."""
    stems: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        stems[path.rpartition(".")[0]].append(path)
    return {stem: owners[0] for stem, owners in stems.items() if len(owners) == 1} | {path: path for path in paths}


def _lines(file: Path) -> list[str]:
    try:
        return read_regular(file).decode("utf-8-sig").splitlines()  # files from Windows may begin with a mark
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file}: not text in UTF-8") from None
