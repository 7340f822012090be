"""`musicgen evaluate resources`: what models cost on this machine, as the paper's table of resources.

The hard choice: what is measured is a config, not a trained model, so that one can know before training; a bundle is
measured as the config that it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from musicgen.cli.compose import compose, groups
from musicgen.cli.evaluate import progress, run_kind
from musicgen.errors import UserError

if TYPE_CHECKING:
    from musicgen.evaluation.findings import Findings
    from musicgen.evaluation.resources import Subject

ABOUT = """\
usage: musicgen evaluate resources [experiments=NAME,...] [model=NAME|DIR,...] out=DIR [key=value ...]

Measures what models cost on this machine: parameters, the state that a piece needs, the time and memory of a training
step, and the time of a generated token. Models are measured one at a time, each in a process of its own, in turns.

keys:
  experiments=NAME,...  as `musicgen train experiment=NAME` has them (`musicgen train --help` lists them); small/ape,
                        small/sine, small/sine_ungated, small/conv, small/conv_ungated if no model is given
  model=NAME|DIR,...    trained models, by their configs
  out=DIR               folder for the page (index.html), tables (CSV, JSON) and the picture (PNG, SVG)
  batch=N length=N      windows in a training step, and tokens in a window; by default what each was trained with
  vocab_size=361        tokens of the language, for experiments; 794 for grooves
  repeats=3 rounds=2    steps that are timed in a turn, and turns of each model; the best counts
  threads=2             of the CPU; one by default
  overwrite=true        replaces an evaluation that is in the folder

The paper's own models are pop_piano/ape, pop_piano/sine and so on; with batch=1 threads=2 each takes minutes and 6 GB.

example: musicgen evaluate resources experiments=small/ape,small/sine out=cost
"""
PATHS = ("experiments", "model", "out")
USUAL = "small/ape,small/sine,small/sine_ungated,small/conv,small/conv_ungated"


@dataclass(frozen=True)
class ResourcesConfig:
    """What `conf/evaluate_resources.yaml` holds, key by key."""

    experiments: str | None
    model: str | None
    out: Path
    batch: int | None
    length: int | None
    vocab_size: int
    repeats: int
    rounds: int
    threads: int
    overwrite: bool

    def __post_init__(self) -> None:
        for name in ("batch", "length", "vocab_size", "repeats", "rounds", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: takes 1 or more")


def run(arguments: list[str]) -> int:
    """Measure resources."""
    return run_kind("resources", ABOUT, ResourcesConfig, evaluate, arguments, PATHS, {})


def evaluate(config: ResourcesConfig) -> Findings:
    """Measure.

    Raises:
        UserError: A model is not known, or could not be measured.
    """
    from musicgen.evaluation.resources import findings, measure_all

    subjects = [*_experiments(config), *_models(config)]
    if not subjects:
        raise UserError("experiments is empty: write experiments=NAME or model=DIR")
    turns = partial(progress, unit="turn")
    costs = measure_all(subjects, config.repeats, config.rounds, config.threads, turns)
    return findings(subjects, costs, vars(config))


def _experiments(config: ResourcesConfig) -> list[Subject]:
    from musicgen.evaluation.resources import Subject
    from musicgen.model import PerformerConfig

    given = config.experiments or ("" if config.model else USUAL)
    known = groups("train")["experiment"]
    subjects = []
    for name in filter(None, map(str.strip, given.split(","))):
        if name not in known:
            raise UserError(f"experiments={name}: no such experiment; `musicgen train --help` lists them")
        values = compose("train", [f"experiment={name}"])
        size = PerformerConfig.from_groups(config.vocab_size, values["model"], values["pe"], name)
        length, batch = config.length or values["data"]["length"], config.batch or values["batch_size"]
        subjects.append(Subject(name, size, length, batch))
    return subjects


def _models(config: ResourcesConfig) -> list[Subject]:
    from musicgen.evaluation.models import load_models
    from musicgen.evaluation.resources import Subject

    subjects = []
    for model in load_models(config.model) if config.model else []:
        length, batch = config.length or model.trained_length, config.batch or model.training.get("batch_size")
        if length is None or type(batch) is not int or batch < 1:
            raise UserError(f"model={model.name}: does not say what it was trained with; write length=N and batch=N")
        subjects.append(Subject(model.name, model.model.config, length, batch))
    return subjects
