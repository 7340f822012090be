"""`musicgen evaluate style`: how much continuations are in the style of their references.

The hard choice: a file that cannot be used is a line of the report and no error, because folders of music have such
files; but a report in which nothing is compared is an error and is not written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from musicgen.cli.evaluate import configure_kind
from musicgen.cli.typed import build
from musicgen.errors import UserError
from musicgen.files import atomic_folder, kind_of

ABOUT = """\
usage: musicgen evaluate style reference=FILE|DIR generated=FILE|DIR out=DIR [key=value ...]

Says how much generated music is in the style of the references that it continues: cosine similarities, from 0 to 1, of
what notes follow which (time-pitch), where in the bar they begin and how long they last (onset-duration), and where
drums are hit (onset-drum), for each quarter of the continuations. Two yardsticks come with them: the ceiling is the
similarity of a reference's own halves, the floor that to a reference in another style.

X.mid among the references is continued by X.mid, X.cont_0.mid, X_piece_0.mid, X/piece_0.mid ... among the generated;
several continuations are counted together. What comes before the marker "Continuation" in a generated file, which
`musicgen generate` writes at the end of a prompt, does not count. A track is the bass, the drums or another instrument
if the track of that name and program is so in the reference. Music is taken to be in 4/4; a file that is not is named.

keys:
  reference=FILE|DIR   music in the style; one file is the reference of all that was generated
  generated=FILE|DIR   continuations
  out=DIR              folder for style.csv, style.json, style.png and style.svg
  published=true       counts as the paper's published code does, mistakes included, to compare with its figures
                       (but not the rounding of its bins: docs/evaluation.md)
  seed=0               of the choice of other styles, and of the intervals
  overwrite=true       replaces an evaluation that is in the folder

example: musicgen evaluate style reference=test_pieces generated=continued out=style
"""
PATHS = ("reference", "generated", "out")
MADE = ("style.csv", "style.json", "style.png", "style.svg")


@dataclass(frozen=True)
class StyleConfig:
    """What `conf/evaluate_style.yaml` holds, key by key."""

    reference: Path | None
    generated: Path | None
    out: Path | None
    published: bool
    seed: int
    overwrite: bool

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: takes a number from 0 on")


def run(arguments: list[str]) -> int:
    """Evaluate style."""
    composed = configure_kind("style", ABOUT, arguments, PATHS)
    if composed is not None:
        evaluate(build(StyleConfig, composed))
    return 0


def evaluate(config: StyleConfig) -> None:
    """Compare, write what came of it, and print it.

    Raises:
        UserError: There is nothing to compare, or no place for the result.
    """
    from musicgen.evaluation.style_files import compare, match
    from musicgen.evaluation.style_picture import draw_styles
    from musicgen.evaluation.style_report import csv_bytes, json_bytes, summaries, table

    reference, generated, given = (_required(config, name) for name in PATHS)
    out = given.resolve()  # what comes to be there is another folder, even if we are in it
    _check_out(given, out, config.overwrite)
    matches = match(reference, generated)
    files = len(matches.groups) + sum(map(len, matches.groups.values()))
    workers = min(os.cpu_count() or 1, files)
    result = compare(matches, config.published, config.seed, workers, _progress)
    made = summaries(result, config.seed)
    about = {"metric": "style", "published": config.published, "seed": config.seed}
    pictures = draw_styles(result, made)
    contents = (csv_bytes(result), json_bytes(result, made, about), pictures["png"], pictures["svg"])
    with atomic_folder(out) as folder:
        for name, data in zip(MADE, contents, strict=True):
            (folder / name).write_bytes(data)
    # A name that is no text can be written to a disk but not to every terminal.
    print(f"{table(result, made)}\n\n{given / 'style.png'} shows it".encode("utf-8", "replace").decode())


def _required(config: StyleConfig, name: str) -> Path:
    value: Path | None = getattr(config, name)
    if value is None:
        kind = "DIR" if name == "out" else "FILE or DIR"
        raise UserError(f"{name} is missing: write {name}={kind} (see `musicgen evaluate style --help`)")
    return value


def _check_out(given: Path, out: Path, overwrite: bool) -> None:
    """See that nothing is at the output but, if it may be overwritten, an evaluation and nothing else."""
    kind = kind_of(out)
    if kind in ("file", "other"):
        raise UserError(f"out={given}: exists and is not a folder; choose another name")
    found = {path.name for path in out.iterdir()} if kind == "folder" else set()
    if found - set(MADE):
        raise UserError(f"out={given}: holds other things than an evaluation of style; choose another folder")
    if found and not overwrite:
        raise UserError(f"out={given}: holds an evaluation already; overwrite=true makes it anew")


def _progress(items: Iterable[Any], total: int) -> Iterable[Any]:
    from tqdm import tqdm

    bar: Iterable[Any] = tqdm(items, total=total, unit="file", disable=None)  # none where nobody watches
    return bar
