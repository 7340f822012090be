"""What a request to the studio may say: the options of `musicgen generate`, and a few of the studio's own.

Design note: the page builds its form from `describe`, so a text or a bound that changes in `musicgen.request` changes
on the page, in the errors and in the documentation together.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from musicgen.errors import UserError
from musicgen.options import fit, option, options, unknown_key
from musicgen.request import RequestOptions

MOST_BARS, MOST_SECONDS, MOST_TOKENS = 10_000, 36_000, 2_000_000
MOST_PIECES = 8
LONGEST_NAME = 80
ELSEWHERE = ("prompt", "beats", "from_state", "fork_at", "variations", "fill", "rank", "form", "section_bars")
"""Options that are files or forks; the studio has its own ways for them."""
FOR_PROMPTS = ("prompt_bars", "pedal", "grid", "prompt_tempo", "other")
"""Options that say how a file is read. They do not hold for what follows it."""


@dataclass(frozen=True)
class PieceKeys:
    """Keys of `POST /api/pieces` besides those of a request for music."""

    model: str | None = option(like="NAME", help="the model that writes, one of /api/models")
    n: int = option(1, least=1, most=MOST_PIECES, help="how many pieces; the next has the next seed")
    prompt: str | None = option(like="ID", help="a MIDI file to continue, which was uploaded to /api/prompts")
    endless: bool = option(False, help="writes on until you stop it; gives no length")
    until: int | None = option(
        least=1, help="waits after this many bars until you say a larger number; null writes without waiting"
    )
    name: str | None = option(like="TEXT", help="what the piece is called")


@dataclass(frozen=True)
class ForkKeys:
    """Keys of `POST /api/pieces/ID/forks` besides those of a request for music."""

    bar: int | None = option(least=1, help="how many bars the new takes share with the piece; all if not given")
    takes: int = option(1, least=1, most=MOST_PIECES, help="how many new takes")
    endless: bool = option(False, help="writes on until you stop it; gives no length")
    until: int | None = option(least=1, help="waits after this many bars until you say a larger number")


@dataclass(frozen=True)
class FillKeys:
    """Keys of `POST /api/pieces/ID/fills`."""

    first: int = option(1, least=1, help="the first bar that is written anew, counted from 1")
    last: int = option(1, least=1, help="the last bar that is written anew")
    takes: int = option(3, least=1, most=MOST_PIECES, help="how many new takes")


@dataclass(frozen=True)
class ChangeKeys:
    """Keys of `PATCH /api/pieces/ID` besides those of a request for music."""

    name: str | None = option(like="TEXT", help="what the piece is called")
    kept: bool | None = option(help="marks the piece as one to keep")
    until: int | None = option(least=1, help="how many bars may be written before the piece waits")


def music_keys() -> list[str]:
    """Names of the options of a request for music that the studio takes."""
    return [name for name in options(RequestOptions) if name not in ELSEWHERE]


def read_keys(kind: type[Any], values: Any) -> tuple[Any, dict[str, Any]]:
    """Own keys as a dataclass, and those of a request for music as they fit it.

    Raises:
        UserError: A key is not known, or a value does not fit its key or is beyond a limit.
    """
    if not isinstance(values, dict):
        raise UserError('the body: takes a JSON object, such as {"bars": 8}')
    own, music = list(options(kind)), music_keys()
    for key in values:
        if key not in own and key in ELSEWHERE:
            raise UserError(f"{key}: not here; POST /api/prompts uploads a file, and POST /api/pieces/ID/forks forks")
        if key not in own and key not in music:
            raise UserError(unknown_key(str(key)[:100], [*own, *music]))
    fitted = kind(**fit(kind, {key: value for key, value in values.items() if key in own}))
    asked = fit(RequestOptions, {key: value for key, value in values.items() if key in music})
    _check_limits(asked)
    if getattr(fitted, "name", None) is not None:
        clean_name(fitted.name)
    return fitted, {key: list(value) if isinstance(value, tuple) else value for key, value in asked.items()}


def _check_limits(asked: Mapping[str, Any]) -> None:
    for key, most in (("bars", MOST_BARS), ("seconds", MOST_SECONDS), ("tokens", MOST_TOKENS)):
        if (asked.get(key) or 0) > most:
            raise UserError(f"{key}={asked[key]:g}: takes at most {most:,} here; `musicgen generate` writes more")
    for key in ("seed", "draw"):
        if abs(asked.get(key) or 0) >= 1 << 63:
            raise UserError(f"{key}={asked[key]:.3g}: takes a whole number of at most 18 digits")


def clean_name(name: str) -> str:
    """A name that people can read.

    Raises:
        UserError: It is empty, too long, or not printable.
    """
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UserError(f"name: takes 1 to {LONGEST_NAME} printable characters")
    return name


def describe(kind: type[Any] = RequestOptions) -> list[dict[str, Any]]:
    """The options of a dataclass as plain data, for a form or an OpenAPI description."""
    hints, described = get_type_hints(kind), []
    for field in dataclasses.fields(kind):
        about = options(kind)[field.name]
        if kind is RequestOptions and field.name in ELSEWHERE:
            continue
        hint = hints[field.name]
        kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        described.append(
            {
                "key": field.name,
                "kind": _kind(kinds),
                "default": field.default,
                "like": about.like,
                "least": about.least,
                "most": about.most,
                "above": about.above,
                "choices": [name for kind in kinds if get_origin(kind) is Literal for name in get_args(kind)],
                "help": about.help,
            }
        )
    return described


def _kind(kinds: tuple[Any, ...]) -> Literal["boolean", "string", "integer", "number"]:
    if bool in kinds:
        return "boolean"
    if str in kinds or any(get_origin(kind) is Literal for kind in kinds):
        return "string"
    return "integer" if int in kinds else "number"
