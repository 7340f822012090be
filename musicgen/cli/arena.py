"""`musicgen arena`: the Long-Range Arena. Its tasks are prepared, trained, evaluated and described here."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from musicgen.arena.options import ArenaConfig, TaskName
from musicgen.cli.command import Command
from musicgen.cli.main import check_choice, summaries
from musicgen.errors import UserError
from musicgen.files import atomic_write, check_output, check_writable
from musicgen.options import build, option

if TYPE_CHECKING:
    from musicgen.arena.config import ClassifierConfig

HERE = "musicgen.cli.arena"
KINDS = {
    "prepare": ("read the public files of a task, or generate one", HERE),
    "train": ("train a classifier, or continue a run", HERE),
    "evaluate": ("measure trained classifiers on the test set, beside simple rules", HERE),
    "describe": ("print the size of a classifier, or of the paper's twelve", HERE),
}

PREPARE = """\
usage: musicgen arena prepare task=NAME out=DIR [input=DIR] [key=value ...]

Writes the data of a task to a folder, with splits for training, validation and test. ListOps needs no files.
Text takes aclImdb, image takes CIFAR-10 (Python or binary version), retrieval takes the published pairs of papers.

{keys}

example: musicgen arena prepare task=listops_tiny out=data/arena/listops_tiny
"""

TRAIN = """\
usage: musicgen arena train [task=NAME] [pe=NAME] [paper=TASK/PE] [key=value ...]
       musicgen arena train -m pe=none,ape,sine,conv seed=0,1,2 [key=value ...]

Trains a classifier and writes to run_dir: config.json, metrics.csv, curves.png and checkpoints. A run that was stopped
continues with the same command and resume=auto. The best checkpoint is chosen by the validation loss.

{keys}

{groups}

`musicgen arena train --cfg` prints every key and its value, also those of pe.

example: musicgen arena train task=listops_tiny pe=ape
"""

EVALUATE = """\
usage: musicgen arena evaluate runs=DIR,DIR [key=value ...]

Prints the accuracy of the best checkpoint of each run on the test set, with its 95 % interval, and the accuracies of
simple rules on the same examples.

{keys}

example: musicgen arena evaluate runs=runs/arena/listops_tiny
"""

DESCRIBE = """\
usage: musicgen arena describe [task=NAME] [pe=NAME] [paper=TASK/PE] [key=value ...]

Prints the number of parameters of a classifier; without arguments, those of the paper's twelve models. The keys are
those of `musicgen arena train`.
"""


@dataclass(frozen=True)
class PrepareConfig:
    """Options of `musicgen arena prepare`."""

    task: TaskName | None = option(needed=True, like="NAME", help="the task")
    out: Path | None = option(needed=True, like="DIR", help="the folder to write")
    input: Path | None = option(like="DIR", help="the folder of the public files; ListOps is generated without one")
    train: int | None = option(least=2, help="training examples to generate (ListOps)")
    valid: int | None = option(least=1, help="validation examples to generate (ListOps)")
    test: int | None = option(least=1, help="test examples to generate (ListOps)")
    seed: int = option(0, least=0, most=2**63 - 1, help="seed of what is generated, and of splits that are not given")
    overwrite: bool = option(False, help="true replaces the data of a task that are in the folder")


@dataclass(frozen=True)
class EvaluateConfig:
    """Options of `musicgen arena evaluate`."""

    runs: tuple[str, ...] | None = option(needed=True, like="DIR", help="folders of runs, of one task")
    split: Literal["test", "valid"] = option("test", help="the examples to classify; valid while you still choose")
    draws: int = option(3, least=1, help="draws of noise over which probabilities are averaged")
    batch: int = option(32, least=1, help="examples that are computed at the same time")
    out: Path | None = option(like="FILE", help="a CSV file for the table")


def run(arguments: list[str]) -> int:
    """Run the command of a kind."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("\n".join(["usage: musicgen arena COMMAND [key=value ...]", "", *summaries(KINDS), ""]), end="")
        return 0
    kind, *rest = arguments
    check_choice(kind, KINDS, "unknown command of the arena")
    if kind in ("train", "describe"):
        return _train(rest) if kind == "train" else _describe(rest)
    return next(command for command in COMMANDS if command.name == f"arena {kind}")(rest)


