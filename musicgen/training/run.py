"""A training run, from its config to its bundle.

The hard choice: all that can be wrong is looked for before the first step, and all that a run leaves is written in
an order in which each part can be trusted when the next is there.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from torch.utils.data import DataLoader

from musicgen.data.groove_prepare import compose_grooves, gather_grooves
from musicgen.data.open import AnyCorpus, open_corpus
from musicgen.data.prepare import compose_songs, gather
from musicgen.errors import UserError
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.runtime import bfloat16_works, choose_threads, keep_memory, peak_memory
from musicgen.training.callbacks import Monitor
from musicgen.training.checkpoints import BEST, LAST, AtomicCheckpointIO, load_checkpoint
from musicgen.training.config import DataConfig, TrainConfig, TrainerConfig
from musicgen.training.curves import draw_curves
from musicgen.training.export import export_checkpoint
from musicgen.training.folder import BUNDLE, CHECKPOINTS, CURVES, METRICS, check_same_run, open_folder
from musicgen.training.loaders import FixedWindows, Part, Parts, training_loader, training_windows
from musicgen.training.module import TrainingModule
from musicgen.training.sharding import shard_model
from musicgen.training.table import Table

Say = Callable[[str], None]


def train(config: TrainConfig, composed: dict[str, Any], say: Say) -> bool:
    """Train a model, or go on training it, and export the best.

    Args:
        config: The run.
        composed: The same as plain data, to be kept with it.
        say: Tells the user something.

    Returns:
        Whether more may be trained after it; not if it was asked to stop.

    Raises:
        UserError: Something that the caller can put right.
    """
    began = time.monotonic()
    corpus = load_corpus(config.data, config.seed)
    record = {
        "config": json.loads(json.dumps(composed, default=str)),
        "corpus": corpus.fingerprint,
        "language": corpus.language.name,
    }
    size = performer_config(config, len(corpus.language.vocabulary))
    trainer = make_trainer(config)
    world, rank = trainer.world_size, trainer.global_rank
    windows = training_windows(corpus, config.data, config.batch_size, config.seed)
    parts = Parts(windows, config.trainer.max_steps, config.accumulate, rank, world)
    length = int(config.data.length * config.validation.extrapolate)
    judged = FixedWindows(corpus, "valid", length, parts.rows, config.validation.songs, rank, world)

    # All is in order: only now is anything written.
    is_first = is_first_process()
    if is_first:
        open_folder(config, record)
    last = config.run_dir / CHECKPOINTS / LAST
    resumed = load_checkpoint(last)["musicgen"] if config.resume and last.is_file() else None
    if resumed is not None:
        check_same_run(record, resumed, config)
    if resumed is not None and is_first:
        say(f"going on from step {resumed['step']}")
    keep_memory()
    set_threads(config, resumed)
    record["threads"] = torch.get_num_threads()
    torch.manual_seed(config.seed)
    model = PerformerLM(size)
    model.checkpoint_activations = config.trainer.checkpoint_activations
    if config.trainer.compile:
        for layer in model.layers:
            layer.compile()
    table = Table(config.run_dir / METRICS, resumed["step"] if resumed else 0) if is_first else None
    monitor = Monitor(config, judged, config.run_dir / CHECKPOINTS, table, record)
    shard = shard_model if config.trainer.strategy == "fsdp" else None
    module = TrainingModule(model, config, shard)
    trainer.callbacks.append(monitor)  # type: ignore[attr-defined]
    trainer.loggers = loggers(config)
    loader = training_loader(parts, lambda: trainer.global_step)
    with quiet():
        fit(trainer, module, loader, last if resumed else None)
    if is_first:
        finish(config, monitor, time.monotonic() - began, say)
    return not monitor.was_asked_to_stop


def fit(trainer: Trainer, module: TrainingModule, loader: DataLoader[Part], checkpoint: Path | None) -> None:
    """Lightning's loop over our steps."""
    try:
        trainer.fit(module, loader, ckpt_path=checkpoint)
    except SystemExit:  # what Lightning makes of Ctrl-C
        raise KeyboardInterrupt from None


def make_trainer(config: TrainConfig) -> Trainer:
    """Lightning's trainer for a run. It writes nothing by itself.

    Raises:
        UserError: This machine cannot do what the config asks for.
    """
    machine = config.trainer
    with quiet():
        return Trainer(
            accelerator=machine.accelerator,
            devices=devices(machine),
            num_nodes=machine.num_nodes,
            strategy=strategy(machine),
            precision="bf16-mixed" if machine.precision == "bf16" else "32-true",
            max_steps=machine.max_steps,
            accumulate_grad_batches=config.accumulate,
            logger=False,
            plugins=[AtomicCheckpointIO()],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            limit_val_batches=0,
            default_root_dir=config.run_dir,
        )


