"""What happens between training steps: logging, validation, checkpoints, stopping, a progress bar.

Design note: one callback does all of it, in a fixed order: measure, log, save, stop. Separate callbacks would depend on
what the others have already done.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from tqdm import tqdm

from musicgen.training.checkpoints import BEST, LAST
from musicgen.training.config import RunConfig
from musicgen.training.step import StepModule
from musicgen.training.table import Table
from musicgen.training.validation import gate_statistics

GRACE = 1.5
"""Seconds in which a step may end after SIGTERM."""


class Judge(Protocol):
    """How a model is validated."""

    def measure(self, module: StepModule) -> dict[str, float]:
        """Metrics, among them `val/loss`, which chooses the best model; empty if there is nothing to validate on."""
        ...

    def words(self, metrics: dict[str, float]) -> str:
        """Metrics as they are printed after the validation loss; may be empty."""
        ...

    def show(self, module: StepModule, step: int) -> None:
        """Writes what shows the model's progress, in the first process only."""
        ...


class Monitor(Callback):
    """Keeps checkpoints and the log of a run.

    Args:
        config: The config of the run.
        judge: Validates the model.
        tokens: Number of tokens in a step, for the speed.
        folder: The folder of the checkpoints.
        table: The log. None in all processes except the first.
        record: What each checkpoint stores about the run.

    Attributes:
        best: The lowest validation loss and its step.
        stopped_by: Why training ended before its last step, if it did.
        was_asked_to_stop: Whether SIGTERM ended it.
        has_started: Whether a first step was about to be made, so that everything had been loaded.
    """

    def __init__(
        self,
        config: RunConfig,
        judge: Judge,
        tokens: int,
        folder: Path,
        table: Table | None,
        record: dict[str, Any],
    ) -> None:
        self.config, self.judge, self.tokens = config, judge, tokens
        self.folder, self.table, self.record = folder, table, record
        self.best: tuple[float, int] = (math.inf, 0)
        self.stopped_by: str | None = None
        self.was_asked_to_stop = False
        self.has_started = False
        self._without_progress = 0
        self._signalled = False
        self._handler: Any = signal.SIG_DFL
        self._bar: Any = None
        self._since = (0, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint stores of this object."""
        return {"best": list(self.best), "without_progress": self._without_progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore this object from a checkpoint."""
        loss, step = state["best"]
        self.best, self._without_progress = (loss, int(step)), state["without_progress"]

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add what `musicgen export` and a resumed run need."""
        metrics = pl_module.metrics if isinstance(pl_module, StepModule) else {}
        checkpoint["musicgen"] = {**self.record, "step": trainer.global_step, "metrics": dict(metrics)}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clock, the progress bar and the handler of SIGTERM."""
        self.has_started = True
        self._handler = signal.signal(signal.SIGTERM, self._on_signal)
        step = trainer.global_step
        self._since = (step, time.perf_counter())
        if step:
            self._note_checkpoint(pl_module, step)
        patience = self.config.validation.patience
        if patience is not None and self._without_progress >= patience:
            trainer.should_stop = True  # early stopping had already ended this run
        if self.table is not None:
            steps = self.config.trainer.max_steps
            self._bar = tqdm(total=steps, initial=step, unit="step", disable=None, dynamic_ncols=True)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._signalled = True  # handled at the end of the step
        if self.config.trainer.devices in ("auto", 1) and hasattr(signal, "setitimer"):
            # A step that takes longer is given up. The run resumes from its last checkpoint.
            signal.signal(signal.SIGALRM, self._on_late_step)
            signal.setitimer(signal.ITIMER_REAL, GRACE)

    def _cancel_grace(self) -> None:
        if self._signalled and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _on_late_step(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        raise KeyboardInterrupt

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,
    ) -> None:
        """Log, validate, save and perhaps stop, after each whole step."""
        assert isinstance(pl_module, StepModule)  # noqa: S101
        if (batch_idx + 1) % self.config.accumulate:
            return
        self._cancel_grace()
        step, last = trainer.global_step, self.config.trainer.max_steps
        if step % self.config.trainer.log_every == 0 or step == last:
            self._log(trainer, pl_module, step)
        if self._bar is not None:
            self._bar.update()
        every = self.config.validation.every
        if step % every == 0 or (step == last and step > every):  # very short runs are not validated
            self._validate(trainer, pl_module, step)
        if self._any_signalled(trainer):
            self._cancel_grace()  # the signal may have come since the step ended
            self.was_asked_to_stop = True
            self.stopped_by = "it was asked to (SIGTERM); the same command with resume=auto continues"
            trainer.should_stop = True
        is_best = self.best[1] == step  # best and last are saved together
        if step % self.config.trainer.checkpoint_every == 0 or step == last or is_best or trainer.should_stop:
            self.save(trainer, pl_module, LAST)

    def _any_signalled(self, trainer: Trainer) -> bool:
        """Whether any process was asked to stop. Then all stop, at the same step."""
        if trainer.world_size == 1:
            return self._signalled
        return bool(trainer.strategy.reduce_boolean_decision(self._signalled, all=False))

    def _validate(self, trainer: Trainer, module: StepModule, step: int) -> None:
        """Validate the model, save it if it is the best, and stop if there was no progress for too long."""
        began = time.perf_counter()
        with trainer.precision_plugin.val_step_context():
            metrics = self.judge.measure(module)
        if not metrics:
            return
        module.metrics |= metrics
        self._write_metrics(trainer, step, metrics | gate_statistics(module.model))
        if math.isfinite(metrics["val/loss"]) and metrics["val/loss"] < self.best[0]:
            self.best, self._without_progress = (metrics["val/loss"], step), 0
            self.save(trainer, module, BEST)
        else:
            self._without_progress += 1
        if self.table is not None:
            self.judge.show(module, step)
        patience = self.config.validation.patience
        if patience is not None and self._without_progress >= patience:
            self.stopped_by = f"the validation loss has not fallen for {patience} validations"
            trainer.should_stop = True
        before, then = self._since
        self._since = (before, then + time.perf_counter() - began)  # tokens per second do not count validation

    def save(self, trainer: Trainer, pl_module: StepModule, name: str) -> None:
        """Write a checkpoint. All processes take part."""
        trainer.save_checkpoint(self.folder / name)
        if name == LAST:
            self._note_checkpoint(pl_module, trainer.global_step)

    def _note_checkpoint(self, module: LightningModule, step: int) -> None:
        assert isinstance(module, StepModule)  # noqa: S101
        module.last_checkpoint = f"{self.folder / LAST} is from step {step}"

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:  # noqa: ARG002
        """Close the progress bar."""
        if self._bar is not None:
            self._bar.close()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Remove the handler of SIGTERM and close the progress bar."""
        signal.signal(signal.SIGTERM, self._handler)
        if self._bar is not None:
            self._bar.close()

    def _log(self, trainer: Trainer, module: StepModule, step: int) -> None:
        before, then = self._since
        now = time.perf_counter()
        speed = (step - before) * self.tokens / (now - then)
        self._since = (step, now)
        metrics = {name: value for name, value in module.metrics.items() if name.startswith("train/")}
        metrics["train/tokens_per_second"] = speed
        self._write_metrics(trainer, step, metrics)
        if self._bar is None:
            return
        loss, rate = metrics["train/loss"], metrics["train/learning_rate"]
        self._bar.set_postfix_str(f"loss {loss:.3f}, rate {rate:.1e}, {speed:,.0f} tokens/s", refresh=False)
        if self._bar.disable:  # without a terminal, print lines instead of a bar
            self._bar.write(f"step {step}: loss {loss:.4f}, rate {rate:.2e}, {speed:,.0f} tokens/s", file=sys.stdout)

    def _write_metrics(self, trainer: Trainer, step: int, metrics: dict[str, float]) -> None:
        """Write metrics to the table and to the loggers."""
        if self.table is None:
            return
        self.table.add(step, metrics)
        for logger in trainer.loggers:
            if isinstance(logger, Logger):
                logger.log_metrics(metrics, step)
        if "val/loss" in metrics and self._bar is not None:
            words = self.judge.words(metrics)
            more = f", {words}" if words else ""
            self._bar.write(f"step {step}: validation loss {metrics['val/loss']:.4f}{more}", file=sys.stdout)
