"""Takes on disk and in session files: plain JSON, checked when it is read.

Design note: a session file may come from a stranger. Nothing in it is trusted: tokens must be those of a known
language and fit the bars, and a take that cannot be decoded is refused with a sentence.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.files import atomic_write
from musicgen.inputs import read_regular
from musicgen.languages.registry import LANGUAGES
from musicgen.sampling.bookmark import bar_ends
from musicgen.studio.keys import FOR_PROMPTS, MOST_BARS, MOST_TOKENS, ForkKeys, clean_name, read_keys
from musicgen.studio.take import Stored, Take, asked_constraints

FORMAT = 1
ID = re.compile(r"[0-9a-f]{12}")
MOST_TAKES, MOST_IN_BIN = 2000, 100
LARGEST = 1e100
"""Larger numbers, and NaN, are nonsense, and their sums may be infinite."""
SCORES = ("first", "last", "following", "rank")
"""What the score of a take may say."""


class Store:
    """A folder with a file for each take.

    Args:
        folder: The folder, which is made if needed.

    Raises:
        UserError: It cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._bin = folder, folder / "bin"
        try:
            self._bin.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"folder={folder}: cannot make this folder ({error.strerror}), give another") from None

    def load(self) -> tuple[list[Take], list[str]]:
        """All takes in the order in which they were made, and a sentence for each file that cannot be used."""
        found, problems = dict[str, tuple[int, Take]](), list[str]()
        for path in (*sorted(self.folder.glob("*.json")), *sorted(self._bin.glob("*.json"))):
            if not ID.fullmatch(path.stem) or path.stem in found:
                continue
            try:
                record = read_json(read_regular(path))
                take = take_from({**record, "id": path.stem})
                take.is_deleted = path.parent == self._bin
                found[take.id] = (int(record.get("order", 0)), take)
            except (OSError, UserError, TypeError, ValueError) as error:
                problems.append(f"{path}: left out ({error})")
        takes = [take for _, take in sorted(found.values(), key=lambda item: item[0])]
        return _in_trees(takes[-MOST_TAKES - MOST_IN_BIN :]), problems

    def save(self, take: Take, order: int) -> None:
        """Write a take, completely or not at all."""
        data = json.dumps({"format": FORMAT, "order": order, **take.record()}, separators=(",", ":"))
        atomic_write(self.folder / f"{take.id}.json", data.encode())
        (self._bin / f"{take.id}.json").unlink(missing_ok=True)

    def remove(self, take: Take) -> None:
        """Put the file of a take into the bin."""
        with contextlib.suppress(FileNotFoundError):  # it has no bar
            (self.folder / f"{take.id}.json").replace(self._bin / f"{take.id}.json")

    def forget(self, take: Take) -> None:
        """Delete the file of a take that is in the bin."""
        (self._bin / f"{take.id}.json").unlink(missing_ok=True)


def session_json(takes: Iterable[Take]) -> bytes:
    """Takes as a session file."""
    return json.dumps({"musicgen_session": FORMAT, "takes": [take.record() for take in takes]}).encode()


def read_session(data: bytes) -> list[Take]:
    """The takes of a session file.

    Raises:
        UserError: It is not one, or it is damaged.
    """
    session = read_json(data)
    if not isinstance(session, dict) or session.get("musicgen_session") != FORMAT:
        raise UserError("the file is not a session of the studio")
    records = session.get("takes")
    if not isinstance(records, list) or not 1 <= len(records) <= MOST_TAKES:
        raise UserError(f"the session: has 1 to {MOST_TAKES:,} takes")
    return _in_trees([take_from(record) for record in records])


def _in_trees(takes: list[Take]) -> list[Take]:
    """The same takes. One whose parent is itself or a later one begins a tree, so that no tree is a circle."""
    later = {take.id for take in takes}
    for take in takes:
        if take.parent in later:
            take.parent = None
        later.discard(take.id)
    return takes


