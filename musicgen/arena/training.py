"""Training a classifier, on the trainer that songs are trained with: its step, its validation, and its run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import AdamW, Optimizer

from musicgen.arena.batches import ExampleBatches, ExamplePart
from musicgen.arena.classifier import SequenceClassifier
from musicgen.arena.config import ClassifierConfig
from musicgen.arena.dataset import Dataset
from musicgen.arena.options import ArenaConfig, TaskConfig
from musicgen.arena.scoring import log_probabilities
from musicgen.arena.sources import Say
from musicgen.arena.tasks import load
from musicgen.errors import UserError
from musicgen.options import build
from musicgen.spe import Draw
from musicgen.training.checkpoints import BEST, LAST, load_checkpoint
from musicgen.training.folder import CHECKPOINTS, CURVES, METRICS
from musicgen.training.loop import Job, run_job
from musicgen.training.schedule import validation_seed
from musicgen.training.step import StepModule

COLUMNS = (
    "step",
    "train/loss",
    "train/learning_rate",
    "train/gradient_norm",
    "train/tokens_per_second",
    "val/loss",
    "val/accuracy",
    "gate/mean",
    "gate/least",
    "gate/most",
)
EXPLODED = 10.0
"""Training has failed if the loss exceeds that of guessing by this factor. With two classes guessing costs little."""


def train(config: ArenaConfig, composed: dict[str, Any], say: Say) -> bool:
    """Train a classifier, or resume training; see `musicgen.training.loop.run_job`."""
    return run_job(ArenaJob(config, composed, say), config, say)


class ArenaModule(StepModule):
    """A classifier in training."""

    config: ArenaConfig

    @property
    def guessing(self) -> float:
        """The loss if all classes are equally likely."""
        return math.log(self.model.config.about.classes)

    @property
    def limit(self) -> float:
        """Training has failed if the loss is above this."""
        return EXPLODED * self.guessing

    def loss(self, part: ExamplePart, draw: Draw) -> Tensor:
        """The sum of the losses of a part's examples."""
        logits = self.model(part.tokens, part.lengths, draw, first_row=part.first_row)
        return F.cross_entropy(logits.float(), part.labels, reduction="sum")

    def make_optimizer(self) -> Optimizer:
        """Adam with decoupled weight decay of every parameter, as published."""
        config = self.config.optimizer
        betas = (0.9, config.beta2)
        return AdamW(self.model.parameters(), config.learning_rate, betas, weight_decay=config.weight_decay, fused=True)

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step."""
        config = self.config.optimizer
        if config.schedule == "cosine":
            return super().learning_rate(step)
        warmup = max(config.warmup_steps, 1)
        return config.learning_rate * min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))


class ExampleJudge:
    """Validates on the first examples of the split valid.

    Args:
        config: The config of the run.
        dataset: The data.
        rows: How many examples are computed at once.
        rank: The index of this process, which takes every world-th example.
        world: The number of processes.
    """

    def __init__(self, config: ArenaConfig, dataset: Dataset, rows: int, rank: int, world: int) -> None:
        count = len(dataset.splits["valid"])
        self.numbers = range(rank, min(count, config.validation.examples or count), world)
        self.dataset, self.rows = dataset, rows
        self.seeds = [validation_seed(config.seed, draw) for draw in range(config.validation.draws)]

    def measure(self, module: StepModule) -> dict[str, float]:
        """Loss and accuracy."""
        logs, labels = log_probabilities(module.model, self.dataset, "valid", self.numbers, self.seeds, self.rows)
        own = logs[torch.arange(len(labels)), labels]
        sums = torch.stack([-own.sum(), (logs.argmax(-1) == labels).double().sum(), own.new_tensor(len(labels))])
        loss, right, count = module.sum_over_processes(sums.to(module.device)).tolist()
        return {"val/loss": loss / count, "val/accuracy": right / count}

    def words(self, metrics: dict[str, float]) -> str:
        """The accuracy."""
        return f"accuracy {metrics['val/accuracy']:.1%}"

    def show(self, module: StepModule, step: int) -> None:
        """Nothing: the accuracy says it."""


class ArenaJob(Job):
    """A classifier of the examples of a task.

    Args:
        config: The config of the run.
        composed: The same config as plain data.
        say: Prints notes about the data.
    """

    part = ExamplePart
    columns = COLUMNS

    def __init__(self, config: ArenaConfig, composed: dict[str, Any], say: Say) -> None:
        for name in ("checkpoint_activations", "compile"):
            if getattr(config.trainer, name):
                raise UserError(f"trainer.{name}=true: is for `musicgen train`; classifiers do without")
        self.config = config
        self.dataset = open_task(config.task, say)
        self.size = classifier_config(config, self.dataset)
        self.record = {
            "config": json.loads(json.dumps(composed, default=str)),
            "corpus": self.dataset.fingerprint,
        }
        self.batches = ExampleBatches(self.dataset, self.size, config.batch_size, config.seed)
        lengths = np.minimum(np.diff(self.dataset.starts), config.task.length)
        read = lengths[self.dataset.splits["train"].sequences].sum(1)
        self.tokens = round(config.batch_size * read.mean())

    def judge(self, rows: int, rank: int, world: int) -> ExampleJudge:
        """Validates on the split valid."""
        return ExampleJudge(self.config, self.dataset, rows, rank, world)

    def module(self, shard: Callable[[Any], None] | None) -> ArenaModule:
        """A new classifier."""
        return ArenaModule(SequenceClassifier(self.size), self.config, shard)

    def finish(self, say: Say) -> None:
        """Say where the run is."""
        folder = self.config.run_dir
        say(f"losses and accuracies are in {folder / METRICS} and {folder / CURVES}")
        say(f"`musicgen arena evaluate runs={folder}` measures the best checkpoint on the test set")


def open_task(config: TaskConfig, say: Say) -> Dataset:
    """The data of a task: prepared, or generated.

    Raises:
        UserError: There are none, or they are of another task.
    """
    if config.folder is None:
        return load(config.name, None, (config.train, config.valid, config.test), config.seed, say)
    dataset = Dataset.open(config.folder)
    if dataset.about.task != config.name:
        raise UserError(f"task.folder={config.folder}: holds the task {dataset.about.task}, not {config.name}")
    return dataset


def classifier_config(config: ArenaConfig, dataset: Dataset) -> ClassifierConfig:
    """The classifier of a run."""
    return ClassifierConfig.of(dataset.about, dataset.is_paired, config.task.length, config.model, config.pe)


def load_run(folder: Path, say: Say) -> tuple[ArenaConfig, int, SequenceClassifier, Dataset]:
    """The config, the step and the model of the best checkpoint of a run (or the last), and its data.

    Raises:
        UserError: It is no run of a classifier, or its data have changed.
    """
    checkpoints = folder / CHECKPOINTS
    path = next((checkpoints / name for name in (BEST, LAST) if (checkpoints / name).is_file()), None)
    if path is None:
        raise UserError(f"{folder}: there is no checkpoint in it; `musicgen arena train run_dir={folder}` makes one")
    checkpoint = load_checkpoint(path)
    record = checkpoint["musicgen"]
    if "task" not in record["config"]:
        raise UserError(f"{folder}: is not a run of `musicgen arena train`")
    config = build(ArenaConfig, record["config"])
    dataset = open_task(config.task, say)
    if dataset.fingerprint != record["corpus"]:
        raise UserError(f"{folder}: was trained on other data than task.folder={config.task.folder} has now")
    model = SequenceClassifier(classifier_config(config, dataset))
    weights = {name.removeprefix("model."): value for name, value in checkpoint["state_dict"].items()}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{path}: its weights do not fit its config ({str(error).splitlines()[0]})") from None
    return config, int(record["step"]), model.eval(), dataset
