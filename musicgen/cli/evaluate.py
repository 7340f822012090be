"""`musicgen evaluate`: measures models and generated music. Each kind of evaluation is a separate command.

A new kind is a function and a line in a table. All of them write and print their results in one way, here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from musicgen.cli.command import Command
from musicgen.cli.main import check_choice, summaries
from musicgen.errors import UserError
from musicgen.files import check_output, kind_of, tell_apart
from musicgen.languages.song import RENAMED_SPLITS
from musicgen.options import option, plain

if TYPE_CHECKING:
    from musicgen.evaluation.report.findings import Findings

T = TypeVar("T", bound="Evaluation")

MODELS, PIECES = "musicgen.cli.evaluate_models", "musicgen.cli.evaluate_pieces"
KINDS = {
    "nll": ("loss at each position, at any length, compared with a restarted window", MODELS),
    "pe": ("what a positional encoding does: translation invariance and monotonicity", MODELS),
    "attention": ("pictures of learned kernels, attention maps and gates", MODELS),
    "realizations": ("loss for each number of noise realisations", MODELS),
    "music": ("statistics of generated music, compared with real music", PIECES),
    "novelty": ("the longest passages that generated music shares with a corpus", PIECES),
    "resources": ("size, speed and memory of models on this machine", MODELS),
    "infill": ("how well models fill bars, given what comes before and after them", MODELS),
    "style": ("how similar continuations are to the style of their references", PIECES),
}
"""Kind to its summary and the module with the command of that name."""


def run(arguments: list[str]) -> int:
    """Run a kind of evaluation."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    name, *rest = arguments
    check_choice(name, KINDS, "evaluate has no kind")
    return command(name)(rest)


def command(kind: str) -> Command[Any]:
    """The command of a kind."""
    found: Command[Any] = getattr(importlib.import_module(KINDS[kind][1]), kind)
    return found


@dataclass(frozen=True)
class Evaluation:
    """The options of every kind."""

    out: Path | None = option(
        needed=True, like="DIR", help="folder for tables (CSV, JSON), figures (PNG, SVG) and the page index.html"
    )
    overwrite: bool = option(False, help="true replaces an evaluation that is in the folder")


@dataclass(frozen=True)
class Models:
    """Models that are measured."""

    model: str | None = option(
        needed=True,
        like="NAME or DIR",
        help="models, with commas between them: built-in names, folders of bundles or of runs; runs/sine_s* means all "
        "that match",
    )


@dataclass(frozen=True)
class Songs(Models):
    """Songs of a corpus that models predict."""

    data: Path | None = option(needed=True, like="DIR", help="a corpus from `musicgen prepare`")
    split: Literal["train", "valid", "test", "seen_style_valid", "seen_style_test", "all"] = option(
        "valid", renamed=RENAMED_SPLITS, help="which songs of the corpus; only grooves have the seen_style splits"
    )
    songs: int | None = option(least=1, help="only the first N songs; all if not given")
    draws: int = option(3, least=1, help="draws of noise over which losses are averaged")
    seed: int = option(0, least=0, help="seed of the draws; a training run with this seed validates with the same")
    batch: int = option(16, least=1, help="songs that are read at the same time; more take more memory")


def kind(about: str, config: type[T]) -> Callable[[Callable[[T], Findings]], Command[T]]:
    """Make a function a command of its name, with its help: it checks the folder, evaluates, writes and prints."""

    def make(evaluate: Callable[[T], Findings]) -> Command[T]:
        def work(asked: T) -> None:
            from musicgen.evaluation.report.files import foreign_to_findings

            out = Path(asked.out or "")
            check_output(out, "an evaluation", foreign_to_findings, may_replace=asked.overwrite, as_one=True)
            # The same command gives the same bytes in another folder.
            settings = {key: value for key, value in plain(asked).items() if key not in ("out", "overwrite")}
            _publish(replace(evaluate(asked), settings=settings), out, asked.overwrite)

        return Command(f"evaluate {evaluate.__name__}", about, config, work)

    return make


def parse_paths(given: str, key: str, taken: str = "") -> dict[str, Path]:
    """Paths with commas between them, by names that tell them apart. A path that exists may have commas in it.

    `key` is the option that names them, and `taken` a name that is already in use.
    """
    whole = Path(given).expanduser()
    paths = [given] if kind_of(whole) else [part.strip() for part in given.split(",") if part.strip()]
    if not paths:
        raise UserError(f"{key} is empty: write {key}=DIR or {key}=DIR,DIR")
    names = [f"{name} ({key})" if name == taken else name for name in tell_apart(paths, key)]
    return dict(zip(names, (Path(path).expanduser() for path in paths), strict=True))


def _publish(findings: Findings, out: Path, overwrite: bool) -> None:
    """Write what was found to a folder that has been checked, and print it."""
    from musicgen.evaluation.report.files import PAGE, save_findings
    from musicgen.evaluation.report.findings import terminal

    save_findings(findings, out, overwrite)
    # A file name need not be valid text, and not every terminal can print such a name.
    print(f"{terminal(findings)}\n\n{out / PAGE} shows it".encode("utf-8", "replace").decode())


def _help() -> str:
    return "\n".join(
        [
            "usage: musicgen evaluate KIND [key=value ...]",
            "",
            "Measures models and generated music, and writes tables, figures and a page.",
            "",
            "kinds:",
            *summaries(KINDS),
            "",
            "`musicgen evaluate KIND --help` explains a kind.",
        ]
    )
