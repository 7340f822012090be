"""`musicgen evaluate`: measures of models and of music that was made, each a kind of its own.

The hard choice: kinds are to `evaluate` what verbs are to `musicgen`. Each has its module, its config file
(`conf/evaluate_KIND.yaml`) and its help, and a new one is a line in a table. What comes of them is written and printed
in one way, here.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from musicgen.cli.typed import build
from musicgen.errors import UserError
from musicgen.files import check_makeable, kind_of, tell_apart

if TYPE_CHECKING:
    from musicgen.evaluation.findings import Findings

T = TypeVar("T")

KINDS = {
    "nll": ("loss against position, to any length, beside a restarted window", "musicgen.cli.evaluate_nll"),
    "pe": ("what a positional encoding does: translation invariance, monotonicity", "musicgen.cli.evaluate_pe"),
    "attention": ("learned kernels, attention maps and gates, to look at", "musicgen.cli.evaluate_attention"),
    "realizations": ("loss against the number of noise realisations", "musicgen.cli.evaluate_realizations"),
    "music": ("statistics of generated music beside those of real music", "musicgen.cli.evaluate_music"),
    "novelty": ("the longest passages that a corpus has too", "musicgen.cli.evaluate_novelty"),
    "resources": ("size, speed and memory of models on this machine", "musicgen.cli.evaluate_resources"),
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


def run_kind(
    kind: str,
    about: str,
    config: type[T],
    evaluate: Callable[[T], Findings],
    arguments: list[str],
    texts: Collection[str],
    needed: Mapping[str, str],
) -> int:
    """What every kind does when it is called: configure, see that all is there, evaluate, write and print.

    Args:
        kind: The kind.
        about: Its help.
        config: What its config file becomes; it has `out` and `overwrite`.
        evaluate: Measures.
        arguments: What was given after the kind.
        texts: Keys whose values may hold any character.
        needed: Keys that have to be given, beside `out`, with an example of each.
    """
    composed = configure_kind(kind, about, arguments, texts)
    if composed is not None:
        for name, example in {**needed, "out": "DIR"}.items():
            if composed[name] is None:
                raise UserError(f"{name} is missing: write {name}={example} (see `musicgen evaluate {kind} --help`)")
        asked: Any = build(config, composed)
        check_out(asked.out, asked.overwrite)
        publish(evaluate(asked), asked.out)
    return 0


def several(given: str, key: str, taken: str = "") -> dict[str, Path]:
    """Paths with commas between them, by names that tell them apart; a path that is there is one, commas or not.

    Args:
        given: The paths.
        key: By which they were given.
        taken: A name that something else has already.

    Raises:
        UserError: A path is named twice, or none is.
    """
    whole = Path(given).expanduser()
    paths = [given] if kind_of(whole) else [part.strip() for part in given.split(",") if part.strip()]
    if not paths:
        raise UserError(f"{key} is empty: write {key}=DIR or {key}=DIR,DIR")
    names = [f"{name} ({key})" if name == taken else name for name in tell_apart(paths, key)]
    return dict(zip(names, (Path(path).expanduser() for path in paths), strict=True))


def check_out(given: Path, overwrite: bool) -> None:
    """See that nothing is at the output but, if it may be overwritten, an evaluation and nothing else.

    Raises:
        UserError: There is.
    """
    from musicgen.evaluation.findings_files import describe

    kind = kind_of(given)
    if kind in ("file", "other"):
        raise UserError(f"out={given}: exists and is not a folder; choose another name")
    check_makeable(given, "out")
    found = {path.name for path in given.iterdir()} if kind == "folder" else set()
    if not found:
        return
    content = describe(given)
    if content is None or found - set(content["files"]):
        raise UserError(f"out={given}: holds other things than an evaluation; choose another folder")
    if not overwrite:
        raise UserError(f"out={given}: holds an evaluation already; overwrite=true makes it anew")


def publish(findings: Findings, given: Path) -> None:
    """Write what was found to a folder that `check_out` has seen, and print it."""
    from musicgen.evaluation.findings import terminal
    from musicgen.evaluation.findings_files import PAGE, save_findings

    # Where it goes is no part of what was found: the same command gives the same bytes elsewhere.
    kept = {key: value for key, value in findings.settings.items() if key not in ("out", "overwrite")}
    save_findings(replace(findings, settings=kept), given)
    # A name that is no text can be written to a disk but not to every terminal.
    print(f"{terminal(findings)}\n\n{given / PAGE} shows it".encode("utf-8", "replace").decode())


def progress(items: Iterable[T], total: int, unit: str) -> Iterable[T]:
    """The same items, with a bar on a terminal; none where nobody watches."""
    from tqdm import tqdm

    bar: Iterable[T] = tqdm(items, total=total, unit=unit, disable=None)
    return bar


def _help() -> str:
    width = max(map(len, KINDS))
    return "\n".join(
        [
            "usage: musicgen evaluate KIND [key=value ...]",
            "",
            "Measures models and music that was made, and writes tables, figures and a page.",
            "",
            "kinds:",
            *(f"  {kind:{width}}  {summary}" for kind, (summary, _) in KINDS.items()),
            "",
            "`musicgen evaluate KIND --help` explains a kind.",
        ]
    )