def prepare(config: PrepareConfig) -> None:
    """Write the data of a task."""
    from musicgen.arena.dataset import foreign_to_dataset
    from musicgen.arena.tasks import load

    assert config.task is not None  # noqa: S101  (both are needed)
    assert config.out is not None  # noqa: S101
    what = "the data of a task"
    check_output(config.out, what, foreign_to_dataset, may_replace=config.overwrite, as_one=True, inputs=[config.input])
    dataset = load(config.task, config.input, (config.train, config.valid, config.test), config.seed, print)
    dataset.write(config.out)
    counts = ", ".join(f"{len(split):,} {name}" for name, split in dataset.splits.items())
    print(f"{config.out}: {counts} examples of {config.task}")


def _train(arguments: list[str]) -> int:
    from musicgen.cli.config import configure

    rest = [argument for argument in arguments if argument not in ("-m", "--multirun")]
    if len(rest) < len(arguments) and not {"-h", "--help", "--cfg"} & set(rest):
        from musicgen.cli.sweep import Trainable, sweep

        return sweep(Trainable("arena", ("arena", "train"), _checked, _train_composed), rest)
    composed = configure("arena", TRAIN, rest)
    if composed is not None:
        _train_composed(composed)
    return 0


def _checked(composed: dict[str, Any]) -> ArenaConfig:
    """A composed config as the run it describes."""
    from musicgen.arena.tasks import TASKS

    config = build(ArenaConfig, composed)
    if config.task.folder is None and TASKS[config.task.name].counts is None:
        raise UserError(f"task.folder is missing: `musicgen arena prepare task={config.task.name} …` makes one")
    _classifier(config)
    return config


def _train_composed(composed: dict[str, Any]) -> bool:
    config = _checked(composed)
    from musicgen.arena.training import train

    return train(config, composed, print)


def _classifier(config: ArenaConfig) -> ClassifierConfig:
    """The classifier of a run, without its data."""
    from musicgen.arena.config import ClassifierConfig
    from musicgen.arena.tasks import about

    name = config.task.name
    return ClassifierConfig.of(about(name), name == "retrieval", config.task.length, config.model, config.pe)


def evaluate(config: EvaluateConfig) -> None:
    """Print the accuracies of runs and of yardsticks."""
    from musicgen.arena.evaluation import accuracies, table

    if config.out is not None:
        check_writable(config.out)
    rows = accuracies([Path(run) for run in config.runs or ()], config.split, config.draws, config.batch, print)
    print(table(rows))
    if config.out is not None:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        atomic_write(config.out, text.getvalue().encode())


def _describe(arguments: list[str]) -> int:
    from musicgen.cli.config import compose, groups

    if {"-h", "--help"} & set(arguments):
        print(DESCRIBE.strip())
        return 0
    if arguments:
        print(_described(compose("arena", arguments)))
        return 0
    for name in groups("arena")["paper"]:
        print(f"paper={name:16}  {_described(compose('arena', [f'paper={name}']))}")
    return 0


def _described(composed: dict[str, Any]) -> str:
    import torch

    from musicgen.arena.classifier import SequenceClassifier

    config = _classifier(build(ArenaConfig, composed))
    with torch.device("meta"):
        count = SequenceClassifier(config).num_parameters()
    width = f"{config.d_model} wide" + (f" ({config.d_qkv} in attention)" if config.d_qkv != config.d_model else "")
    layers = f"{config.num_layers} layer{'s' if config.num_layers > 1 else ''}"
    return f"{count:>10,} parameters: {layers}, {width}, {config.length} tokens, {config.attention} attention"


COMMANDS: tuple[Command[Any], ...] = (
    Command("arena prepare", PREPARE, PrepareConfig, prepare),
    Command("arena evaluate", EVALUATE, EvaluateConfig, evaluate),
)