def load_corpus(config: DataConfig, seed: int) -> AnyCorpus:
    """The prepared corpus, or one composed on the spot."""
    if config.source == "synthetic":
        return gather(compose_songs(config.songs, config.bars, seed), seed, None, {"source": "synthetic"})
    if config.source == "synthetic_grooves":
        grooves = compose_grooves(config.songs, config.bars, seed)
        return gather_grooves(grooves, seed, None, {"source": "synthetic_grooves"})
    if config.folder is None:
        raise UserError("data.folder is missing: write data.folder=DIR, a corpus that `musicgen prepare` has made")
    if not config.folder.is_dir():
        raise UserError(
            f"data.folder={config.folder}: no such folder; "
            f"`musicgen prepare input=DIR output={config.folder}` makes a corpus of your MIDI files"
        )
    return open_corpus(config.folder)


def performer_config(config: TrainConfig, vocab_size: int) -> PerformerConfig:
    """The model's config: its size and encoding from the run, its vocabulary from the corpus."""
    return PerformerConfig.from_groups(vocab_size, config.model, config.pe, "config")


def is_first_process() -> bool:
    """Whether this process is the one that writes and speaks, by what torchrun, SLURM or Lightning say."""
    return all(int(os.environ.get(name, "0")) == 0 for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def set_threads(config: TrainConfig, resumed: dict[str, Any] | None) -> None:
    """As many as the config says, or as the run had: sums in another order would not be the same to the bit."""
    if config.trainer.threads is not None:
        torch.set_num_threads(config.trainer.threads)
    elif resumed is not None:
        torch.set_num_threads(int(resumed["threads"]))
    else:
        choose_threads()


def devices(config: TrainerConfig) -> int | str:
    """How many processes on this machine; on a CPU one, unless a number is given."""
    if config.devices != "auto":
        return config.devices
    on_gpu = config.accelerator != "cpu" and torch.cuda.is_available()
    return "auto" if on_gpu and config.strategy != "single" else 1


def strategy(config: TrainerConfig) -> Any:
    """Lightning's object for how processes share the work.

    Raises:
        UserError: This machine cannot do it.
    """
    if config.accelerator == "gpu" and not torch.cuda.is_available():
        raise UserError("trainer.accelerator=gpu: torch finds no GPU here; trainer=cpu trains without")
    on_gpu = config.accelerator != "cpu" and torch.cuda.is_available()
    if config.precision == "bf16" and not bfloat16_works("cuda" if on_gpu else "cpu"):
        raise UserError("trainer.precision=bf16: this machine cannot compute in it; use trainer.precision=float32")
    if config.strategy == "ddp":
        return DDPStrategy(process_group_backend=None if on_gpu else "gloo")
    if config.strategy == "fsdp":
        if not on_gpu:
            raise UserError("trainer.strategy=fsdp: needs GPUs; trainer=ddp shares the work among CPU processes")
        return ModelParallelStrategy(tensor_parallel_size=1, save_distributed_checkpoint=False)
    return "auto"


def loggers(config: TrainConfig) -> list[Logger]:
    """Who is told of losses, besides the table."""
    if config.logger.name == "tensorboard":
        return [TensorBoardLogger(config.run_dir, name="tensorboard", version="")]
    if config.logger.name == "wandb":
        offline = config.logger.mode == "offline"
        return [WandbLogger(save_dir=config.run_dir, project=config.logger.project, offline=offline)]
    return []


def finish(config: TrainConfig, monitor: Monitor, seconds: float, say: Say) -> None:
    """Export the best model, draw the curves, and say where they are."""
    folder = config.run_dir
    draw_curves(folder / METRICS, folder / CURVES)
    if monitor.stopped_by is not None:
        say(f"stopped because {monitor.stopped_by}")
    loss, step = monitor.best
    if math.isfinite(loss):
        say(f"best validation loss {loss:.4f} at step {step}")
    else:
        say("no validation: the model is that of the last step")
    export_best(folder, say)
    say(f"{seconds:,.0f} s, peak memory {peak_memory():.1f} GB")
    say(f"the model is in {folder / BUNDLE}, its losses in {folder / METRICS} and {folder / CURVES}")


def export_best(folder: Path, say: Say) -> None:
    """Make the bundle of the best checkpoint; of the last, if the best is not there or damaged."""
    for name in (BEST, LAST):
        path = folder / CHECKPOINTS / name
        if path.is_file():
            try:
                export_checkpoint(path, folder / BUNDLE)
            except UserError as error:
                say(f"not exported: {error}")
            else:
                return


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without Lightning's advice, none of which applies: batches come by step, and the log is ours."""
    names = ("lightning.pytorch", "lightning.fabric")
    levels = [logging.getLogger(name).level for name in names]
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        try:
            yield
        finally:
            for name, level in zip(names, levels, strict=True):
                logging.getLogger(name).setLevel(level)
