"""`musicgen report`: measures models in every way and shows the results on one page.

Design note: a report runs commands that anybody could type, each with its own folder inside the report's folder, and
puts their results on a page. Existing parts are used unchanged. So a report that was interrupted continues, and a
part that was made by hand with other settings is kept.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from musicgen.cli.command import Command
from musicgen.cli.continuation import run as continue_grooves
from musicgen.cli.evaluate import command
from musicgen.cli.evaluate import run as evaluate
from musicgen.cli.generate import run as generate
from musicgen.cli.setup import is_our_page, make_folder
from musicgen.errors import UserError
from musicgen.files import UNFINISHED, atomic_write, check_output, kind_of
from musicgen.inputs import is_document, parse_json, read_regular
from musicgen.options import aliases, option

if TYPE_CHECKING:
    from musicgen.evaluation.models import EvaluatedModel
    from musicgen.evaluation.report.findings import Findings

ABOUT = """\
usage: musicgen report model=NAME|DIR[,...] data=PREPARED out=DIR [key=value ...]

Measures one or several models in every way that `musicgen evaluate` knows, lets them write pieces that are compared
with real music, and shows everything on one page, out/index.html, which needs no network. Each part has its own
folder, with tables and pictures. Existing parts are used unchanged: a report that was stopped continues, and you can
make a part with other settings: musicgen evaluate nll ... out=REPORT/nll

{keys}

