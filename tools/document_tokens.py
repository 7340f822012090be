"""Writes vocabularies and grammars of the token languages into docs/tokens.md, between the comments that name them.

python tools/document_tokens.py
"""

from __future__ import annotations

import re
from pathlib import Path

from musicgen.languages import Language
from musicgen.languages.registry import LANGUAGES

PAGE = Path(__file__).parents[1] / "docs" / "tokens.md"
BLOCK = re.compile(r"(<!-- ([\w-]+) (vocabulary|diagram|rules) -->\n).*?(<!-- end -->)", re.DOTALL)


def vocabulary(language: Language) -> str:
    """Families, how many tokens each has, and which."""
    words = language.vocabulary
    lines = ["| family | tokens | from | to | ids |", "|---|---|---|---|---|"]
    for family, ids in words.ids.items():
        names = f"`{words.names[ids.start]}` | `{words.names[ids.stop - 1]}`"
        lines.append(f"| {family} | {len(ids)} | {names} | {ids.start}–{ids.stop - 1} |")
    return "\n".join([*lines, f"| all | {len(words)} | | | |"])


def diagram(language: Language) -> str:
    """The grammar as a picture that code hosts draw."""
    return f"```mermaid\n{language.grammar.diagram()}\n```"


def rules(language: Language) -> str:
    """The grammar as a table: a line for each state."""
    lines = ["| after | may follow |", "|---|---|"]
    for state, choices in language.grammar.table.items():
        follow = [f"{family} ({condition})" if condition else family for family, condition in choices.items()]
        lines.append(f"| {state} | {'; '.join(follow) or 'nothing'} |")
    return "\n".join(lines)


BLOCKS = {"vocabulary": vocabulary, "diagram": diagram, "rules": rules}


def page(text: str) -> str:
    """The page with the blocks as they are now."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{BLOCKS[match[3]](LANGUAGES[match[2]])}\n\n{match[4]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
