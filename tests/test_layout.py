from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "musicgen"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAY_IMPORT = {
    "__init__": {"model", "sampling"},
    "errors": set[str](),
    "inputs": {"errors"},
    "files": {"errors", "inputs"},
    "subprocess_call": {"errors"},
    "runtime": {"subprocess_call"},
    "options": {"errors"},
    "request": {"options"},
    "web": set[str](),
    "figures": set[str](),
    "spe": set[str](),
    "attention": {"spe"},
    "model": {"spe", "attention", "errors", "files", "inputs", "options"},
    "midi": {"errors", "files", "inputs", "subprocess_call"},
    "languages": {"options", "request", "midi", "errors", "files", "inputs", "subprocess_call"},
    "evaluation": {
        "options",
        "sampling",
        "spe",
        "attention",
        "model",
        "midi",
        "languages",
        "data",
        "errors",
        "files",
        "inputs",
        "subprocess_call",
        "runtime",
        "web",
        "figures",
    },
    "data": {"figures", "midi", "languages", "errors", "files", "inputs", "request", "subprocess_call"},
    "sampling": {
        "options",
        "request",
        "spe",
        "model",
        "midi",
        "languages",
        "data",
        "errors",
        "files",
        "inputs",
        "subprocess_call",
        "web",
    },
    "training": {"options", "sampling", "spe", "model", "languages", "data", "errors", "files", "inputs", "runtime"},
    "arena": {"training", "options", "attention", "model", "spe", "errors", "files", "inputs"},
    "studio": {"options", "request", "sampling", "model", "midi", "languages", "errors", "files", "inputs", "__init__"},
    "cli": {
        "arena",
        "options",
        "studio",
        "request",
        "demo",
        "evaluation",
        "sampling",
        "training",
        "spe",
        "attention",
        "model",
        "midi",
        "languages",
        "data",
        "errors",
        "files",
        "inputs",
        "runtime",
        "web",
        "__init__",
    },
    "demo": {"model", "spe", "files"},
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


def imported_modules(path: Path) -> Iterator[str]:
    """The modules of ours that a module needs to be imported: those at its top, whatever its type hints name."""
    known = {str(module.relative_to(PACKAGE.parent).with_suffix("")).replace("/", ".") for module in MODULES}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("musicgen"):
            yield from (name for name in (f"{node.module}.{alias.name}" for alias in node.names) if name in known)
            yield str(node.module) if str(node.module) in known else f"{node.module}.__init__"


def test_no_module_needs_itself() -> None:
    needs = {
        str(path.relative_to(PACKAGE.parent).with_suffix("")).replace("/", "."): set(imported_modules(path))
        for path in MODULES
    }
    while free := [name for name, others in needs.items() if not others & needs.keys()]:
        for name in free:
            del needs[name]
    assert not needs, "these modules need one another"


def test_files_of_tests_have_different_names() -> None:
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names)), "pytest imports each by its name"
