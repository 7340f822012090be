"""A training run on songs, from its config to its bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from musicgen.data.corpus import Corpus
from musicgen.data.prepare import synthetic_corpus
from musicgen.errors import UserError
from musicgen.model import PerformerConfig
from musicgen.training.checkpoints import BEST, LAST
from musicgen.training.config import DataConfig, TrainConfig
from musicgen.training.export import export_checkpoint
from musicgen.training.folder import BUNDLE, CHECKPOINTS, CURVES, METRICS
from musicgen.training.initial import initial_bundle, initial_model, model_size, with_size
from musicgen.training.judge import SongJudge
from musicgen.training.loaders import FixedWindows, GapWindows, training_windows
from musicgen.training.loop import Job, Say, run_job
from musicgen.training.module import TrainingModule


def train(config: TrainConfig, composed: dict[str, Any], say: Say) -> bool:
    """Train a model, or resume training, and export the best checkpoint.

    `composed` is the same config as plain data, to store with the run. Returns whether a sweep may continue with the
    next run: not if SIGTERM stopped this one.
    """
    return run_job(SongJob(config, composed), config, say)


class SongJob(Job):
    """A language model of the songs of a corpus.

    Args:
        config: The config of the run.
        composed: The same config as plain data.
    """

    def __init__(self, config: TrainConfig, composed: dict[str, Any]) -> None:
        self.config = config
        corpus = load_corpus(config.data, config.seed)
        if config.data.tokens is not None:
            corpus = corpus.in_tokens(config.data.tokens)
        self.corpus = corpus
        self.bundle = None if config.init_from is None else initial_bundle(config.init_from, corpus.language)
        self.size = model_size(config, len(corpus.language.vocabulary), self.bundle)
        if self.bundle is not None:
            composed = with_size(composed, self.size)
        self.record = {
            "config": json.loads(json.dumps(composed, default=str)),
            "corpus": corpus.fingerprint,
            "language": corpus.language.name,
        }
        self.batches = training_windows(corpus, config.data, config.batch_size, config.seed)
        self.tokens = config.batch_size * config.data.length

    def judge(self, rows: int, rank: int, world: int) -> SongJudge:
        """Validates on the songs of the split valid."""
        config = self.config
        length = int(config.data.length * config.validation.extrapolate)
        shared = (rows, config.validation.songs, rank, world)
        windows = FixedWindows(self.corpus, "valid", length, *shared)
        gaps = GapWindows(self.corpus, "valid", config.data.length, *shared) if config.data.infill else None
        return SongJudge(config, windows, gaps)

    def module(self, shard: Callable[[Any], None] | None) -> TrainingModule:
        """A new language model."""
        config, infill = self.config, self.corpus.language.infill
        model = initial_model(self.size, self.bundle)
        model.checkpoint_activations = config.trainer.checkpoint_activations
        if config.trainer.compile:
            for layer in model.layers:
                layer.compile()
        return TrainingModule(model, config, shard, infill.fill if infill and config.data.infill else None)

    def finish(self, say: Say) -> None:
        """Export the best checkpoint."""
        folder = self.config.run_dir
        export_best(folder, say)
        say(f"the model is in {folder / BUNDLE}, its losses in {folder / METRICS} and {folder / CURVES}")

    def same_options(self, ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
        """The options of the model that have the same effect in two configs."""
        models = [PerformerConfig.from_groups(1, config["model"], config["pe"], "config") for config in (ours, theirs)]
        values = [{**vars(model), "rotated": model.rotated_share} for model in models]
        return [name for name, value in values[0].items() if value == values[1][name]]


def load_corpus(config: DataConfig, seed: int) -> Corpus:
    """The prepared corpus, or a new synthetic one."""
    if config.source != "corpus":
        return synthetic_corpus(config.source, config.songs, config.bars, seed, tokens=config.tokens or "paper")
    if config.folder is None:
        raise UserError("data.folder is missing: write data.folder=DIR, a corpus that `musicgen prepare` has made")
    if not config.folder.is_dir():
        raise UserError(
            f"data.folder={config.folder}: no such folder; "
            f"`musicgen prepare input=DIR out={config.folder}` makes a corpus of your MIDI files"
        )
    return Corpus.open(config.folder)


def export_best(folder: Path, say: Say) -> None:
    """Export the best checkpoint, or the last one if the best is missing or damaged."""
    for name in (BEST, LAST):
        path = folder / CHECKPOINTS / name
        if path.is_file():
            try:
                export_checkpoint(path, folder / BUNDLE)
            except UserError as error:
                say(f"not exported: {error}")
            else:
                return
