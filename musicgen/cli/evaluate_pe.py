"""`musicgen evaluate pe`: what a positional encoding does to attention, within the trained length and beyond.

The hard choice: where to look is in proportion to the length a model was trained on, so that models of any size are
asked what the paper asked its own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from musicgen.cli.evaluate import progress, run_kind
from musicgen.cli.numbers import ranges, whole_numbers

if TYPE_CHECKING:
    from musicgen.evaluation.findings import Findings

ABOUT = """\
usage: musicgen evaluate pe model=NAME|DIR[,...] out=DIR [key=value ...]

Says what the positional encodings of models do to attention. Each token of the vocabulary is repeated to a piece, in
which nothing but positions differs, and the unnormalised attention of the first layer, exp(q·k/√E), is measured:
translation invariance T (0: attention depends on the distance alone; 1: not on the distance) and monotonicity M (0: it
fades steadily with distance; ½: at random), for the best head and for all, and for queries within the trained length
N and beyond it. Values are means over tokens. The noise of SPE makes them differ from draw to draw, by the spread.

keys:
  model=NAME|DIR,...   models: built-in ones by name, folders of bundles or of runs
  out=DIR              folder for pe.csv, pe_heads.csv, pe.json, pe.png, pe.svg and index.html
  trained=N            tokens of a training window, if a bundle does not say
  positions=0-128,...  ranges of query positions; as in the paper: 0-N/2, N/2-N and N-1.25N
  offsets=16,64        query-key offsets below these; as in the paper: N/16, N/4 and N/2
  tokens=20            so many tokens of the vocabulary, evenly spaced; all by default
  draws=3              of the noise
  seed=0               of the first draw
  overwrite=true       replaces an evaluation that is in the folder

Time grows with the square of the trained length: on one core, a token takes some 5 s a draw with the paper's 8 heads
and 2,048 tokens, and 0.02 s with 4 heads and 256. tokens=20 gives a first look.

example: musicgen evaluate pe model=runs/sine,runs/ape out=pe
"""
TEXTS = ("model", "out", "positions", "offsets")  # values that may hold commas


@dataclass(frozen=True)
class PeConfig:
    """What `conf/evaluate_pe.yaml` holds, key by key."""

    model: str
    out: Path
    trained: int | None
    positions: str | None
    offsets: str | None
    tokens: int | None
    draws: int
    seed: int
    overwrite: bool

    def __post_init__(self) -> None:
        for name, least in (("trained", 1), ("tokens", 1), ("draws", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}={value}: takes a number from {least} on")


def run(arguments: list[str]) -> int:
    """Evaluate positional encodings."""
    needed = {"model": "NAME or DIR"}
    return run_kind("pe", ABOUT, PeConfig, evaluate, arguments, TEXTS, needed)


def evaluate(config: PeConfig) -> Findings:
    """Measure.

    Raises:
        UserError: A model or a key cannot be used.
    """
    positions, offsets = ranges("positions", config.positions), whole_numbers("offsets", config.offsets, least=2)

    from musicgen.evaluation.models import load_models
    from musicgen.evaluation.pe import grid_of, measure, pe_findings

    models = load_models(config.model)
    grids = [grid_of(model, config.trained, positions, offsets) for model in models]
    scores = measure(models, grids, config.tokens, config.draws, config.seed, progress)
    return pe_findings(scores, models, asdict(config))
