"""Finds the accompaniments in a folder, their styles, and which styles are related.

The name and the folder of a file give its style and its family. An `index.tsv` in the folder overrides them.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

from musicgen.errors import UserError
from musicgen.inputs import read_regular
from musicgen.languages.layouts import FOLDER, Found, midi_files
from musicgen.languages.split import SPLITS
from musicgen.midi.parts import Part
from musicgen.midi.score import Score

LAYOUTS = GROOVE2GROOVE, STYLES, _ = ("groove2groove", "styles", FOLDER)
SYNTHETIC = "synthetic"
COUNT_IN = {GROOVE2GROOVE: 2, SYNTHETIC: 0}
"""Bars of count-in in layouts where they are known. In other layouts they are detected."""
INDEX = "index.tsv"
_SONG_OF_STYLE = re.compile(r".+\.[^./]+_[ab]\.(midi?|kar)", re.IGNORECASE)
_STYLE_TWICE = re.compile(r".+/[^/]+\.[ab]\.(midi?|kar)", re.IGNORECASE)
_PARTS: dict[str, Part] = {"BB Bass": "bass", "BB Drums": "drums"}


class Kin(NamedTuple):
    """What is known about a file before it is read.

    Attributes:
        family: The family of its style. Splits keep a family together.
        style: The style of the accompaniment.
        split: The split that the index gives; None if it gives none.
        is_listed: False if there is an index without a line for this file.
    """

    family: str
    style: str
    split: str | None = None
    is_listed: bool = True


def find_grooves(folder: Path, layout: str) -> tuple[str, list[str]] | None:
    """The layout of a folder and its accompaniments, as relative paths in order; None if it is not of the layout.

    A folder has styles if an `index.tsv` in it names some of its files, or if more than half of them are called
    `FAMILY/STYLE.a.mid` or `.b.mid`. Every other file is then its own style, in the family of its folder.

    Args:
        folder: Where to look.
        layout: One of `LAYOUTS`, or `auto` for a layout that cannot be mistaken for anything else.
    """
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
    except UserError:  # it may be the index of something else
        return False


def find_kin(folder: Path, paths: list[str], layout: str) -> dict[str, Kin]:
    """The style and the family of each file.

    In Groove2Groove the file `song.STYLE_a.mid` has the style STYLE_a and the family STYLE. In other layouts a folder
    is a family, and `style.a.mid` and `style.b.mid` have one style. An `index.tsv` may name other families (`cluster`)
    and the split of each file.

    Raises:
        UserError: The index cannot be read, or names none of these files.
    """
    if layout == GROOVE2GROOVE or not (folder / INDEX).is_file():
        return {path: _kin(path, layout, {}) for path in paths}
    known = read_index(folder / INDEX)
    if not known:
        raise UserError(f"{folder / INDEX}: has no lines; write one for each file, or remove it")
    if known.keys().isdisjoint(paths):
        raise UserError(
            f"{folder / INDEX}: names none of the MIDI files in its folder (line 2: {next(iter(known))!r}); "
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
    """The rows of an `index.tsv`, by path.

    Raises:
        UserError: It cannot be read, has no column `path`, or names an unknown split.
    """
    try:
        rows = list(csv.DictReader(read_regular(path).decode("utf-8-sig").splitlines(), delimiter="\t"))
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
    """The part of each track by its name; None in layouts where names mean nothing."""
    return [_PARTS.get(track.name, "other") for track in score.tracks] if layout == GROOVE2GROOVE else None


def find(folder: Path, layout: str, is_asked: bool) -> Found | None:
    """The accompaniments of a folder with what is known about each; None if it has none.

    Args:
        folder: The folder.
        layout: One of `LAYOUTS`, or `auto`.
        is_asked: Whether the user asked for grooves. Then any folder of MIDI files is accepted.

    Raises:
        UserError: Its index is wrong.
    """
    if layout == FOLDER and not is_asked:
        return None
    found = find_grooves(folder, layout)
    if found is None and is_asked and layout == "auto":
        found = find_grooves(folder, FOLDER)
    if found is None:
        return None
    layout, paths = found
    kin = find_kin(folder, paths, layout)
    lists = {path: known.split for path, known in kin.items() if known.split is not None} or None
    unlisted = [path for path, known in kin.items() if not known.is_listed]
    return Found(layout, paths, kin, lists, {"unlisted": unlisted} if unlisted else {})
