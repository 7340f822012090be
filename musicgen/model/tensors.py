"""Tensors on disk: safetensors files that are written whole or not at all, and read only if they are regular files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from musicgen.files import atomic_write
from musicgen.inputs import open_regular, parse_json

LONGEST_HEADER = 16 << 20


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> None:
    """Write a file of tensors, and of texts about them.

    Raises:
        UserError: It cannot be written; nothing is left of it then.
    """
    atomic_write(path, save(dict(tensors), None if about is None else dict(about)))


@contextlib.contextmanager
def open_tensors(path: Path | str) -> Iterator[Any]:
    """Open a file of tensors, as `safetensors.safe_open` does.

    Raises:
        OSError: It cannot be opened, or is no regular file.
        ValueError: It is not a file of tensors.
    """
    with open_regular(path):
        pass
    try:
        with safe_open(path, "pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(str(error)) from None


def read_about(path: Path) -> dict[str, Any]:
    """The texts in a file of tensors, without reading a tensor; none if it is no such file."""
    try:
        with open_regular(path) as file:
            size = int.from_bytes(file.read(8), "little")
            header = parse_json(file.read(size) if size <= LONGEST_HEADER else b"")
    except (OSError, ValueError):
        return {}
    about = header.get("__metadata__") if isinstance(header, dict) else None
    return about if isinstance(about, dict) else {}
