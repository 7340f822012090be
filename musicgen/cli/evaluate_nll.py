"""`musicgen evaluate nll`: the loss of models against position, to any length.

The hard choice: songs and draws of noise are those of validation in training, so that the loss at trained positions is
`val/loss` of the run, and all that is new lies beyond.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from musicgen.cli.evaluate import progress, run_kind

if TYPE_CHECKING:
    from musicgen.evaluation.findings import Findings

ABOUT = """\
usage: musicgen evaluate nll model=NAME|DIR[,...] data=DIR out=DIR [key=value ...]

Says how well models predict the next token of songs, against position, also far beyond the length that they were
trained on. Beside it stands what they make of the same tokens in a window that begins anew at a bar and is never longer
than a training window: where that is better, more context does harm. Models that differ by their seed alone are one
curve.

keys:
  model=NAME|DIR,...   bundles, runs or names of built-in models; runs/sine_s* stands for all that match
  data=DIR             corpus that `musicgen prepare` made
  split=valid          train, valid, test (of grooves also ival, itest), or all
  out=DIR              folder for nll.json, tables (CSV), figures and index.html
  length=1024          tokens of each song to predict, any number; 4 x the trained length if not given
  trained=256          tokens of a training window, if the bundles do not say
  songs=10             the first so many songs; all if not given
  draws=3 seed=0       draws of noise, averaged, and their seed: those of validation in a run with this seed
  bin=32               positions in a point of the curve; 32, or a sixteenth of a long trained length, if not given
  batch=16             songs read at once: more take more memory
  overwrite=true       replaces an evaluation that is in the folder

example: musicgen evaluate nll model=runs/ape,runs/sine data=corpus out=nll
"""
LITERAL = ("model", "data", "out")


@dataclass(frozen=True)
class NllConfig:
    """What `conf/evaluate_nll.yaml` holds, key by key."""

    model: str
    data: Path
    split: Literal["train", "valid", "test", "ival", "itest", "all"]
    out: Path
    overwrite: bool
    length: int | None
    trained: int | None
    songs: int | None
    draws: int
    seed: int
    bin: int | None
    batch: int

    def __post_init__(self) -> None:
        for name in ("length", "trained", "songs", "draws", "bin", "batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: takes a number from 1 on")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: takes a number from 0 on")


def run(arguments: list[str]) -> int:
    """Evaluate loss against position."""
    needed = {"model": "NAME or DIR", "data": "PREPARED"}
    return run_kind("nll", ABOUT, NllConfig, evaluate, arguments, LITERAL, needed)


def evaluate(config: NllConfig) -> Findings:
    """Read songs with models, and say what came of it.

    Raises:
        UserError: There is nothing to read, or no model that can read it.
    """
    from musicgen.data.open import open_corpus
    from musicgen.evaluation.likelihood import split_pieces
    from musicgen.evaluation.models import families, load_models, one_language, strangers, window_of
    from musicgen.evaluation.nll import Targets, follow
    from musicgen.evaluation.nll_findings import nll_findings
    from musicgen.training.schedule import validation_seed

    models = load_models(config.model)
    corpus = open_corpus(config.data)
    one_language(models, corpus)
    named = families(models)
    longest = max(window_of(members[0], config.trained) for members in named.values())
    pieces = split_pieces(corpus, config.split, config.songs)
    targets = Targets.of(pieces, config.length or 4 * longest, corpus.language, models[0].composer.dialect)
    seeds = [validation_seed(config.seed, number) for number in range(config.draws)]
    followed = follow(named, targets, config.trained, seeds, config.batch, progress)
    found = nll_findings(followed, targets, config.bin, config.seed, asdict(config))
    return replace(found, summary=[*found.summary, *strangers(models, corpus)])
