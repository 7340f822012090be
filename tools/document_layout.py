"""Writes the table of folders and their imports into CONTRIBUTING.md, between the comments that name it.

python tools/document_layout.py

The imports come from `MAY_IMPORT` in tests/test_layout.py, the descriptions from the first line of each docstring.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
BLOCK = re.compile(r"(<!-- imports -->\n).*?(<!-- end -->)", re.DOTALL)


def may_import() -> dict[str, set[str]]:
    """Each folder or module at the top of the package, and what it may import."""
    spec = importlib.util.spec_from_file_location("layout", ROOT / "tests" / "test_layout.py")
    assert spec  # noqa: S101
    assert spec.loader  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, set[str]] = module.MAY_IMPORT
    return found


def describe(name: str) -> tuple[str, str]:
    """The path of a folder or module, and the first line of its docstring."""
    folder = ROOT / "musicgen" / name
    source = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text("utf-8"))) if source.exists() else None
    return str((folder if folder.is_dir() else source).relative_to(ROOT)), (docstring or "").partition("\n")[0]


def table() -> str:
    """One line per folder or module: those that import the least come first."""
    rules = may_import()
    lines = ["| folder or module | what it is for | may import |", "|---|---|---|"]
    for name in sorted(rules, key=lambda name: (len(rules[name]), name)):
        path, purpose = describe(name)
        allowed = ", ".join(f"`{other}`" for other in sorted(rules[name])) or "nothing of ours"
        lines.append(f"| `{path}` | {purpose} | {allowed} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the table as it is now."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{table()}\n\n{match[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
