"""`musicgen report`: everything that can be measured of some models, on one page.

The hard choice: a report is the commands that anybody could type, one after the other, each with a folder of its own in
the report's, and a page that puts together what they wrote. A part that is there already is taken as it is: a report
that was interrupted goes on, and a part made by hand with other settings has its place.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from musicgen.cli.compose import configure
from musicgen.cli.typed import build
from musicgen.errors import UserError
from musicgen.files import atomic_write, check_makeable, kind_of

if TYPE_CHECKING:
    from musicgen.evaluation.findings import Findings
    from musicgen.evaluation.models import Judged

ABOUT = """\
usage: musicgen report model=NAME|DIR[,...] data=PREPARED out=DIR [key=value ...]

Measures models, one or several to be compared, in every way that `musicgen evaluate` knows, lets them write pieces to
be compared with real music, and shows it all on one page, out/index.html, which needs no network. Each part is in a
folder of its own, with tables and pictures. Parts that are there already are taken as they are, so a report that was
stopped goes on; and a part can be made with other settings: musicgen evaluate nll ... out=REPORT/nll

keys:
  model=NAME|DIR,...   built-in models, or folders of bundles or of training runs
  data=DIR             corpus that `musicgen prepare` made, whose training songs the models were trained on
  out=DIR              folder for the report
  split=valid          held-out songs that models are judged on: valid or test
  sections=nll,music   only these parts; of nll, pe, attention, realizations, music, novelty, style, resources
  songs=N              at most so many held-out songs are scored
  pieces=16 bars=16    pieces that each model writes, and their length
  draws=3 seed=0       draws of noise to average over; seed of draws, choices and pieces
  overwrite=true       makes parts anew that are in the folder

