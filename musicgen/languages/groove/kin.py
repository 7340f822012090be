"""Splits of grooves: accompaniments of one family, of one style, and copies of one file stay together.

Related grooves (kin) form chains: if a has the style of b, and b is a copy of c, all three belong in one split, even if
an index gives them different families. The check looks at single links: if a chain is in two splits, so is one of its
links.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from musicgen.errors import UserError
from musicgen.languages.duplicates import join_pairs
from musicgen.languages.groove.song import SEEN_STYLES, GrooveSong
from musicgen.languages.song import Read
from musicgen.languages.split import UNLISTED, Placement, draw_splits

Link = tuple[str, str]
HELD_OUT, MOST_HELD_OUT = 0.1, 50
"""The share of styles, and the most styles, in `valid`, in `test`, and in each split of seen styles."""
OLD_NAMES = {"seen_style_valid": "ival", "seen_style_test": "itest"}
"""Fingerprints use the old names of these splits, so that renaming did not change the fingerprint of a corpus."""


def links(song: GrooveSong) -> tuple[Link, ...]:
    """What links a groove to its kin: kinds of links, and a name for each."""
    copies = () if song.sha256 is None else (("the same file, byte for byte", song.sha256),)
    return (("family", song.family), ("style", song.style), *copies)


def join_kin(songs: Sequence[GrooveSong]) -> list[int]:
    """For each groove, the number of the first of its kin."""
    owners: dict[Link, int] = {}
    pairs = [(owners.setdefault(link, number), number) for number, song in enumerate(songs) for link in links(song)]
    return join_pairs(len(songs), pairs)


def check_kin(songs: Iterable[GrooveSong]) -> None:
    """Check that kin share one of training, validation and test, and that copies share a split.

    Raises:
        UserError: Two grooves do not; the message names them.
    """
    homes: dict[Link, tuple[str, GrooveSong]] = {}
    for song in songs:
        if song.split is None:
            continue
        for kind, name in links(song):
            is_copy = kind not in ("family", "style")
            split = "train" if song.split in SEEN_STYLES and not is_copy else song.split
            home, owner = homes.setdefault((kind, name), (split, song))
            if home != split:
                kinship = f"{kind} as" if is_copy else f"of the {kind} {name}, like"
                raise UserError(
                    f"{song.path} ({song.split}): {kinship} {owner.path} ({owner.split}); they belong in one split"
                )


def assign_grooves(files: Sequence[Read], seed: int, lists: Mapping[str, str] | None) -> list[Placement]:
    """The split of each accompaniment.

    `train`, `valid` and `test` have no family in common. Some files of styles that are trained on go to
    `seen_style_valid` and `seen_style_test`. They show how well a model plays a known style in songs that it has not
    seen. (The published code trains on such files too.)

    Args:
        files: The accompaniments.
        seed: Draws the splits.
        lists: The split of each by path, if the user chose it. Files in no list are left out.

    Raises:
        UserError: The lists have kin in two splits.
    """
    songs = [cast(GrooveSong, file.song) for file in files]
    splits = _draw(songs, seed) if lists is None else {song.path: lists.get(song.path) for song in songs}
    check_kin([replace(song, split=splits[song.path]) for song in songs])
    splits |= _hold_out_seen_styles([song for song in songs if splits[song.path] == "train"], seed)
    chosen = [splits[song.path] for song in songs]
    return [Placement(split, None if split else UNLISTED) for split in chosen]


def _draw(songs: Sequence[GrooveSong], seed: int) -> dict[str, str | None]:
    """The split of each file. Kin are drawn together, and the size of a split is its number of styles."""
    styles = sorted({(song.family, song.style) for song in songs})
    kin = {(song.family, song.style): group for song, group in zip(songs, join_kin(songs), strict=True)}
    hashes: dict[tuple[str, str], str] = {}
    for song in songs:
        style = (song.family, song.style)
        hashes[style] = min(hashes.get(style, "g"), str(song.sha256))  # "g" comes after every hash
    groups = [kin[style] for style in styles]
    held_out = max(1, min(int(HELD_OUT * len(styles)), MOST_HELD_OUT))
    drawn = draw_splits([hashes[style] for style in styles], groups, seed, held_out)
    by_style = dict(zip(styles, drawn, strict=True))
    return {song.path: by_style[song.family, song.style] for song in songs}


def _hold_out_seen_styles(songs: Sequence[GrooveSong], seed: int) -> dict[str, str | None]:
    """Files for the splits of seen styles: the last file of some styles that have several files.

    A file with copies is never chosen, because its copies are trained on.
    """
    files: dict[tuple[str, str], list[str]] = defaultdict(list)
    copies = Counter(song.sha256 for song in songs)
    unique = {song.path for song in songs if copies[song.sha256] == 1}
    for song in songs:
        files[song.family, song.style].append(song.path)
    queue = sorted(
        (style for style in files if len(files[style]) > 1 and max(files[style]) in unique),
        key=lambda style: hashlib.blake2b("/".join([str(seed), *style]).encode("utf-8", "surrogateescape")).digest(),
    )
    count = min(int(HELD_OUT * len(files)), MOST_HELD_OUT, len(queue) // len(SEEN_STYLES))
    return {
        max(files[style]): split
        for place, split in enumerate(SEEN_STYLES)
        for style in queue[place * count : (place + 1) * count]
    }
