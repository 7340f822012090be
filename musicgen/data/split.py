"""Which songs are for training, which for validation, which for the last test.

The hard choice: a song's place is drawn by hashing the seed with the song's own hash. It depends neither on the
order of files nor on their names, and a corpus that grows keeps most songs where they were.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from musicgen.errors import UserError
from musicgen.files import kind_of

SPLITS = ("train", "valid", "test")
HELD_OUT = 0.05
"""The part of songs in each of `valid` and `test`."""
LISTS = {
    "train": ("train.txt", "train-names.txt"),
    "valid": ("valid.txt", "val.txt", "valid-names.txt"),
    "test": ("test.txt", "test-names.txt"),
}
"""Names that lists of songs go by."""


def draw_splits(hashes: Sequence[str], groups: Sequence[int], seed: int, held_out: int | None = None) -> list[str]:
    """The split of each song. Songs of a group stay together.

    Of three songs or more, one at least is in each split, if they are of so many groups.

    Args:
        hashes: Of the contents of each song.
        groups: For each song the number of its group.
        seed: Another seed draws another split.
        held_out: Songs in each of `valid` and `test`; None for the part `HELD_OUT` of all.
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
    for name, needed in (("valid", 2), ("test", 1)):  # groups that must be left for the splits after it
        taken = 0
        while taken < held_out and len(queue) > needed:
            # A group larger than the room that is left would make the split larger than asked: training takes it,
            # unless there would be nothing in the split at all.
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
    """The split of each listed song, from text files with a relative path a line.

    Args:
        folder: Holds `train.txt`, `valid.txt` and `test.txt`, or some of them (other usual names are known).
        paths: The songs that there are. A list may leave out the extension, as in `001/001`.

    Raises:
        UserError: There are no lists, a song is in two, or a song of a list is not there.
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
    """Names that a list may use, to paths: whole, or without the extension if only one song is meant."""
    stems: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        stems[path.rpartition(".")[0]].append(path)
    return {stem: owners[0] for stem, owners in stems.items() if len(owners) == 1} | {path: path for path in paths}


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8-sig").splitlines()  # Windows puts a mark at the beginning
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file}: not text in UTF-8") from None
