"""Takes on disk and in session files: plain JSON, checked when it is read.

Design note: a session file may come from a stranger. Nothing in it is trusted: tokens must be those of a known
language and fit the bars, and a take that cannot be decoded is refused with a sentence.
"""

from __future__ import annotations

import json
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
MOST_TAKES = 2000


class Store:
    """A folder with a file for each take.

    Args:
        folder: The folder, which is made if needed.

    Raises:
        UserError: It cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"folder={folder}: cannot make this folder ({error.strerror}), give another") from None

    def load(self) -> tuple[list[Take], list[str]]:
        """All takes in the order in which they were made, and a sentence for each file that cannot be used."""
        found, problems = list[tuple[int, Take]](), list[str]()
        for path in sorted(self.folder.glob("*.json")):
            if not ID.fullmatch(path.stem):
                continue
            try:
                record = read_json(read_regular(path))
                found.append((int(record.get("order", 0)), take_from({**record, "id": path.stem})))
            except (OSError, UserError, TypeError, ValueError) as error:
                problems.append(f"{path}: left out ({error})")
        return [take for _, take in sorted(found, key=lambda item: item[0])][-MOST_TAKES:], problems

    def save(self, take: Take, order: int) -> None:
        """Write a take, completely or not at all."""
        data = json.dumps({"format": FORMAT, "order": order, **take.record()}, separators=(",", ":"))
        atomic_write(self.folder / f"{take.id}.json", data.encode())

    def remove(self, take: Take) -> None:
        """Delete the file of a take."""
        (self.folder / f"{take.id}.json").unlink(missing_ok=True)


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
    return [take_from(record) for record in records]


def read_json(data: bytes) -> Any:
    """JSON as plain data.

    Raises:
        UserError: It is not JSON.
    """
    try:
        read = json.loads(data, parse_constant=_refuse)
        json.dumps(read, ensure_ascii=False).encode()  # half a surrogate pair is no text, and cannot be sent back
    except (ValueError, RecursionError):
        raise UserError("the body is not JSON") from None
    return read


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def take_from(record: Any) -> Take:
    """A take from its record.

    Raises:
        UserError: The record is damaged, or nonsense.
    """
    try:
        return _take_from(record)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
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
    prompt_bars = int(record["prompt_bars"])
    if not all(len(ends) <= len(values) <= len(ends) + 1 and values for values in (likelihood, masked)):
        raise ValueError("its sums do not fit its bars")
    if not 0 <= prompt_bars <= len(ends) + 1 or not isinstance(record["setting"], dict):
        raise ValueError("its prompt does not fit its bars")
    endless = bool(record["endless"])
    request = _checked_request(record["request"])
    seed, variation = int(record["seed"]), int(record["variation"])
    constraints = asked_constraints(request, endless, MOST_BARS)
    sums, setting = (likelihood, masked), record["setting"]
    stored = Stored(language, tokens, ends, *sums, prompt_bars, setting, seed, variation, constraints)
    parent = record["parent"]
    if not ID.fullmatch(record["id"]) or not (parent is None or ID.fullmatch(parent)):
        raise ValueError("its id is not one")
    status: Any = record["status"] if record["status"] in ("done", "stopped", "failed") else "stopped"
    texts: Any = {name: str(record[name])[:2000] for name in ("model", "sha256", "made", "note", "error")}
    take = Take(
        record["id"],
        parent,
        int(record["bar"]),
        clean_name(str(record["name"])),
        request=request,
        written=stored,
        draw=int(record["draw"]),
        endless=endless,
        kept=bool(record["kept"]),
        status=status,
        score={str(name): float(value) for name, value in dict(record["score"]).items()},
        **texts,
    )
    if ends:
        take.piece()  # raises if its setting is nonsense
    return take


def _checked_request(request: Any) -> dict[str, Any]:
    _, asked = read_keys(ForkKeys, {key: value for key, value in dict(request).items() if key not in FOR_PROMPTS})
    return asked


def _integers(values: Sequence[Any], most: int) -> tuple[int, ...]:
    array = np.asarray(values)
    if array.ndim != 1 or len(array) > most or (len(array) and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError("not whole numbers")
    if (array < 0).any():
        raise ValueError("negative numbers")
    return tuple(array.tolist())


def _floats(values: Sequence[Any]) -> tuple[float, ...]:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or len(array) > MOST_BARS + 1 or not np.isfinite(array).all():
        raise ValueError("not finite numbers")
    return tuple(array.tolist())
