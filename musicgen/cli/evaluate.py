"""`musicgen evaluate`: measures of music that was made, each a kind of its own.

The hard choice: kinds are to `evaluate` what verbs are to `musicgen`. Each has its module, its config file
(`conf/evaluate_KIND.yaml`) and its help, and a new one is a line in a table.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Collection
from typing import Any

from musicgen.errors import UserError

KINDS = {
    "style": ("how much continuations are in the style of their references", "musicgen.cli.evaluate_style"),
}
"""Kind to what it measures and the module whose `run(arguments)` does it and returns the exit status."""


def run(arguments: list[str]) -> int:
    """Evaluate."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    kind, *rest = arguments
    if kind not in KINDS:
        close = difflib.get_close_matches(kind, KINDS, 1)
        advice = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(KINDS)}"
        raise UserError(f"evaluate has no kind {kind!r}: {advice}")
    status: int = importlib.import_module(KINDS[kind][1]).run(rest)
    return status


def configure_kind(kind: str, about: str, arguments: list[str], paths: Collection[str] = ()) -> dict[str, Any] | None:
    """The config of a kind, as `configure` gives that of a verb, with sentences that name it as people write it."""
    from musicgen.cli.compose import configure

    if "--help" in arguments or "-h" in arguments:
        print(about.strip(), f"`musicgen evaluate {kind} --cfg` prints every key and its value.", sep="\n\n")
        return None
    try:
        return configure(f"evaluate_{kind}", about, arguments, paths)
    except UserError as error:
        raise UserError(str(error).replace(f"musicgen evaluate_{kind}", f"musicgen evaluate {kind}")) from None


def _help() -> str:
    width = max(map(len, KINDS))
    return "\n".join(
        [
            "usage: musicgen evaluate KIND [key=value ...]",
            "",
            "Measures music that was made.",
            "",
            "kinds:",
            *(f"  {kind:{width}}  {summary}" for kind, (summary, _) in KINDS.items()),
            "",
            "`musicgen evaluate KIND --help` explains a kind.",
        ]
    )