example: musicgen report model=runs/small/ape,runs/small/sine data=data/pop_piano out=report
"""
PATHS = ("model", "data", "out", "sections")
PAGE, RECORD = "index.html", "report.json"
PIECES = "pieces"
CONTINUED = "continued"
CHECKED = ("model", "data", "split", "generated", "reference", "training")
"""Settings in which a part that is there has to be what is asked for; others may be other."""


@dataclass(frozen=True)
class ReportConfig:
    """What `conf/report.yaml` holds, key by key."""

    model: str | None
    data: Path | None
    out: Path | None
    split: Literal["valid", "test"]
    sections: str | None
    songs: int | None
    pieces: int
    bars: int
    draws: int
    seed: int
    overwrite: bool

    def __post_init__(self) -> None:
        for name in ("songs", "pieces", "bars", "draws"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: takes 1 or more")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: takes a number from 0 on")


@dataclass(frozen=True)
class Report:
    """What a report is made from.

    Attributes:
        config: What was asked for.
        models: Those to be judged.
        fingerprint: Of the corpus.
        out: The folder.
    """

    config: ReportConfig
    models: list[Judged]
    fingerprint: str
    out: Path

    @property
    def speaks_groove(self) -> bool:
        """Whether the models write grooves."""
        return self.models[0].language.name == "groove"

    def names(self) -> list[str]:
        """Of models, for folders."""
        return [model.name.replace("/", "_") for model in self.models]

    def paths(self) -> list[str]:
        """What the models were given as."""
        from musicgen.evaluation.models import split_names

        return split_names(self.config.model or "")

    def record(self) -> dict[str, Any]:
        """What all parts have to be of: the very weights and songs, and pieces of one kind."""
        config = self.config
        return {
            "models": {model.name: model.composer.sha256 for model in self.models},
            "corpus": self.fingerprint,
            **{name: getattr(config, name) for name in ("split", "pieces", "bars", "seed")},
        }

    def judged(self) -> list[str]:
        """What every kind that judges models is told."""
        return [f"model={self.config.model}", f"seed={self.config.seed}"]

    def on_songs(self) -> list[str]:
        """What every kind that scores songs is told."""
        config = self.config
        songs = [] if config.songs is None else [f"songs={config.songs}"]
        return [*self.judged(), f"data={config.data}", f"split={config.split}", f"draws={config.draws}", *songs]

    def pieces(self) -> str:
        """Folders of pieces, one for each model."""
        return ",".join(str(self.out / PIECES / name) for name in self.names())


def _realizations(report: Report) -> list[str]:
    noisy = [
        path for path, model in zip(report.paths(), report.models, strict=True) if model.model.config.is_stochastic
    ]
    if not noisy:
        raise UserError("only for models whose encoding is stochastic (sine, conv)")
    _, *rest = report.on_songs()
    return [f"model={','.join(noisy)}", *rest]


def _style(report: Report) -> list[str]:
    if not report.speaks_groove:
        raise UserError("only for models of grooves, which continue accompaniments in a style")
    first = report.out / CONTINUED / report.names()[0]
    generated = [report.out / CONTINUED / name / "continuations" for name in report.names()]
    return [
        f"reference={first / 'references'}",
        f"generated={','.join(map(str, generated))}",
        f"seed={report.config.seed}",
    ]


SECTIONS: dict[str, Callable[[Report], list[str]]] = {
    "nll": Report.on_songs,
    "pe": lambda report: [*report.judged(), f"draws={report.config.draws}"],
    "attention": Report.judged,
    "realizations": _realizations,
    "music": lambda report: [
        f"generated={report.pieces()}",
        f"reference={report.config.data}",
        f"split={report.config.split}",
        f"seed={report.config.seed}",
    ],
    "novelty": lambda report: [f"generated={report.pieces()}", f"training={report.config.data}"],
    "style": _style,
    "resources": lambda report: [f"model={report.config.model}"],
}
"""Parts in the order of the page, and what `musicgen evaluate PART` is told; `UserError` says why there can be none."""


def run(arguments: list[str]) -> int:
    """Make a report."""
    composed = configure("report", ABOUT, arguments, PATHS)
    if composed is not None:
        make(build(ReportConfig, composed))
    return 0


def make(config: ReportConfig) -> None:
    """Make the parts that are not there, and the page.

    Raises:
        UserError: Something that the caller can put right.
    """
    for name, example in (("model", "NAME or DIR"), ("data", "PREPARED"), ("out", "DIR")):
        if getattr(config, name) is None:
            raise UserError(f"{name} is missing: write {name}={example} (see `musicgen report --help`)")
    wanted = _wanted(config.sections)
    out = config.out
    assert out is not None and config.model is not None and config.data is not None  # noqa: S101, PT018  (seen above)
    _check_folder(out)
    from musicgen.data.open import open_corpus
    from musicgen.evaluation.models import load_models, one_language, strangers

    models, corpus = load_models(config.model), open_corpus(config.data)
    one_language(models, corpus)
    report = Report(config, models, corpus.fingerprint, out)
    reasons = {section: reason for section in wanted if (reason := _cannot(report, section))}
    possible = [section for section in wanted if section not in reasons]
    if not possible:
        raise UserError(f"no part of the report could be made: {next(iter(reasons.values()))}")
    missing = possible
    if not config.overwrite:
        _check_found(report, possible)
        missing = [section for section in possible if not _is_there(out / section)]
    out.mkdir(parents=True, exist_ok=True)
    atomic_write(out / RECORD, (json.dumps(report.record(), indent=1) + "\n").encode())
    if {"music", "novelty"} & set(missing):
        _write_pieces(report)
    if "style" in missing:
        _continue(report)
    parts = [_section(report, section) for section in possible]
    made = [part for part in parts if not isinstance(part, str)]
    notes = [*strangers(models, corpus), *reasons.values(), *(part for part in parts if isinstance(part, str))]
    _write_page(report, made, notes)
    print(*notes, f"{out / PAGE} shows it all", sep="\n")


def _cannot(report: Report, section: str) -> str:
    """Why the models can have no such part; nothing if they can."""
    try:
        SECTIONS[section](report)
    except UserError as error:
        return f"{section}: not in this report: {error}"
    return ""


def _wanted(sections: str | None) -> list[str]:
    asked = [name.strip() for name in (sections or ",".join(SECTIONS)).split(",") if name.strip()]
    if not asked:
        raise UserError(f"sections is empty: choose from {', '.join(SECTIONS)}")
    for name in asked:
        if name not in SECTIONS:
            raise UserError(f"sections={name}: there is no such part; choose from {', '.join(SECTIONS)}")
    return [name for name in SECTIONS if name in asked]


def _check_folder(out: Path) -> None:
    from musicgen.cli.generate import is_our_page

    kind = kind_of(out)
    if kind in ("file", "other"):
        raise UserError(f"out={out}: exists and is not a folder; choose another name")
    check_makeable(out, "out")
    if "," in str(out):
        raise UserError(f"out={out}: has a comma, which stands between folders; choose another name")
    found = {path.name for path in out.iterdir()} if kind == "folder" else set()
    is_foreign = PAGE in found and not is_our_page(out / PAGE)
    if found - {*SECTIONS, PAGE, RECORD, PIECES, CONTINUED} or is_foreign:
        raise UserError(f"out={out}: holds other things than a report; choose another folder")


def _is_there(folder: Path) -> bool:
    """Whether a part has been made; an empty folder is none."""
    return kind_of(folder) == "folder" and any(folder.iterdir())


def _check_found(report: Report, wanted: list[str]) -> None:
    """See that what is there is of the same models and songs.

    Raises:
        UserError: It is of others.
    """
    from musicgen.evaluation.findings_files import load_findings

    advice = "overwrite=true makes all anew"
    try:
        before = json.loads((report.out / RECORD).read_text("utf-8"))
    except FileNotFoundError:
        before = None  # there may be parts that were made by hand
    except (OSError, ValueError) as error:
        raise UserError(f"{report.out / RECORD}: cannot be read ({error}); {advice}") from None
    if before is not None:
        now = report.record()
        other = [name for name in now if not isinstance(before, dict) or before.get(name) != now[name]]
        if other:
            raise UserError(f"out={report.out}: is a report with another {' and '.join(other)}; {advice}")
    for section in wanted:
        folder = report.out / section
        if not _is_there(folder):
            continue
        found = load_findings(folder).settings
        for argument in SECTIONS[section](report):
            key, _, value = argument.partition("=")
            if key in CHECKED and str(found.get(key)) != value:
                raise UserError(f"{folder}: is there, and of {key}={found.get(key)}; {advice}")


def _section(report: Report, section: str) -> Findings | str:
    """One part: found, or made now; or why there is none."""
    from musicgen.cli.evaluate import run as evaluate
    from musicgen.evaluation.findings_files import load_findings

    folder = report.out / section
    try:
        if _is_there(folder) and not report.config.overwrite:
            print(f"{section}: taken from {folder}")
        else:
            arguments = [section, *SECTIONS[section](report), f"out={folder}", "overwrite=true"]
            print(f"\n{shlex.join(['musicgen', 'evaluate', *arguments])}\n", flush=True)
            evaluate(arguments)
        return load_findings(folder)
    except UserError as error:
        return f"{section}: not in this report: {error}"


def _write_pieces(report: Report) -> None:
    """Let each model write pieces, once for all parts that look at them."""
    from musicgen.cli.generate import run as generate

    config = report.config
    for name, given in zip(report.names(), report.paths(), strict=True):
        folder = report.out / PIECES / name
        if kind_of(folder) == "folder" and not config.overwrite:
            continue
        asked = [f"model={given}", f"n={config.pieces}", f"bars={config.bars}", f"seed={config.seed}"]
        generate([*asked, f"out={folder}", "overwrite=true"])


def _continue(report: Report) -> None:
    """Let each model continue the same grooves."""
    from musicgen.cli.continuation import run as continue_grooves

    config = report.config
    for name, given in zip(report.names(), report.paths(), strict=True):
        folder = report.out / CONTINUED / name
        if kind_of(folder) == "folder" and not config.overwrite:
            continue
        asked = [f"model={given}", f"data={config.data}", f"split={config.split}", f"styles={config.pieces}"]
        continue_grooves([*asked, f"seed={config.seed}", f"out={folder}", "overwrite=true", "picture=false"])


def _write_page(report: Report, made: list[Findings], notes: list[str]) -> None:
    from musicgen.evaluation.page import findings_page

    names = ", ".join(model.name for model in report.models)
    links = [
        (f"{place}/{name}/{PAGE}", f"{what} of {name}")
        for place, what in ((PIECES, "Pieces"), (CONTINUED, "Continuations"))
        for name in report.names()
        if (report.out / place / name / PAGE).is_file()
    ]
    page = findings_page(f"Report on {names}", made, notes, links)
    atomic_write(report.out / PAGE, page.encode("utf-8"))
