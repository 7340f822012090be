"""From folders of references and continuations to similarities, with a line for every file that has no part in them.

The hard choice: a file is read and counted in a child process that may die of it, and nothing but its counts comes
back. One malformed file costs one line, and a folder of any size takes the memory of its counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from musicgen.errors import UserError
from musicgen.evaluation.style import Roles, Similarity, Style, halves, pool, quarters, roles, similarity, style
from musicgen.files import kind_of
from musicgen.guard import GuardError, guarded_map
from musicgen.midi.read import MidiError, parse_file, read_bytes
from musicgen.midi.score import Score
from musicgen.tokens.quantise import TokenError, check_metre

SUFFIXES = (".mid", ".midi")
CONTINUES = "Continuation"
"""The marker with which a file says where its prompt ends, as `musicgen generate` writes it."""
SECONDS = 60.0
"""For one file. The longest that anybody plays takes less than one."""


@dataclass(frozen=True)
class Comparison:
    """What was found out about one reference.

    Attributes:
        reference: Its path.
        generated: The paths of its continuations that could be read.
        quarters: Similarity of each quarter of the continuations, all together, to the reference; None without any.
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
    """All comparisons, a line for each file that is in none of them, and one for each that is not in 4/4."""

    comparisons: list[Comparison]
    left_out: list[str]
    other_metre: list[str]


class Counted(NamedTuple):
    """What a child has counted in a file.

    Attributes:
        styles: Of a reference the whole and its halves, of a continuation its quarters.
        roles: Of a reference, what its tracks are.
        metre: Why its bars are not those that were counted; empty if they are.
    """

    styles: list[Style]
    roles: Roles
    metre: str


class Matches(NamedTuple):
    """References with the continuations of each, and a line for each file that belongs to no other."""

    groups: dict[Path, list[Path]]
    left_out: list[str]


Progress = Callable[[Iterable[Any], int], Iterable[Any]]
"""Takes what is to be gone through and how many there are, and gives the same to go through."""


