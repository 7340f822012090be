"""Compares folders of continuations with their references, and names every file that could not be compared.

Design note: a child process reads a file and counts its notes, and only the counts come back. A malformed file costs
one line, and a folder of any size needs memory only for its counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from musicgen.errors import UserError
from musicgen.evaluation import Progress
from musicgen.evaluation.midi_input import files_at, parse_music, read_each, shown
from musicgen.evaluation.style.similarity import (
    Roles,
    Similarity,
    Style,
    halves,
    pool,
    quarters,
    roles,
    similarity,
    style,
)
from musicgen.languages.grid import TokenError, check_metre
from musicgen.midi.folder import has_midi_suffix
from musicgen.midi.read import MidiError, parse_file
from musicgen.midi.score import Score


@dataclass(frozen=True)
class Comparison:
    """What was found for one reference.

    Attributes:
        reference: Its path.
        generated: The paths of its continuations that could be read.
        quarters: Similarity of each quarter of the continuations, pooled, to the reference; None without continuations.
        ceiling: Similarity of its own two halves.
        floor: Similarity to a piece in another style; None if there is no other piece.
        other: The path of that piece.
    """

    reference: Path
    generated: tuple[Path, ...]
    quarters: tuple[Similarity, ...] | None
    ceiling: Similarity
    floor: Similarity | None
    other: Path | None


class Result(NamedTuple):
    """All comparisons, a line for each file that is in none of them, and a line for each file that is not in 4/4."""

    comparisons: list[Comparison]
    left_out: list[str]
    other_metre: list[str]


class Counted(NamedTuple):
    """What a child process counted in a file.

    Attributes:
        styles: For a reference, the whole and its two halves; for a continuation, its quarters.
        roles: For a reference, what its tracks are.
        metre: Why its bars are not the 4/4 bars that were counted; empty if they are.
    """

    styles: list[Style]
    roles: Roles
    metre: str


class Matches(NamedTuple):
    """References with the continuations of each, and a line for each file without a partner."""

    groups: dict[Path, list[Path]]
    left_out: list[str]


def match(reference: Path, generated: Path) -> Matches:
    """Find the continuations of each reference by their names.

    A continuation of the reference `folder/X.mid` has a path, in its own folder, that begins with `folder/X`. Then the
    name ends, or a character follows that is neither a letter nor a digit: `X.mid`, `X.cont_0.mid`, `X_piece_0.mid`,
    `X/piece_0.mid`. If several references fit, the one with the longest name counts. If the reference is a single file,
    all generated files are its continuations.
    """
    references, continuations = files_at(reference, "reference"), files_at(generated, "generated")
    if references == [reference]:
        return Matches({reference: continuations}, [])
    names = {_name(path, reference): path for path in references}
    groups: dict[Path, list[Path]] = {path: [] for path in references}
    left_out = []
    for path in continuations:
        owner = _owner(_name(path, generated), names)
        if owner is None:
            left_out.append(f"{shown(path)}: its name begins with the name of no reference")
        else:
            groups[names[owner]].append(path)
    if not any(groups.values()):
        raise UserError(
            f"generated={generated}: no file name in it begins with the name of a file in reference={reference}; "
            "name them alike (X.mid and X.cont_0.mid), or give one file as reference"
        )
    left_out += [
        f"{shown(path)}: no generated file has a name that begins with this name"
        for path, own in groups.items()
        if not own
    ]
    return Matches(groups, left_out)


def _name(path: Path, place: Path) -> str:
    inside = path.name if path == place else path.relative_to(place).as_posix()
    return inside[: -len(path.suffix)] if has_midi_suffix(path) else inside


def _owner(name: str, references: dict[str, Path]) -> str | None:
    """The longest name of a reference with which a name begins."""
    for end in range(len(name), 0, -1):
        if name[:end] in references and not name[end : end + 1].isalnum():
            return name[:end]
    return None


def compare(matches: Matches, published: bool, seed: int, workers: int, progress: Progress) -> Result:
    """Read and compare all files; `seed` is for the choice of other pieces.

    Raises:
        UserError: Nothing could be compared. The sentence says why the first file could not.
    """
    left_out, other_metre = list(matches.left_out), list[str]()

    def read(function: Callable[..., Counted], jobs: dict[Path, tuple[Any, ...]]) -> dict[Path, Counted]:
        found, refused = read_each(function, jobs, workers, progress)
        left_out.extend(refused)
        other_metre.extend(f"{shown(path)}: {item.metre}" for path, item in found.items() if item.metre)
        return found

    references = read(read_reference, dict.fromkeys(matches.groups, (published,)))
    groups = {own: others for own, others in matches.groups.items() if own in references}
    left_out += [
        f"{shown(path)}: its reference could not be read"
        for own, others in matches.groups.items()
        if own not in references
        for path in others
    ]
    jobs = {path: (published, references[own].roles) for own, others in groups.items() for path in others}
    counted = read(read_continuation, jobs)
    wholes = {own: item.styles[0] for own, item in references.items()}
    found: list[Comparison] = []
    for own, others in groups.items():
        whole, first, second = references[own].styles
        made = [path for path in others if path in counted]
        pooled = [pool(styles) for styles in zip(*(counted[path].styles for path in made), strict=True)]
        compared = tuple(similarity(part, whole) for part in pooled) or None
        found.append(Comparison(own, tuple(made), compared, similarity(first, second), None, None))
    if not any(item.quarters for item in found):
        raise UserError(f"nothing could be compared: {left_out[len(matches.left_out)]}")
    if all(math.isnan(value) for item in found for part in item.quarters or () for value in part.values()):
        raise UserError("nothing could be compared: no continuation has notes for the parts that its reference has")
    return Result(_add_floors(found, wholes, seed), left_out, other_metre)


def _add_floors(found: list[Comparison], wholes: dict[Path, Style], seed: int) -> list[Comparison]:
    """Compare each reference with one from another folder or, if all are in one folder, with any other."""
    random = np.random.default_rng(seed)
    paths = list(wholes)
    folders = np.array([str(path.parent) for path in paths])
    result = []
    for place, item in enumerate(found):
        foreign = np.flatnonzero(folders != folders[place])
        candidates = foreign if len(foreign) else np.delete(np.arange(len(paths)), place)
        if len(candidates):
            other = paths[int(random.choice(candidates))]
            item = replace(item, floor=similarity(wholes[other], wholes[item.reference]), other=other)
        result.append(item)
    return result


def read_reference(path: str, published: bool) -> Counted:
    """Count the notes of a reference. A malformed file may end the process, so call it in a child process."""
    score = parse_file(path)
    if not len(score.notes):
        raise MidiError(f"{shown(path)}: no notes")
    return Counted([style(score, published), *halves(score, published)], roles(score), _metre(score))


def read_continuation(path: str, published: bool, known: Roles) -> Counted:
    """Count the notes of a continuation, whose tracks are what they are in its reference; see `read_reference`."""
    score, first = parse_music(path)
    return Counted(quarters(score, first, published, known), {}, _metre(score))


def _metre(score: Score) -> str:
    try:
        check_metre(score)
    except TokenError as error:
        return f"{error}; it is compared as if it were"
    return ""
