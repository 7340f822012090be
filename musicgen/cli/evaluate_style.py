"""`musicgen evaluate style`: how much continuations are in the style of their references.

The hard choice: a file that cannot be used is a line of the report and no error, because folders of music have such
files; but a report in which nothing is compared is an error and is not written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from musicgen.cli.evaluate import progress, run_kind, several

if TYPE_CHECKING:
    from musicgen.evaluation.findings import Findings

ABOUT = """\
usage: musicgen evaluate style reference=FILE|DIR generated=FILE|DIR[,...] out=DIR [key=value ...]

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
  generated=FILE|DIR   continuations; several, with commas between them, are compared (one for each model)
  out=DIR              folder for the page (index.html), tables (CSV, JSON) and the picture (PNG, SVG)
  published=true       counts as the paper's published code does, mistakes included, to compare with its figures
                       (but not the rounding of its bins: docs/evaluation.md)
  seed=0               of the choice of other styles, and of the intervals
  overwrite=true       replaces an evaluation that is in the folder

example: musicgen evaluate style reference=test_pieces generated=continued out=style
"""
PATHS = ("reference", "generated", "out")


@dataclass(frozen=True)
class StyleConfig:
    """What `conf/evaluate_style.yaml` holds, key by key."""

    reference: Path
    generated: str
    out: Path
    published: bool
    seed: int
    overwrite: bool

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: takes a number from 0 on")


def run(arguments: list[str]) -> int:
    """Evaluate style."""
    needed = {"reference": "FILE or DIR", "generated": "FILE or DIR"}
    return run_kind("style", ABOUT, StyleConfig, evaluate, arguments, PATHS, needed)


def evaluate(config: StyleConfig) -> Findings:
    """Compare each set of continuations with the references.

    Raises:
        UserError: There is nothing to compare.
    """
    from musicgen.evaluation.style_files import compare, match
    from musicgen.evaluation.style_report import findings

    reference = config.reference
    results = {}
    for name, path in several(config.generated, "generated").items():
        matches = match(reference, path)
        files = len(matches.groups) + sum(map(len, matches.groups.values()))
        workers = min(os.cpu_count() or 1, files)
        results[name] = compare(matches, config.published, config.seed, workers, partial(progress, unit="file"))
    return findings(results, vars(config), config.seed)
