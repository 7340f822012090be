"""`musicgen evaluate realizations`: the loss of models against R, the number of noise realisations.

The hard choice: R of a model's own training is always among those tried, because the others are compared with it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from musicgen.cli.evaluate import progress, run_kind
from musicgen.cli.numbers import whole_numbers
from musicgen.errors import UserError

if TYPE_CHECKING:
    from musicgen.evaluation.findings import Findings

ABOUT = """\
usage: musicgen evaluate realizations model=DIR[,DIR...] data=DIR out=DIR [key=value ...]

Says how well models with stochastic positional encoding (pe=sine or pe=conv) predict songs if they are used with more
or fewer noise realisations than they were trained with. No parameter depends on their number R: more of them cost time
and memory, and bring the encoding nearer to what it is in expectation. Several models, trained with different R, give
the paper's map; models that differ by their seed alone are averaged.

keys:
  model=DIR,DIR        bundles or runs
  data=DIR             corpus that `musicgen prepare` made
  split=valid          train, valid, test (of grooves also ival, itest), or all
  realizations=4,8,16,32,64,128
                       R to try; that of each model's training joins them
  out=DIR              folder for realizations.json, loss.csv, the figure and index.html
  length=256           tokens of each song to predict; the trained length if not given
  songs=10             the first so many songs; all if not given
  draws=3 seed=0       draws of noise, averaged, and their seed: those of validation in a run with this seed
  batch=16             songs read at once: more take more memory
  overwrite=true       replaces an evaluation that is in the folder

example: musicgen evaluate realizations model=runs/r16,runs/r64 data=corpus out=realizations
"""
LITERAL = ("model", "data", "out", "realizations")
MOST = 4096  # of realisations: codes of more would not fit many machines


@dataclass(frozen=True)
class RealizationsConfig:
    """What `conf/evaluate_realizations.yaml` holds, key by key."""

    model: str
    data: Path
    split: Literal["train", "valid", "test", "ival", "itest", "all"]
    out: Path
    overwrite: bool
    realizations: str | None
    length: int | None
    songs: int | None
    draws: int
    seed: int
    batch: int

    def __post_init__(self) -> None:
        for name in ("length", "songs", "draws", "batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: takes a number from 1 on")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: takes a number from 0 on")
        if max(self.numbers()) > MOST:
            raise ValueError(f"realizations={self.realizations}: takes numbers up to {MOST:,}")

    def numbers(self) -> list[int]:
        """R to try."""
        numbers = whole_numbers("realizations", self.realizations)
        if numbers is None:
            raise UserError("realizations is missing: write realizations=16,64")
        return numbers


def run(arguments: list[str]) -> int:
    """Evaluate loss against R."""
    needed = {"model": "NAME or DIR", "data": "PREPARED"}
    return run_kind("realizations", ABOUT, RealizationsConfig, evaluate, arguments, LITERAL, needed)


def evaluate(config: RealizationsConfig) -> Findings:
    """Read songs with models, and say what came of it.

    Raises:
        UserError: There is nothing to read, or no model that can read it.
    """
    from musicgen.data.open import open_corpus
    from musicgen.evaluation.likelihood import split_pieces
    from musicgen.evaluation.models import families, load_models, one_language
    from musicgen.evaluation.realizations import realizations_findings, try_realizations
    from musicgen.training.schedule import validation_seed

    models = load_models(config.model)
    corpus = open_corpus(config.data)
    one_language(models, corpus)
    pieces = split_pieces(corpus, config.split, config.songs)
    seeds = [validation_seed(config.seed, number) for number in range(config.draws)]
    rows = try_realizations(families(models), pieces, config.numbers(), config.length, seeds, config.batch, progress)
    return realizations_findings(rows, len(pieces), config.draws, asdict(config))
