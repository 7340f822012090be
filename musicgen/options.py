"""Options of commands: each is one dataclass field that says its default, its bounds and its help.

From that one line come the config of a command, its `--help` and `--cfg`, the sentence for a value that does not fit,
the fields of a request in Python, and the tables in `docs/commands.md`.

Design note: annotations and `option(...)` are the whole specification. Nothing else lists keys, types or bounds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import math
import textwrap
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from musicgen.errors import UserError

T = TypeVar("T")
WIDTH = 120


@dataclasses.dataclass(frozen=True)
class Option:
    """What a field says besides its type and its default.

    Attributes:
        help: What the option does, in one line.
        like: A placeholder in capitals, which help shows if there is no default. Numbers have `N` and `X`.
        least: The smallest number that is allowed.
        most: The largest number that is allowed.
        above: Numbers must be larger than this.
        needed: Whether the user must give a value.
        aliases: Older names of the key. They still work and are not shown.
        renamed: Older names of choices, and their current names.
    """

    help: str
    like: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    needed: bool = False
    aliases: tuple[str, ...] = ()
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)


def option(default: Any = None, **details: Any) -> Any:
    """A dataclass field for an option; see `Option` for the details."""
    return dataclasses.field(default=default, metadata={"option": Option(**details)})


def section(kind: type[Any], help: str) -> Any:  # noqa: A002 - as in `option`
    """A dataclass field that is itself a dataclass of options."""
    return dataclasses.field(default_factory=kind, metadata={"option": Option(help)})


def options(kind: Any) -> dict[str, Option]:
    """The options of a dataclass, by name. A field that says nothing has an empty help."""
    return {field.name: field.metadata.get("option", Option("")) for field in dataclasses.fields(kind)}


def defaults(kind: type[Any]) -> dict[str, Any]:
    """The default of every option as plain data; those of a section are a dict."""
    return plain(kind())


def plain(config: Any) -> dict[str, Any]:
    """The values of a config as plain data, by name: paths are texts, tuples are lists."""
    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return plain(value)
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


def build(kind: type[T], values: Any, key: str = "") -> T:
    """A dataclass from plain data that has all of its keys.

    A dataclass may refuse values by raising ValueError with a sentence that begins with the key.

    Args:
        kind: The dataclass.
        values: The values, by key.
        key: Where in the config it stands, with dots.

    Raises:
        UserError: A value does not fit its key; the message names both.
    """
    if not isinstance(values, dict):
        raise UserError(f"{key}: takes several keys, as in the config files, not {values!r}")
    prefix = f"{key}." if key else ""
    names = list(options(kind))
    missing = [name for name in names if name not in values]
    unknown = [name for name in values if name not in names]
    if missing or unknown:
        problem = f"the key {prefix}{missing[0]} is missing" if missing else f"unknown key {prefix}{unknown[0]}"
        raise UserError(f"{problem} (known: {', '.join(names)})")
    fitted = fit(kind, values, key)
    try:
        return kind(**fitted)
    except ValueError as error:
        raise UserError(f"{prefix}{error}") from None


def fit(kind: type[Any], values: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Some values of a dataclass, converted to the types of their fields.

    Raises:
        UserError: A value does not fit its key, or a key is not known.
    """
    hints, known, prefix = get_type_hints(kind), options(kind), f"{key}." if key else ""
    for name in values:
        if name not in known:
            raise UserError(unknown_key(f"{prefix}{name}", [f"{prefix}{other}" for other in known]))
    return {name: _value(hints[name], known[name], value, f"{prefix}{name}") for name, value in values.items()}