def midi_files(place: Path, key: str) -> list[Path]:
    """The MIDI files in a folder and the folders in it, in order; or the one file.

    Raises:
        UserError: There are none; the sentence names the key that gave the place.
    """
    kind = kind_of(place)
    if kind == "file":
        return [place]
    if kind != "folder":
        raise UserError(f"{key}={place}: there is no such file or folder")
    found = sorted(path for path in place.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not found:
        raise UserError(f"{key}={place}: no MIDI files (*.mid, *.midi) in it")
    return found


def match(reference: Path, generated: Path) -> Matches:
    """Which generated files continue which reference.

    Of a reference `folder/X.mid`, they are those whose path in their own folder begins with `folder/X`, followed by
    nothing or by something that is neither letter nor digit: `X.mid`, `X.cont_0.mid`, `X_piece_0.mid`, `X/piece_0.mid`.
    Where several references would do, it is the one with the longest name. A reference that is given as a file has
    all of them.

    Raises:
        UserError: There are no MIDI files, or none of them fit together.
    """
    references, continuations = midi_files(reference, "reference"), midi_files(generated, "generated")
    if references == [reference]:
        return Matches({reference: continuations}, [])
    names = {_name(path, reference): path for path in references}
    groups: dict[Path, list[Path]] = {path: [] for path in references}
    left_out = []
    for path in continuations:
        owner = _owner(_name(path, generated), names)
        if owner is None:
            left_out.append(f"{_shown(path)}: no reference has a name with which this one begins")
        else:
            groups[names[owner]].append(path)
    if not any(groups.values()):
        raise UserError(
            f"generated={generated}: the name of no file in it begins with that of a file in reference={reference}; "
            "name them alike (X.mid and X.cont_0.mid), or give one file as reference"
        )
    left_out += [
        f"{_shown(path)}: no generated file has a name that begins with this one's"
        for path, own in groups.items()
        if not own
    ]
    return Matches(groups, left_out)


def _shown(path: Path) -> str:
    """A path on one line, whatever is in its name."""
    return str(path) if str(path).isprintable() else repr(str(path))


def _name(path: Path, place: Path) -> str:
    inside = path.name if path == place else path.relative_to(place).as_posix()
    return inside[: -len(path.suffix)] if path.suffix.lower() in SUFFIXES else inside


def _owner(name: str, references: dict[str, Path]) -> str | None:
    """The longest name of a reference with which a name begins."""
    for end in range(len(name), 0, -1):
        if name[:end] in references and not name[end : end + 1].isalnum():
            return name[:end]
    return None


def compare(matches: Matches, published: bool, seed: int, workers: int, progress: Progress) -> Result:
    """Read and compare all files.

    Args:
        matches: What is to be compared with what.
        published: As the paper's published code counts, mistakes included.
        seed: Of the choice of other pieces.
        workers: Child processes that read.
        progress: Is told how far it is.

    Raises:
        UserError: Nothing could be compared, and why not what came first.
    """
    left_out, other_metre = list(matches.left_out), list[str]()

    def read(function: Callable[..., Counted], jobs: list[tuple[Any, ...]]) -> dict[Path, Counted]:
        calls = [(str(path), published, *known) for path, *known in jobs]
        answers = progress(guarded_map(function, calls, workers, SECONDS), len(calls))
        found = {path: _counted(path, answer, left_out) for (path, *_), answer in zip(jobs, answers, strict=True)}
        other_metre.extend(f"{_shown(path)}: {item.metre}" for path, item in found.items() if item and item.metre)
        return {path: item for path, item in found.items() if item is not None}

    references = read(read_reference, [(path,) for path in matches.groups])
    groups = {own: others for own, others in matches.groups.items() if own in references}
    left_out += [
        f"{_shown(path)}: its reference could not be read"
        for own, others in matches.groups.items()
        if own not in references
        for path in others
    ]
    counted = read(
        read_continuation, [(path, references[own].roles) for own, others in groups.items() for path in others]
    )
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


def _counted(path: Path, answer: Counted | UserError, left_out: list[str]) -> Counted | None:
    """What a child has counted; if it could not, a line says why."""
    if not isinstance(answer, UserError):
        return answer
    is_named = not isinstance(answer, GuardError)
    left_out.append(
        str(answer) if is_named else f"{_shown(path)}: not a MIDI file that can be read (reading it {answer})"
    )
    return None


def _add_floors(found: list[Comparison], wholes: dict[Path, Style], seed: int) -> list[Comparison]:
    """Compare each reference with one from another folder or, if all are in one folder, with any other."""
    random = np.random.default_rng(seed)
    paths = list(wholes)
    folders = np.array([str(path.parent) for path in paths])
    result = []
    for place, item in enumerate(found):
        strange = np.flatnonzero(folders != folders[place])
        candidates = strange if len(strange) else np.delete(np.arange(len(paths)), place)
        if len(candidates):
            other = paths[int(random.choice(candidates))]
            item = replace(item, floor=similarity(wholes[other], wholes[item.reference]), other=other)
        result.append(item)
    return result


def read_reference(path: str, published: bool) -> Counted:
    """What a child counts in a reference.

    Malformed files may end the process: call it in one that may die.

    Raises:
        UserError: It cannot be used, and why.
    """
    score = parse_file(path)
    if not len(score.notes):
        raise MidiError(f"{_shown(Path(path))}: no notes")
    return Counted([style(score, published), *halves(score, published)], roles(score), _metre(score))


def read_continuation(path: str, published: bool, known: Roles) -> Counted:
    """What a child counts in a continuation, whose tracks are what they are in its reference: see `read_reference`."""
    score = parse_file(path)
    first = continuation_start(read_bytes(path))
    if not (score.notes["start"] >= first).any():
        raise MidiError(f"{_shown(Path(path))}: no notes{' after its prompt' if first else ''}")
    return Counted(quarters(score, first, published, known), {}, _metre(score))


def _metre(score: Score) -> str:
    try:
        check_metre(score)
    except TokenError as error:
        return f"{error}, and judged as if it were"
    return ""


def continuation_start(data: bytes) -> int:
    """The tick at which the bytes of a MIDI file say that a prompt ends; 0 if they do not."""
    if CONTINUES.encode() not in data:  # so that files without one need no second parsing
        return 0
    from symusic import Score as Parsed  # here, so that a child alone pays for the import

    parsed: Any = Parsed.from_midi(data)
    return max((int(marker.time) for marker in parsed.markers if marker.text == CONTINUES), default=0)