example: musicgen report model=runs/small/ape,runs/small/sine data=data/pop_piano out=report
"""
PAGE, RECORD = "index.html", "report.json"
PIECES = "pieces"
CONTINUED = "continued"
CHECKED = ("model", "data", "split", "generated", "reference")
"""Settings that an existing part must share with the report; others may differ."""


@dataclass(frozen=True)
class ReportConfig:
    """The options of `musicgen report`."""

    model: str | None = option(
        needed=True,
        like="NAME or DIR",
        help="models, with commas between them: built-in names, folders of bundles or of runs",
    )
    data: Path | None = option(
        needed=True, like="PREPARED", help="the corpus from `musicgen prepare` that the models were trained on"
    )
    out: Path | None = option(needed=True, like="DIR", help="folder for the report")
    split: Literal["valid", "test"] = option("valid", help="held-out songs that models are measured on")
    sections: str | None = option(
        like="NAMES",
        help="only these parts, with commas between them: nll, pe, attention, realizations, music, novelty, style, "
        "resources",
    )
    songs: int | None = option(least=1, help="only the first N held-out songs; all if not given")
    pieces: int = option(16, least=1, help="pieces that each model writes")
    bars: int = option(16, least=1, help="bars of each piece")
    draws: int = option(3, least=1, help="draws of noise over which losses are averaged")
    seed: int = option(0, least=0, help="seed of draws, choices and pieces")
    overwrite: bool = option(False, help="true makes existing parts again")


@dataclass(frozen=True)
class Report:
    """What a report is made from: options, models, the fingerprint of the corpus, and the folder."""

    config: ReportConfig
    models: list[EvaluatedModel]
    fingerprint: str
    out: Path

    def names(self) -> list[str]:
        """The names of the models, for folders."""
        return [model.name.replace("/", "_") for model in self.models]

    def paths(self) -> list[str]:
        """The models as the user wrote them."""
        from musicgen.evaluation.models import split_names

        return split_names(self.config.model or "")

    def record(self) -> dict[str, Any]:
        """What all parts must have in common: weights, songs, and how pieces are written."""
        config = self.config
        return {
            "models": {model.name: model.music_model.sha256 for model in self.models},
            "corpus": self.fingerprint,
            **{name: getattr(config, name) for name in ("split", "pieces", "bars", "seed")},
        }

    def model_keys(self) -> list[str]:
        """Arguments of every kind that measures models."""
        return [f"model={self.config.model}", f"seed={self.config.seed}"]

    def on_songs(self) -> list[str]:
        """Arguments of every kind that predicts songs."""
        config = self.config
        songs = [] if config.songs is None else [f"songs={config.songs}"]
        return [*self.model_keys(), f"data={config.data}", f"split={config.split}", f"draws={config.draws}", *songs]

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
    if not report.models[0].language.has_styles:
        raise UserError("only for models of music that has styles, such as grooves")
    first = report.out / CONTINUED / report.names()[0]
    generated = [report.out / CONTINUED / name / "continuations" for name in report.names()]
    return [
        f"reference={first / 'references'}",
        f"generated={','.join(map(str, generated))}",
        f"seed={report.config.seed}",
    ]


SECTIONS: dict[str, Callable[[Report], list[str]]] = {
    "nll": Report.on_songs,
    "pe": lambda report: [*report.model_keys(), f"draws={report.config.draws}"],
    "attention": Report.model_keys,
    "realizations": _realizations,
    "music": lambda report: [
        f"generated={report.pieces()}",
        f"reference={report.config.data}",
        f"split={report.config.split}",
        f"seed={report.config.seed}",
    ],
    "novelty": lambda report: [f"generated={report.pieces()}", f"data={report.config.data}"],
    "style": _style,
    "resources": lambda report: [f"model={report.config.model}"],
}
"""Parts in the order of the page, and the arguments of `musicgen evaluate PART`; raises if a part is not possible."""


def make(config: ReportConfig) -> None:
    """Make the parts that do not exist, and the page."""
    wanted = _wanted(config.sections)
    out = config.out or Path()
    if "," in str(out):
        raise UserError(f"out={out}: has a comma, which stands between folders; choose another name")
    check_output(out, "a report", _foreign, may_replace=True)
    from musicgen.data.corpus import Corpus
    from musicgen.evaluation.models import load_models, one_language, strangers

    models, corpus = load_models(config.model or ""), Corpus.open(config.data or "")
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
    make_folder(out)
    atomic_write(out / RECORD, (json.dumps(report.record(), indent=1) + "\n").encode())
    if {"music", "novelty"} & set(missing):
        _write_music(report, PIECES, generate, f"n={config.pieces}", f"bars={config.bars}")
    if "style" in missing:
        keys = f"data={config.data}", f"split={config.split}", f"styles={config.pieces}", "picture=false"
        _write_music(report, CONTINUED, continue_grooves, *keys)
    parts = [_section(report, section) for section in possible]
    made = [part for part in parts if not isinstance(part, str)]
    notes = [*strangers(models, corpus), *reasons.values(), *(part for part in parts if isinstance(part, str))]
    _write_page(report, made, notes)
    print(*notes, f"{out / PAGE} shows it all", sep="\n")


def _cannot(report: Report, section: str) -> str:
    """Why a part is not possible with these models; empty if it is possible."""
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


def _foreign(out: Path) -> set[str]:
    """Names in a folder that are not part of a report."""
    from musicgen.evaluation.report.files import foreign_to_findings

    def is_ours(path: Path) -> bool:
        if path.name in (PIECES, CONTINUED):  # the commands that write there look for themselves
            return path.is_dir()
        if path.name in SECTIONS:
            return path.is_dir() and not foreign_to_findings(path)
        if path.name == RECORD:
            return is_document(path, {"models": dict, "corpus": str})
        return is_our_page(path) or UNFINISHED.fullmatch(path.name) is not None

    return {path.name for path in out.iterdir() if not is_ours(path)}


def _is_there(folder: Path) -> bool:
    """Whether a part has been made; an empty folder does not count."""
    return kind_of(folder) == "folder" and any(folder.iterdir())


def _check_found(report: Report, wanted: list[str]) -> None:
    """Check that existing parts have the same models and songs."""
    from musicgen.evaluation.report.files import load_findings

    advice = "overwrite=true makes all anew"
    try:
        before = parse_json(read_regular(report.out / RECORD))
    except FileNotFoundError:
        before = None  # all parts may have been made by hand
    except (OSError, ValueError) as error:
        raise UserError(f"{report.out / RECORD}: cannot be read ({error}); {advice}") from None
    if before is not None:
        now = report.record()
        other = [name for name in now if before.get(name) != now[name]]
        if other:
            raise UserError(f"out={report.out}: is a report with another {' and '.join(other)}; {advice}")
    for section in wanted:
        folder = report.out / section
        if not _is_there(folder):
            continue
        names = aliases(command(section).config)
        found = {names.get(key, key): value for key, value in load_findings(folder).settings.items()}
        for argument in SECTIONS[section](report):
            key, _, value = argument.partition("=")
            if key in CHECKED and str(found.get(key)) != value:
                raise UserError(f"{folder}: exists and was made with {key}={found.get(key)}; {advice}")


def _section(report: Report, section: str) -> Findings | str:
    """One part, from its folder or made now; or why there is none."""
    from musicgen.evaluation.report.files import load_findings

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


def _write_music(report: Report, place: str, write: Callable[[list[str]], int], *keys: str) -> None:
    """Let each model write music, once for all parts that look at it."""
    for name, given in zip(report.names(), report.paths(), strict=True):
        folder = report.out / place / name
        if report.config.overwrite or kind_of(folder) != "folder":
            write([f"model={given}", *keys, f"seed={report.config.seed}", f"out={folder}", "overwrite=true"])


def _write_page(report: Report, made: list[Findings], notes: list[str]) -> None:
    from musicgen.evaluation.report.page import findings_page

    names = ", ".join(model.name for model in report.models)
    links = [
        (f"{place}/{name}/{PAGE}", f"{what} of {name}")
        for place, what in ((PIECES, "Pieces"), (CONTINUED, "Continuations"))
        for name in report.names()
        if (report.out / place / name / PAGE).is_file()
    ]
    page = findings_page(f"Report on {names}", made, notes, links, _first_pieces(report))
    atomic_write(report.out / PAGE, page.encode("utf-8"))


def _first_pieces(report: Report) -> list[tuple[str, str]]:
    """One piece of each model to hear: its title, and its music as JSON."""
    from musicgen.midi.read import read_midi
    from musicgen.sampling.bar_data import score_json

    places = ((f"{PIECES}/{{}}", "A piece"), (f"{CONTINUED}/{{}}/{PIECES}", "A continuation"))
    found = [
        (f"{what} by {name}", score_json(read_midi(path)))
        for name in report.names()
        for place, what in places
        for path in sorted((report.out / place.format(name)).rglob("*.mid"))[:1]
    ]
    return [(title, music) for title, music in found if music]


run = Command("report", ABOUT, ReportConfig, make)