def read_json(data: bytes) -> Any:
    """JSON as plain data.

    Raises:
        UserError: It is not JSON.
    """
    try:
        read = json.loads(data, parse_constant=_refuse, parse_float=_finite)
        json.dumps(read, ensure_ascii=False).encode()  # half a surrogate pair is no text, and cannot be sent back
    except (ValueError, RecursionError):
        raise UserError("the body is not JSON") from None
    return read


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    """A number. One that is too large would be infinite, which cannot be sent back as JSON."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is too large")
    return value


def take_from(record: Any) -> Take:
    """A take from its record.

    Raises:
        UserError: The record is damaged, or nonsense.
    """
    try:
        return _take_from(record)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise UserError(f"a damaged take ({type(error).__name__}: {str(error)[:100]})") from None


def _take_from(record: Any) -> Take:
    language = LANGUAGES[record["language"]]
    tokens = _integers(record["tokens"], MOST_TOKENS)
    if not tokens or tokens[0] != language.first or max(tokens) >= len(language.vocabulary):
        raise ValueError("its tokens are not those of its language")
    ends = _integers(record["ends"], MOST_BARS + 1)
    if ends != bar_ends(language.complete_bars(tokens)):
        raise ValueError("its bars do not fit its tokens")
    likelihood, masked = (_floats(record[name]) for name in ("likelihood", "masked_probability"))
    prompt_bars = _whole(record["prompt_bars"])
    if not all(len(ends) <= len(values) <= len(ends) + 1 and values for values in (likelihood, masked)):
        raise ValueError("its sums do not fit its bars")
    if not 0 <= prompt_bars <= len(ends) + 1 or not isinstance(record["setting"], dict):
        raise ValueError("its prompt does not fit its bars")
    endless = bool(record["endless"])
    request = _checked_request(record["request"])
    seed, variation = _whole(record["seed"]), _whole(record["variation"])
    constraints = asked_constraints(request, endless, MOST_BARS)
    sums, setting = (likelihood, masked), record["setting"]
    stored = Stored(language, tokens, ends, *sums, prompt_bars, setting, seed, variation, constraints)
    parent, scores = record["parent"], {name: record["score"][name] for name in SCORES if name in record["score"]}
    if not ID.fullmatch(record["id"]) or not (parent is None or ID.fullmatch(parent)):
        raise ValueError("its id is not one")
    status: Any = record["status"] if record["status"] in ("done", "stopped", "failed") else "stopped"
    texts: Any = {name: str(record[name])[:2000] for name in ("model", "sha256", "made", "note", "error")}
    take = Take(
        record["id"],
        parent,
        _whole(record["bar"]),
        clean_name(str(record["name"])),
        request=request,
        written=stored,
        draw=_whole(record["draw"]),
        endless=endless,
        kept=bool(record["kept"]),
        status=status,
        score=dict(zip(scores, _floats(list(scores.values())), strict=True)),
        **texts,
    )
    if ends:
        take.piece()  # raises if its setting is nonsense
    return take


def _checked_request(request: Any) -> dict[str, Any]:
    _, asked = read_keys(ForkKeys, {key: value for key, value in dict(request).items() if key not in FOR_PROMPTS})
    return asked


def _whole(value: Any) -> int:
    """A whole number that is small enough for a seed."""
    if abs(number := int(value)) >= 1 << 63:
        raise ValueError(f"{number:.3g} is too large")
    return number


def _integers(values: Sequence[Any], most: int) -> tuple[int, ...]:
    array = np.asarray(values)
    if array.ndim != 1 or len(array) > most or (len(array) and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError("not whole numbers")
    if (array < 0).any():
        raise ValueError("negative numbers")
    return tuple(array.tolist())


def _floats(values: Sequence[Any]) -> tuple[float, ...]:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or len(array) > MOST_BARS + 1 or not (np.abs(array) < LARGEST).all():
        raise ValueError("not finite numbers")
    return tuple(array.tolist())