def _value(hint: Any, about: Option, value: Any, key: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return build(hint, value, key)  # type: ignore[arg-type]
    choices = _choices(hint)
    if value is None and type(None) in choices:
        return None
    if isinstance(value, str):
        value = about.renamed.get(value, value)
    for choice in choices:
        fitted = _fit(choice, about, value, key)
        if fitted is not None:
            return fitted
    words = " or ".join(_words(choice, about) for choice in choices)
    is_number = isinstance(value, str) and str not in choices and not isinstance(_read(choices, value), str)
    raise UserError(f"{key}={repr(value) if is_number else _shown(value)}: takes {words}")


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fit(hint: Any, about: Option, value: Any, key: str) -> Any:
    """The value converted to one type; None if it does not fit."""
    origin = get_origin(hint)
    if hint in (int, float):
        return _number(hint, about, value)
    if origin is Literal:
        return value if value in get_args(hint) and not isinstance(value, bool) else None
    if origin in (tuple, Sequence) or getattr(origin, "__name__", "") == "Sequence":
        if not isinstance(value, (list, tuple)):
            return None
        items = [_fit(get_args(hint)[0], about, item, key) for item in value]
        return None if None in items else tuple(items)
    if hint is Path:
        if isinstance(value, bool) or not isinstance(value, (str, int, float, Path)) or not str(value):
            return None
        try:
            return Path(str(value)).expanduser()
        except RuntimeError:
            raise UserError(f"{key}={value}: there is no such user") from None
    return value if isinstance(value, origin or hint) else None


def _number(hint: Any, about: Option, value: Any) -> Any:
    """A number within its bounds; NumPy's numbers will do."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        if not math.isfinite(value):
            return None
    except OverflowError:  # a whole number that no float can hold
        return None
    number: Any = value
    is_below = about.least is not None and number < about.least
    is_above = about.most is not None and number > about.most
    is_refused = about.above is not None and number <= about.above
    if is_below or is_above or is_refused or (hint is int and number != int(number)):
        return None
    return hint(number)


def _words(hint: Any, about: Option) -> str:
    """The values that a type accepts, in words."""
    origin = get_origin(hint)
    if origin is Literal:
        names = ", ".join(map(str, get_args(hint)))
        return f"one of {names}" if len(get_args(hint)) > 1 else names
    if hint in (int, float):
        return f"{'a whole number' if hint is int else 'a number'}{_bounds(about)}"
    if origin is tuple:
        return f"{'whole numbers' if get_args(hint)[0] is int else 'numbers'}{_bounds(about)} with commas between them"
    known = {str: "a text", bool: "true or false", Path: "a path", type(None): "null", dict: "several keys"}
    return known.get(origin or hint, "several texts" if origin else f"a {getattr(hint, '__name__', hint)}")


def _bounds(about: Option) -> str:
    least, most = (None if bound is None else f"{bound:,}" for bound in (about.least, about.most))
    if about.above is not None:
        return f" (above {about.above:,}{f', at most {most}' if most else ''})"
    if least and most:
        return f" ({least} to {most})"
    return f" ({least} or more)" if least else f" ({most} or less)" if most else ""


def _shown(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def read_arguments(kind: type[Any], arguments: Sequence[str], command: str) -> dict[str, Any]:
    """The values of a config from `key=value` arguments; keys that are not given have their defaults.

    Texts and paths are not parsed. An empty value and `null` mean None.

    Args:
        kind: The dataclass.
        arguments: The arguments; if a key is given twice, the last counts.
        command: The command, for error messages.

    Raises:
        UserError: An argument is not `key=value`, or a key is not known.
    """
    values, hints, names = defaults(kind), get_type_hints(kind), aliases(kind)
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals or not key or key[0] in "+~-":
            raise UserError(f"cannot read {argument!r}: write key=value (see `musicgen {command} --help`)")
        if key not in names:
            raise UserError(unknown_key(key, names))
        values[names[key]] = None if text in ("", "null") else _read(_choices(hints[names[key]]), text)
    return values


def aliases(kind: type[Any]) -> dict[str, str]:
    """Every current and older name of a key, and its current name."""
    return {name: key for key, about in options(kind).items() for name in (key, *about.aliases)}


def _read(choices: Collection[Any], text: str) -> Any:
    """The value that a text means for a field of some types; the text itself if there is no other."""
    if str in choices or Path in choices:
        return text
    listed = [choice for choice in choices if get_origin(choice) is tuple]
    if listed:
        parts = dict.fromkeys(part.strip() for part in text.strip("[] ").split(","))
        return [_read(get_args(listed[0]), part) for part in parts]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if bool in choices and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not {int, float} & set(choices):
        return text
    with contextlib.suppress(ValueError):
        return int(text)
    with contextlib.suppress(ValueError):
        return float(text)
    return text


def check_needed(config: Any, command: str) -> None:
    """Check that the user has given every option that is needed.

    Raises:
        UserError: One is missing; the message says how to write it.
    """
    for name, about in options(config).items():
        if about.needed and getattr(config, name) is None:
            raise missing(type(config), name, command)


def missing(kind: type[Any], name: str, command: str) -> UserError:
    """The error for an option that is not given."""
    return UserError(f"{name} is missing: write {name}={options(kind)[name].like} (see `musicgen {command} --help`)")


def unknown_key(key: str, known: Mapping[str, str] | Collection[str]) -> str:
    """The sentence for a key that is not known, with the closest known one, or with all of them.

    Args:
        key: The key, with dots if it is in a section.
        known: Keys; or every name of a key, and its current name.
    """
    now = known if isinstance(known, Mapping) else {name: name for name in known}
    section_, _, name = key.rpartition(".")
    siblings = [other for other in now if other.rpartition(".")[0] == section_]
    # A key without a section may be one of a section, if it is close enough.
    for pool, cutoff in ((siblings, 0.6), (() if section_ and siblings else now, 0.62)):
        candidates = {other.rpartition(".")[2].lower(): now[other] for other in pool}
        close = difflib.get_close_matches(name.lower(), candidates, 1, cutoff)
        if close:
            return f"unknown key {key!r}: did you mean {candidates[close[0]]!r}?"
    return f"unknown key {key!r} (known: {', '.join(dict.fromkeys(now[other] for other in siblings or now))})"


class Row(NamedTuple):
    """An option as a line of a table.

    Attributes:
        key: The key, with dots if it is in a section.
        default: The default as it is typed; None if there is none.
        like: The placeholder.
        help: The help, with the choices if there are any.
        needed: Whether the user has to give a value.
    """

    key: str
    default: str | None
    like: str
    help: str
    needed: bool


def rows(kind: type[Any], prefix: str = "") -> Iterator[Row]:
    """Every option of a dataclass and of its sections."""
    hints = get_type_hints(kind)
    values = {field.name: field.default for field in dataclasses.fields(kind)}
    for name, about in options(kind).items():
        if dataclasses.is_dataclass(hints[name]):
            yield from rows(hints[name], f"{prefix}{name}.")
        elif about.help:
            literal = [choice for choice in _choices(hints[name]) if get_origin(choice) is Literal]
            names = [str(word) for choice in literal for word in get_args(choice)]
            listed = f" ({', '.join(names)})" if len(names) > 1 else ""
            like = about.like or ("N" if int in _choices(hints[name]) else "X")
            default = None if values[name] is None else _shown(values[name])
            yield Row(f"{prefix}{name}", default, like, about.help + listed, about.needed and default is None)


def help_table(kind: type[Any]) -> str:
    """Every option with its default and its help, a line or more each."""
    lines = []
    shown = [(f"  {row.key}={row.like if row.default is None else row.default}", row.help) for row in rows(kind)]
    width = min(28, max(len(left) for left, _ in shown) + 2)
    for left, text in shown:
        first, *rest = textwrap.wrap(text, WIDTH - width, break_on_hyphens=False)
        lines += [f"{left:{width}}{first}"] if len(left) < width else [left, " " * width + first]
        lines += [" " * width + line for line in rest]
    return "\n".join(["keys, with their defaults (capitals mean that there is none):", *lines])
