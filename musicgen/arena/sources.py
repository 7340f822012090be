"""Reading the public files of tasks: lines that may be compressed, tables, and notes about what is incomplete."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from musicgen.errors import UserError
from musicgen.inputs import conform, open_regular

Say = Callable[[str], None]
T = TypeVar("T")
LARGEST = 16 << 30


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a UTF-8 file; one that ends with .xz is decompressed.

    Raises:
        UserError: It cannot be read.
    """
    try:
        with open_regular(path, LARGEST) as file:
            content = lzma.open(file) if path.suffix == ".xz" else file  # noqa: SIM115 - it holds nothing of its own
            for number, line in enumerate(content, 1):
                yield number, line.decode("utf-8").rstrip("\r\n")
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def objects(path: Path, schema: Any) -> Iterator[dict[str, Any]]:
    """The JSON objects in the lines of a file, each of the shape of a schema.

    Raises:
        UserError: A line is something else; the message has its number.
    """
    for number, line in lines(path):
        try:
            value = json.loads(line)
            conform(value, schema)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, line {number}: not a line of this data set ({error})") from None
        yield value


def columns(path: Path, count: int) -> Iterator[tuple[int, list[str]]]:
    """The numbered lines of a table with tabs between its columns.

    Raises:
        UserError: A line has another number of columns.
    """
    for number, line in lines(path):
        cells = line.split("\t")
        if len(cells) != count:
            raise UserError(f"{path}, line {number}: has {len(cells)} columns, not {count}")
        yield number, cells


def content(path: Path) -> bytes:
    """The content of a file.

    Raises:
        UserError: It cannot be read.
    """
    try:
        with open_regular(path, LARGEST) as file:
            return file.read()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def note_count(what: str, count: int, whole: int, say: Say) -> None:
    """Say so if something is not the whole data set."""
    if count != whole:
        say(f"note: {count:,} {what}; the whole data set has {whole:,}")


def note_hash(path: Path, data: bytes, published: str, say: Say) -> None:
    """Say so if a file is not the published one, by its MD5."""
    if hashlib.md5(data, usedforsecurity=False).hexdigest() != published:
        say(f"note: {path} is not the published file (its MD5 differs)")


def held_out(items: Sequence[T], name: Callable[[T], str], share: float, seed: int) -> tuple[list[T], list[T]]:
    """Divide items: those that stay, and a share that is kept out, chosen by a hash of their names.

    Items of one name stay together, and the choice does not depend on the order of files.
    """
    names = sorted({name(item) for item in items}, key=lambda text: hashlib.sha256(f"{seed} {text}".encode()).digest())
    kept_out = set(names[: round(share * len(names))])
    return [item for item in items if name(item) not in kept_out], [item for item in items if name(item) in kept_out]
