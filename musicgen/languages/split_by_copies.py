"""Splits that keep copies of one song together, and the check that they do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from musicgen.languages.duplicates import Sketch, group_songs
from musicgen.languages.song import Read
from musicgen.languages.split import SPLITS, UNLISTED, Placement, draw_splits

NO_SKETCH = np.empty(0, np.uint64)


def assign_by_copies(files: Sequence[Read], seed: int, lists: Mapping[str, str] | None) -> list[Placement]:
    """The split of each song.

    Drawn splits keep copies together. Where given lists do not, the copy in the later split stays (a held-out song
    is worth more than one more training song) and the others are left out.

    Args:
        files: The songs.
        seed: Draws the splits.
        lists: The split of each song by path, if the user chose it.
    """
    paths = [file.song.path for file in files]
    groups = group_songs([NO_SKETCH if file.sketch is None else file.sketch for file in files])
    if lists is None:
        splits: list[str | None] = list(draw_splits([str(file.song.sha256) for file in files], groups, seed))
    else:
        splits = [lists.get(path) for path in paths]
    latest: dict[int, tuple[int, str]] = {}
    for path, group, split in zip(paths, groups, splits, strict=True):
        if split is not None and SPLITS.index(split) > latest.get(group, (-1, ""))[0]:
            latest[group] = SPLITS.index(split), path
    placements = []
    for group, split in zip(groups, splits, strict=True):
        reason = None
        if split is None:
            reason = UNLISTED
        elif split != (winner := SPLITS[latest[group][0]]):
            reason = f"the same song as {latest[group][1]}, which is in {winner!r}"
        placements.append(Placement(None if reason else split, reason, {"group": paths[group]}))
    return placements


def check_copies(songs: Sequence[Any], sketches: Mapping[str, Sketch]) -> Iterator[str]:
    """Sentences about copies of one song that are in different splits."""
    known = [song for song in songs if song.path in sketches]
    groups = group_songs([sketches[song.path] for song in known])
    for song, group in zip(known, groups, strict=True):
        if song.split != known[group].split:
            yield f"{song.path} ({song.split}): the same song as {known[group].path} ({known[group].split})"
