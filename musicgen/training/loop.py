"""A training run, whatever it trains: from a job to its checkpoints, its log, and what the job makes of the best.

Everything is checked before anything is written, and mistakes are found before the first step. What is trained and
how it is judged is a `Job`; this half knows steps, processes, folders and signals.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

from musicgen.errors import UserError
from musicgen.runtime import bfloat16_works, choose_threads, keep_memory, peak_memory
from musicgen.training.callbacks import Judge, Monitor
from musicgen.training.checkpoints import LAST, AtomicCheckpointIO, load_checkpoint
from musicgen.training.config import RunConfig, TrainerConfig
from musicgen.training.folder import CHECKPOINTS, CURVES, METRICS, check_same_run, open_folder
from musicgen.training.loaders import Part, Parts, Source, training_loader
from musicgen.training.step import StepModule
from musicgen.training.table import COLUMNS, Table, draw_curves

Say = Callable[[str], None]


class Job(abc.ABC):
    """What a run trains.

    Attributes:
        record: What the run and its checkpoints store: `config`, the composed config as plain data; `corpus`, a hash
            of the data; and more.
        batches: The data, by step.
        tokens: Number of tokens in a step, on average.
        part: What a part of a batch is; see `Parts`.
        columns: The columns of `metrics.csv`.
    """

    record: dict[str, Any]
    batches: Source
    tokens: int
    part: Callable[..., Any] = Part
    columns: Sequence[str] = COLUMNS

    @abc.abstractmethod
    def judge(self, rows: int, rank: int, world: int) -> Judge:
        """What validates the model in one process.

        Args:
            rows: How many rows fit into memory at once.
            rank: The index of the process.
            world: The number of processes.
        """

    @abc.abstractmethod
    def module(self, shard: Callable[[Any], None] | None) -> StepModule:
        """The new model and its training step; `shard` divides the model among processes."""

    @abc.abstractmethod
    def finish(self, say: Say) -> None:
        """Makes of the best checkpoint what the user gets, and says where it is."""

    def same_options(self, ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:  # noqa: ARG002
        """The options of a model that have the same effect in two configs, whichever keys these have."""
        return []


def run_job(job: Job, config: RunConfig, say: Say) -> bool:
    """Train a model, or resume training.

    Returns whether a sweep may continue with the next run: not if SIGTERM stopped this one.
    """
    began = time.monotonic()
    trainer = make_trainer(config)
    world, rank = trainer.world_size, trainer.global_rank
    parts = Parts(job.batches, config.trainer.max_steps, config.accumulate, rank, world, job.part)
    judge = job.judge(parts.rows, rank, world)

    # All checks have passed. Only now is anything written.
    is_first, record = is_first_process(), job.record
    with open_folder(config, record) if is_first else contextlib.nullcontext():
        last = config.run_dir / CHECKPOINTS / LAST
        resumed = load_checkpoint(last)["musicgen"] if config.resume and last.is_file() else None
        if resumed is not None:
            check_same_run(record, resumed, config, job.same_options)
        if resumed is not None and is_first:
            say(f"resuming from step {resumed['step']}")
        keep_memory()
        set_threads(config, resumed)
        record["threads"] = torch.get_num_threads()
        torch.manual_seed(config.seed)
        module = job.module(shard_model if config.trainer.strategy == "fsdp" else None)
        start = resumed["step"] if resumed else 0
        table = Table(config.run_dir / METRICS, start, job.columns) if is_first else None
        monitor = Monitor(config, judge, job.tokens, config.run_dir / CHECKPOINTS, table, record)
        trainer.callbacks.append(monitor)  # type: ignore[attr-defined]
        trainer.loggers = loggers(config)
        loader = training_loader(parts, lambda: trainer.global_step)
        with quiet():
            fit(trainer, module, loader, last if resumed else None, monitor)
        if is_first:
            finish(config, job, monitor, time.monotonic() - began, say)
    return not monitor.was_asked_to_stop


def fit(
    trainer: Trainer, module: StepModule, loader: DataLoader[Any], checkpoint: Path | None, monitor: Monitor
) -> None:
    """Run Lightning's loop over our steps.

    Raises:
        UserError: The checkpoint cannot be resumed from.
    """
    try:
        trainer.fit(module, loader, ckpt_path=checkpoint)
    except UserError:
        raise
    except Exception as error:  # Lightning reads the checkpoint, and a damaged one raises many kinds of errors
        if checkpoint is None or monitor.has_started:
            raise
        reason = (str(error).strip().splitlines() or [""])[0][:120]
        raise UserError(
            f"{checkpoint}: cannot be resumed from ({type(error).__name__}: {reason}); "
            "overwrite=true starts the run again"
        ) from None
    except SystemExit:  # Lightning turns Ctrl-C into SystemExit
        raise KeyboardInterrupt from None


def make_trainer(config: RunConfig) -> Trainer:
    """The Lightning trainer of a run. It writes no files."""
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


def is_first_process() -> bool:
    """Whether this is the process that writes files and prints, according to torchrun, SLURM or Lightning."""
    return all(int(os.environ.get(name, "0")) == 0 for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def set_threads(config: RunConfig, resumed: dict[str, Any] | None) -> None:
    """Set the threads of the config, or of the resumed run: another number may change the last bits of sums."""
    if config.trainer.threads is not None:
        torch.set_num_threads(config.trainer.threads)
    elif resumed is not None:
        torch.set_num_threads(int(resumed["threads"]))
    else:
        choose_threads()


def devices(config: TrainerConfig) -> int | str:
    """The number of processes on this machine. On a CPU it is one, unless a number is given."""
    if config.devices != "auto":
        return config.devices
    on_gpu = config.accelerator != "cpu" and torch.cuda.is_available()
    return "auto" if on_gpu and config.strategy != "single" else 1


def strategy(config: TrainerConfig) -> Any:
    """The Lightning strategy: how processes share the work."""
    if config.accelerator == "gpu" and not torch.cuda.is_available():
        raise UserError("trainer.accelerator=gpu: torch finds no GPU here; use trainer=cpu")
    on_gpu = config.accelerator != "cpu" and torch.cuda.is_available()
    if config.precision == "bf16" and not bfloat16_works("cuda" if on_gpu else "cpu"):
        raise UserError("trainer.precision=bf16: this machine cannot use bfloat16; use trainer.precision=float32")
    if config.strategy == "ddp":
        return DDPStrategy(process_group_backend=None if on_gpu else "gloo")
    if config.strategy == "fsdp":
        if not on_gpu:
            raise UserError("trainer.strategy=fsdp: needs GPUs; use trainer=ddp for several CPU processes")
        return ModelParallelStrategy(tensor_parallel_size=1, save_distributed_checkpoint=False)
    return "auto"


def shard_model(model: Any, mesh: DeviceMesh | None = None) -> None:
    """Divide the parameters of a model among processes, in place, with FSDP2; by default among all processes.

    Each layer is a unit. What all layers share (embeddings, codes, gates, output) is the root, which stays complete
    during a step, because the gradient of the codes is computed once, at the end of the backward pass.
    """
    options: dict[str, Any] = {} if mesh is None else {"mesh": mesh}
    for layer in model.layers:
        fully_shard(layer, **options)
    fully_shard(model, **options, reshard_after_forward=False)


def loggers(config: RunConfig) -> list[Logger]:
    """Where losses are logged, besides `metrics.csv`."""
    if config.logger.name == "tensorboard":
        return [TensorBoardLogger(config.run_dir, name="tensorboard", version="")]
    if config.logger.name == "wandb":
        offline = config.logger.mode == "offline"
        return [WandbLogger(save_dir=config.run_dir, project=config.logger.project, offline=offline)]
    return []


def finish(config: RunConfig, job: Job, monitor: Monitor, seconds: float, say: Say) -> None:
    """Plot the curves, let the job use the best model, and print where everything is."""
    folder = config.run_dir
    draw_curves(folder / METRICS, folder / CURVES)
    if monitor.stopped_by is not None:
        say(f"stopped because {monitor.stopped_by}")
    loss, step = monitor.best
    if math.isfinite(loss):
        say(f"best validation loss {loss:.4f} at step {step}")
    else:
        say("there was no validation, so the last model is used")
    say(f"{seconds:,.0f} s, peak memory {peak_memory():.1f} GB")
    job.finish(say)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence Lightning's advice on loaders and loggers, which does not apply here."""
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
