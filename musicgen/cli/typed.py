"""From a composed config to dataclasses, with a sentence for every value that does not fit.

The hard choice: the dataclass's own annotations are the specification. There is no second list of keys and types to
keep in step, and what code reads below the entry point is typed.
"""

from __future__ import annotations

import dataclasses
import math
import types
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from musicgen.errors import UserError

T = TypeVar("T")


def build(kind: type[T], values: Any, key: str = "") -> T:
    """A dataclass from plain containers.

    Fields may be int, float, str, bool, Path, a Literal of strings, another dataclass, a dict, a tuple of one type, or
    any of these or None. A dataclass may refuse values by raising ValueError with a sentence that begins with the key.

    Args:
        kind: The dataclass.
        values: What is to be in it.
        key: Where in the config it stands, with dots.

    Raises:
        UserError: A value that its key cannot take; the sentence names both.
    """
    if not isinstance(values, dict):
        raise UserError(f"{key}: takes several keys, as in the config files, not {values!r}")
    prefix = f"{key}." if key else ""
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    missing = [name for name in names if name not in values]
    unknown = [name for name in values if name not in names]
    if missing or unknown:
        problem = f"the key {prefix}{missing[0]} is missing" if missing else f"unknown key {prefix}{unknown[0]}"
        raise UserError(f"{problem} (known: {', '.join(names)})")
    built = {name: _value(hints[name], values[name], f"{prefix}{name}") for name in names}
    try:
        return kind(**built)
    except ValueError as error:
        raise UserError(f"{prefix}{error}") from None


def _value(hint: Any, value: Any, key: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return build(hint, value, key)  # type: ignore[arg-type]
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if value is None and type(None) in choices:
        return None
    for choice in choices:
        fitted = _fit(choice, value, key)
        if fitted is not None:
            return fitted
    raise UserError(
        f"{key}={'null' if value is None else value}: takes {' or '.join(_words(choice) for choice in choices)}"
    )


def _fit(hint: Any, value: Any, key: str) -> Any:
    """The value as one type has it; None if it does not fit."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is float and isinstance(value, str):  # YAML reads 1e-4 as text
        try:
            value, is_number = float(value), True
        except ValueError:
            return None
    if get_origin(hint) is Literal:
        return value if value in get_args(hint) and not isinstance(value, bool) else None
    if get_origin(hint) is dict and isinstance(value, dict):
        return value
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_value(get_args(hint)[0], item, key) for item in value)
    if hint is float and is_number and math.isfinite(value):
        return float(value)
    if hint is int and is_number and math.isfinite(value) and value == int(value):
        return int(value)
    if hint is Path and isinstance(value, (str, int, float)) and str(value):
        try:
            return Path(str(value)).expanduser()
        except RuntimeError:
            raise UserError(f"{key}={value}: there is no such user") from None
    if hint in (str, bool) and isinstance(value, hint):
        return value
    return None


def _words(hint: Any) -> str:
    """What a type takes, for a sentence."""
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if get_origin(hint) is dict:
        return "several keys, as in the config files"
    if get_origin(hint) is tuple:
        return "a list in brackets"
    return {
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "true or false",
        Path: "a path",
        type(None): "null",
    }[hint]
