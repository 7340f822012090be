from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "musicgen"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAY_IMPORT = {
    "__init__": {"sampling"},
    "errors": set[str](),
    "files": {"errors"},
    "guard": {"errors"},
    "runtime": {"guard"},
    "web": set[str](),
    "spe": set[str](),
    "attention": {"spe"},
    "model": {"spe", "attention", "errors", "files"},
    "midi": {"errors", "files", "guard"},
    "tokens": {"midi", "errors", "files"},
    "evaluation": {
        "sampling",
        "spe",
        "attention",
        "model",
        "midi",
        "tokens",
        "data",
        "errors",
        "files",
        "guard",
        "runtime",
        "web",
    },
    "data": {"midi", "tokens", "errors", "files", "guard"},
    "sampling": {"spe", "model", "midi", "tokens", "data", "errors", "files", "guard", "web"},
    "training": {"sampling", "spe", "model", "tokens", "data", "errors", "files", "runtime"},
    "cli": {
        "evaluation",
        "sampling",
        "training",
        "spe",
        "attention",
        "model",
        "midi",
        "tokens",
        "data",
        "errors",
        "files",
        "runtime",
        "web",
        "__init__",
    },
    "__main__": {"cli"},
}
"""Each folder or module at the top of the package, and what it may import beside itself."""


def room(module: str) -> str:
    """`musicgen.spe.code` to `spe`; the package itself is `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported(path: Path) -> Iterator[str]:
    """The rooms that a module imports from, wherever in it the import stands."""
    package = ["musicgen", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            inside = [alias.name for alias in node.names if alias.name in MAY_IMPORT]
            modules = [f"musicgen.{name}" for name in inside] if module == "musicgen" and inside else [module]
        else:
            continue
        yield from (room(module) for module in modules if module.split(".")[0] == "musicgen")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
class TestModule:
    def test_imports_go_one_way(self, path: Path) -> None:
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        assert own in MAY_IMPORT, f"say in {Path(__file__).name} what {own} may import"
        assert set(imported(path)) <= MAY_IMPORT[own] | {own}

    def test_a_module_says_what_it_is_for(self, path: Path) -> None:
        assert ast.get_docstring(ast.parse(path.read_text("utf-8")))

    def test_a_module_is_at_most_400_lines(self, path: Path) -> None:
        assert len(path.read_text("utf-8").splitlines()) <= 400
