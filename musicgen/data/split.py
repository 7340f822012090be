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

SPLITS = ("train", "valid", "test")
HELD_OUT = 0.05
"""The part of songs in each of `valid` and `test`."""
LISTS = {
    "train": ("train.txt", "train-names.txt"),
    "valid": ("valid.txt", "val.txt", "valid-names.txt"),
    "test": ("test.txt", "test-names.txt"),
}
"""Names that lists of songs go by."""


def draw_splits(hashes: Sequence[str], groups: Sequence[int], seed: int) -> list[str]:
    """The split of each song. Songs of a group stay together.

    Of three songs or more, one at least is in each split, if they are of so many groups.

    Args:
        hashes: Of the contents of each song.
        groups: For each song the number of its group.
        seed: Another seed draws another split.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for song, group in enumerate(groups):
        members[group].append(song)

    def ticket(group: int) -> bytes:
        least = min(hashes[song] for song in members[group])
        return hashlib.blake2b(f"{seed}/{least}".encode()).digest()

    queue = sorted(members, key=ticket)
    held_out = max(1, round(HELD_OUT * len(hashes))) if len(queue) >= len(SPLITS) else 0
    splits = ["train"] * len(hashes)
    for name in ("valid", "test"):
        taken = 0
        while taken < held_out and len(queue) > 1:
            # A group larger than the room that is left would make the split larger than asked: training takes it.
            fits = next(
                (g for g in queue if taken + len(members[g]) <= held_out), min(queue, key=lambda g: len(members[g]))
            )
            queue.remove(fits)
            for song in members[fits]:
                splits[song] = name
            taken += len(members[fits])
    return splits


def read_lists(folder: Path, paths: Sequence[str]) -> dict[str, str]:
    """The split of each listed song, from text files with a relative path a line.

    Args:
        folder: Holds `train.txt`, `valid.txt` and `test.txt`, or some of them (other usual names are known).
        paths: The songs that there are. A list may leave out the extension, as in `001/001`.

    Raises:
        UserError: There are no lists, a song is in two, or a song of a list is not there.
    """
    known = {name: path for path in paths for name in (path, path.rpartition(".")[0])}
    splits: dict[str, str] = {}
    for split, names in LISTS.items():
        for file in (folder / name for name in names if (folder / name).is_file()):
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
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
