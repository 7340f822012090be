"""Reading what comes from outside: only regular files of a limited size, and JSON of a known shape.

Design note: every document from outside passes through here, so a kind of attack is refused in one place. A pipe or a
device is never opened for reading, because reading it may never end. JSON with deep nesting, or with integers that no
64 bits hold, is refused before anybody computes with it. A schema says which keys a document has and of which types.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from musicgen.errors import UserError

MAX_DOCUMENT = 64 << 20
"""The largest document, in bytes. The index of a corpus has about 300 bytes for each song."""
DEEPEST = 32
"""The deepest nesting of a document. Our own have at most 8 levels."""
_NAMES = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false", dict: "an object"}


@contextlib.contextmanager
def open_regular(path: Path | str, limit: int | None = None) -> Iterator[IO[bytes]]:
    """Open a regular file for reading, and nothing else: no folder, pipe, socket or device.

    Args:
        path: The file.
        limit: The largest size in bytes; None for any size.

    Raises:
        OSError: There is no such file, it is of another kind, or it is too large; `strerror` says which.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for its writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError:  # a NUL in the name
        raise OSError(errno.EINVAL, "not a path") from None
    try:
        _check(os.fstat(descriptor), limit)
    except OSError:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _check(status: os.stat_result, limit: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a file")
    if limit is not None and status.st_size > limit:
        megabytes = f"{status.st_size / 1e6:,.0f} MB is too large, the limit is {limit >> 20} MB"
        raise OSError(errno.EFBIG, megabytes)


def read_regular(path: Path | str, limit: int = MAX_DOCUMENT) -> bytes:
    """The content of a regular file: see `open_regular`."""
    with open_regular(path, limit) as file:
        data = file.read(limit + 1)
    if len(data) > limit:  # it grew
        raise OSError(errno.EFBIG, f"too large, the limit is {limit >> 20} MB")
    return data


def hash_file(path: Path, limit: int | None = None) -> str:
    """The SHA-256 of a regular file.

    Raises:
        OSError: As for `open_regular`.
    """
    digest = hashlib.sha256()
    with open_regular(path, limit) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def parse_json(data: bytes | str) -> Any:
    """JSON from outside.

    Raises:
        ValueError: It is not JSON in UTF-8, is nested too deeply, or has a whole number of more than 64 bits.
    """
    text = data.decode("utf-8") if isinstance(data, bytes) else data
    try:
        value = json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [value]
    for _ in range(DEEPEST):
        nested = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list))
        level = [inner for group in nested for inner in group]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _whole(digits: str) -> int:
    if len(digits) > 20 or not -(1 << 63) <= int(digits) < 1 << 63:
        raise ValueError(f"the number {digits[:20]}… has more than 64 bits")
    return int(digits)


def conform(value: Any, schema: Any) -> None:
    """Check that plain data has a shape.

    A schema is a type (`float` means a finite number, `object` anything), a value that must be equal, a list with the
    schema of all items, a tuple of alternatives, or a dict with the schema of each key. A key that ends with `?` may be
    absent, and other keys may be there.

    Raises:
        ValueError: It has another shape; the message names the key.
    """
    if fault := _misfit(value, schema, ""):
        raise ValueError(fault)


def _misfit(value: Any, schema: Any, place: str) -> str:
    """What does not have its shape; empty if all has."""
    here = place or "it"
    if isinstance(schema, tuple):
        return "" if any(not _misfit(value, choice, "") for choice in schema) else f"{here} is {_shown(value)}"
    if isinstance(schema, list):
        if not isinstance(value, list):
            return f"{here} is not a list"
        found = (_misfit(item, schema[0], f"{place}[{number}]") for number, item in enumerate(value))
        return next(filter(None, found), "")
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return f"{here} is not an object"
        found = (_misfit_key(value, key, inner, place) for key, inner in schema.items())
        return next(filter(None, found), "")
    if isinstance(schema, type):
        return "" if _is(value, schema) else f"{here} is not {_NAMES.get(schema, f'a {schema.__name__}')}"
    is_equal = type(value) is type(schema) and value == schema
    return "" if is_equal else f"{here} is {_shown(value)}, not {schema!r}"


def _misfit_key(value: dict[str, Any], key: str, schema: Any, place: str) -> str:
    name = key.removesuffix("?")
    path = f"{place}.{name}" if place else name
    if name in value:
        return _misfit(value[name], schema, path)
    return f"{path} is missing" if name == key else ""


def _is(value: Any, kind: type[Any]) -> bool:
    if kind in (int, float) and (isinstance(value, bool) or not isinstance(value, int | float)):
        return False
    if kind is float:
        try:
            return math.isfinite(value)
        except OverflowError:
            return False
    return isinstance(value, kind)


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, int | float | str | None) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:39]}…"


def read_document(path: Path, schema: Any, advice: str = "", limit: int = MAX_DOCUMENT) -> Any:
    """A JSON document from outside.

    Args:
        path: The file.
        schema: Its shape: see `conform`.
        advice: What to do if it cannot be used.
        limit: Its largest size in bytes.

    Raises:
        UserError: It is missing, is not a file, or is not such a document; the message names the file and the key.
    """
    end = f"; {advice}" if advice else ""
    try:
        value = parse_json(read_regular(path, limit))
    except FileNotFoundError:
        raise UserError(f"{path}: the file is missing{end}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}){end}") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON that can be read ({error}){end}") from None
    try:
        conform(value, schema)
    except ValueError as error:
        raise UserError(f"{path}: not as musicgen writes it ({error}){end}") from None
    return value


def is_document(path: Path, schema: Any) -> bool:
    """Whether a file is a JSON document of some shape."""
    try:
        read_document(path, schema)
    except UserError:
        return False
    return not path.is_symlink()
