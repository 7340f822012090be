"""Writes the tables of options into docs/commands.md, between the comments that name a command.

python tools/document_options.py

A comment names the command: `<!-- options evaluate nll -->`. The table comes from the dataclass of the command, which
also gives its config and its `--help`.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from musicgen.cli.arena import COMMANDS as ARENA
from musicgen.cli.config import ROOTS
from musicgen.cli.evaluate import KINDS, command
from musicgen.cli.main import VERBS
from musicgen.model import PerformerConfig
from musicgen.options import rows

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
TABLE = re.compile(r"(<!-- options ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def configs() -> dict[str, type[Any]]:
    """Every command and the dataclass of its options; and `model` for the keys of a model."""
    modules = {verb: module for verb, (_, module) in VERBS.items() if verb not in ("demo", "evaluate", *ROOTS)}
    commands = {name: importlib.import_module(module) for name, module in modules.items()}
    kinds = {name: getattr(module, "COMMAND", module.run).config for name, module in commands.items()}
    kinds |= {f"evaluate {kind}": command(kind).config for kind in KINDS}
    kinds |= {each.name: each.config for each in ARENA}
    return {**ROOTS, "model": PerformerConfig, **kinds}


def table(command: str) -> str:
    """The options of a command as Markdown."""
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for row in rows(configs()[command]):
        default = f"`{row.default}`" if row.default is not None else "needed" if row.needed else ""
        lines.append(f"| `{row.key}` | {default} | {row.help} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with every table as the code has it."""
    return TABLE.sub(lambda match: f"{match[1]}\n{table(match[2])}\n\n{match[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
