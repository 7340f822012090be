"""Which accompaniments must stay together: those of a family, those of a style, and copies of one file.

The hard choice: kinship is a chain. If a is of b's style, and b is a copy of c, all three are in one split, whatever
families somebody gave them. Whether splits keep to it is seen link by link: a chain that is in two splits has a link
that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from musicgen.data.groove_corpus import IN_DOMAIN, GrooveSong
from musicgen.errors import UserError

Link = tuple[str, str]


def links(song: GrooveSong) -> tuple[Link, ...]:
    """What a groove has in common with its kin, in words and by name."""
    copies = () if song.sha256 is None else (("the same file, byte for byte", song.sha256),)
    return (("family", song.family), ("style", song.style), *copies)


def join_kin(songs: Sequence[GrooveSong]) -> list[int]:
    """For each groove the number of the first of its kin."""
    above = list(range(len(songs)))

    def first(number: int) -> int:
        while above[number] != number:
            above[number] = number = above[above[number]]
        return number

    owners: dict[Link, int] = {}
    for number, song in enumerate(songs):
        for link in links(song):
            one, other = sorted((first(owners.setdefault(link, number)), first(number)))
            above[other] = one
    return [first(number) for number in range(len(songs))]


def check_kin(songs: Iterable[GrooveSong]) -> None:
    """See that no kin are in two of training, validation and test, and that no copies are in any two splits.

    Raises:
        UserError: Some are; the sentence names two of them.
    """
    homes: dict[Link, tuple[str, GrooveSong]] = {}
    for song in songs:
        if song.split is None:
            continue
        for kind, name in links(song):
            is_copy = kind not in ("family", "style")
            split = "train" if song.split in IN_DOMAIN and not is_copy else song.split
            home, owner = homes.setdefault((kind, name), (split, song))
            if home != split:
                kinship = f"{kind} as" if is_copy else f"of the {kind} {name}, like"
                raise UserError(
                    f"{song.path} ({song.split}): {kinship} {owner.path} ({owner.split}); they belong into one split"
                )
