"""How folders of accompaniments are laid out: which files there are, of which style, and which styles are kin.

The hard choice: a style is read off a file's name and place, and so is its family; nothing is listened to. Where
somebody has looked closer, an `index.tsv` beside the files says so, and is believed.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

from musicgen.data.layouts import midi_files
from musicgen.data.split import SPLITS
from musicgen.errors import UserError
from musicgen.files import kind_of
from musicgen.midi.parts import Part
from musicgen.midi.score import Score

GROOVE2GROOVE, STYLES, FOLDER = LAYOUTS = ("groove2groove", "styles", "folder")
COUNT_IN = {GROOVE2GROOVE: 2}
"""Bars that are known to count in; elsewhere they are looked for."""
INDEX = "index.tsv"
_SONG_OF_STYLE = re.compile(r".+\.[^./]+_[ab]\.midi?", re.IGNORECASE)
_STYLE_TWICE = re.compile(r".+/[^/]+\.[ab]\.midi?", re.IGNORECASE)
_PARTS: dict[str, Part] = {"BB Bass": "bass", "BB Drums": "drums"}


class Kin(NamedTuple):
    """What is known of a file before it is read.

    Attributes:
        family: The styles that must stay together.
        style: Of the accompaniment.
        split: Where somebody put it; None if nobody did.
        is_listed: Whether the index, if there is one, has a line for it.
    """

    family: str
    style: str
    split: str | None = None
    is_listed: bool = True


def find_grooves(folder: Path, layout: str) -> tuple[str, list[str]] | None:
    """The layout of a folder and its accompaniments, as relative paths in order; None if it is not of the layout.

    A folder has styles if an `index.tsv` in it names some of its files, or if more than half of them are called
    `FAMILY/STYLE.a.mid` or `.b.mid`; any other file is then a style of its own, in the family of its folder.

    Args:
        folder: Where to look.
        layout: A name of `LAYOUTS`; or `auto`, for one that cannot be mistaken for anything else.

    Raises:
        UserError: There is no such folder.
    """
    if kind_of(folder) != "folder":
        raise UserError(f"input={folder}: there is no folder of this name")
    paths = midi_files(folder)
    fixed = [path for path in paths if (folder / path).resolve().parts[-3:-1] == ("train", "fixed")]
    if layout in ("auto", GROOVE2GROOVE) and any(map(_SONG_OF_STYLE.fullmatch, fixed)):
        return GROOVE2GROOVE, fixed
    twice = sum(_STYLE_TWICE.fullmatch(path) is not None for path in paths)
    if layout in ("auto", STYLES) and paths and (2 * twice > len(paths) or _has_index(folder, paths)):
        return STYLES, paths
    return (FOLDER, paths) if layout == FOLDER and paths else None


def _has_index(folder: Path, paths: list[str]) -> bool:
    try:
        return (folder / INDEX).is_file() and not read_index(folder / INDEX).keys().isdisjoint(paths)
    except UserError:  # it may be about something else altogether
        return False


def find_kin(folder: Path, paths: list[str], layout: str) -> dict[str, Kin]:
    """The style and the family of each file.

    Groove2Groove has `song.STYLE_a.mid`: its style is STYLE_a, its family STYLE. In other folders a family is a folder,
    and the files `style.a.mid` and `style.b.mid` are of one style; `index.tsv` may name other families (`cluster`)
    and the split of each file.

    Raises:
        UserError: The index is not one, or not one of these files.
    """
    if layout == GROOVE2GROOVE or not (folder / INDEX).is_file():
        return {path: _kin(path, layout, {}) for path in paths}
    known = read_index(folder / INDEX)
    if not known:
        raise UserError(f"{folder / INDEX}: has no lines; write one for each file, or remove it")
    if known.keys().isdisjoint(paths):
        raise UserError(
            f"{folder / INDEX}: names none of the MIDI files beside it (line 2: {next(iter(known))!r}); "
            f"write paths relative to {folder}"
        )
    return {path: _kin(path, layout, known.get(path)) for path in paths}


def _kin(path: str, layout: str, known: dict[str, str] | None) -> Kin:
    if layout == GROOVE2GROOVE:
        style = Path(path).stem.rpartition(".")[2]
        return Kin(re.sub(r"_[ab]$", "", style), style)
    parent, _, name = path.rpartition("/")
    stem = re.sub(r"\.[ab]$", "", name.rpartition(".")[0])
    style = f"{parent}/{stem}" if parent else stem
    if known is None:
        return Kin(parent or style, style, is_listed=False)
    return Kin(known.get("cluster") or parent or style, style, known.get("split") or None)


def read_index(path: Path) -> dict[str, dict[str, str]]:
    """The rows of an `index.tsv`, by the path in each.

    Raises:
        UserError: It cannot be read, or has no column `path`, or another split than there are.
    """
    try:
        rows = list(csv.DictReader(path.read_text("utf-8-sig").splitlines(), delimiter="\t"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise UserError(f"{path}: not a table of text in UTF-8, separated by tabs") from None
    if rows and "path" not in rows[0]:
        raise UserError(f"{path}: has no column called path")
    for number, row in enumerate(rows, 2):
        if (row.get("split") or "train") not in SPLITS:
            raise UserError(f"{path}, line {number}: split {row['split']!r} is none of {', '.join(SPLITS)}")
    return {row["path"]: {name: value or "" for name, value in row.items() if name} for row in rows}


def known_parts(score: Score, layout: str) -> list[Part] | None:
    """What the names of tracks say that they are, where a layout gives names."""
    return [_PARTS.get(track.name, "other") for track in score.tracks] if layout == GROOVE2GROOVE else None
