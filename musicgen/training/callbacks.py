"""What happens beside the training steps: checkpoints, the log, stopping early or on request, a progress bar.

The hard choice: one object does it all, in one place and in one order: measure, tell, save, then stop. Separate
callbacks would each have to guess what the others have done.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from tqdm import tqdm

from musicgen.training.checkpoints import BEST, LAST
from musicgen.training.config import TrainConfig
from musicgen.training.folder import SAMPLES
from musicgen.training.loaders import FixedWindows
from musicgen.training.module import TrainingModule
from musicgen.training.samples import write_sample
from musicgen.training.table import Table
from musicgen.training.validation import gate_statistics, validate


class Monitor(Callback):
    """Keeps checkpoints and the log of a run.

    Args:
        config: The run.
        windows: What to judge the model on.
        folder: Where checkpoints go.
        table: The log; None in all processes but the first.
        record: What a checkpoint is to say of the run.

    Attributes:
        best: The lowest validation loss, and the step at which it was.
        stopped_by: Why training ended before its last step, if it did.
        was_asked_to_stop: Whether somebody wanted it to, by SIGTERM.
    """

    def __init__(
        self, config: TrainConfig, windows: FixedWindows, folder: Path, table: Table | None, record: dict[str, Any]
    ) -> None:
        self.config, self.windows, self.folder, self.table, self.record = config, windows, folder, table, record
        self.best: tuple[float, int] = (math.inf, 0)
        self.stopped_by: str | None = None
        self.was_asked_to_stop = False
        self._without_progress = 0
        self._signalled = False
        self._bar: Any = None
        self._since = (0, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to remember of this."""
        return {"best": list(self.best), "without_progress": self._without_progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        loss, step = state["best"]
        self.best, self._without_progress = (loss, int(step)), state["without_progress"]

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add what `musicgen export` and a run that resumes need."""
        metrics = pl_module.metrics if isinstance(pl_module, TrainingModule) else {}
        checkpoint["musicgen"] = {**self.record, "step": trainer.global_step, "metrics": dict(metrics)}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin to count, and to listen for a request to stop."""
        signal.signal(signal.SIGTERM, self._on_signal)
        step = trainer.global_step
        self._since = (step, time.perf_counter())
        if step:
            self._say_where(pl_module, step)
        patience = self.config.validation.patience
        if patience is not None and self._without_progress >= patience:
            trainer.should_stop = True  # as it did before
        if self.table is not None:
            steps = self.config.trainer.max_steps
            self._bar = tqdm(total=steps, initial=step, unit="step", disable=None, dynamic_ncols=True)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._signalled = True  # acted upon when the step is done

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,
    ) -> None:
        """After a step (not after a part of one): log, save, and see whether to stop."""
        assert isinstance(pl_module, TrainingModule)  # noqa: S101
        if (batch_idx + 1) % self.config.accumulate:
            return
        step, last = trainer.global_step, self.config.trainer.max_steps
        if step % self.config.trainer.log_every == 0 or step == last:
            self._log(trainer, pl_module, step)
        if self._bar is not None:
            self._bar.update()
        every = self.config.validation.every
        if step % every == 0 or (step == last and step > every):  # a few steps to try a model out are not judged
            self._validate(trainer, pl_module, step)
        if self._any_signalled(trainer):
            self.was_asked_to_stop = True
            self.stopped_by = "it was asked to (SIGTERM); the same command with resume=auto goes on"
            trainer.should_stop = True
        is_best = self.best[1] == step  # the two stay together: one is never there without the other
        if step % self.config.trainer.checkpoint_every == 0 or step == last or is_best or trainer.should_stop:
            self.save(trainer, pl_module, LAST)

    def _any_signalled(self, trainer: Trainer) -> bool:
        """Whether any process was asked to stop: then all do, at the same step."""
        if trainer.world_size == 1:
            return self._signalled
        return bool(trainer.strategy.reduce_boolean_decision(self._signalled, all=False))

    def _validate(self, trainer: Trainer, module: TrainingModule, step: int) -> None:
        """Judge the model, keep it if it is the best, and count for how long none has been."""
        if not self.windows.songs:
            return
        config, began = self.config, time.perf_counter()
        with trainer.precision_plugin.val_step_context():
            metrics = validate(
                module.model,
                self.windows,
                config.data.length,
                config.validation.draws,
                config.seed,
                module.sum_over_processes,
            )
        module.metrics |= metrics
        self._tell(trainer, step, metrics | gate_statistics(module.model))
        if math.isfinite(metrics["val/loss"]) and metrics["val/loss"] < self.best[0]:
            self.best, self._without_progress = (metrics["val/loss"], step), 0
            self.save(trainer, module, BEST)
        else:
            self._without_progress += 1
        bars = config.validation.sample_bars
        if bars is not None and self.table is not None and config.trainer.strategy != "fsdp":  # parts cannot play alone
            write_sample(module.model, self.windows.language, config.run_dir / SAMPLES, step, bars)
        patience = config.validation.patience
        if patience is not None and self._without_progress >= patience:
            self.stopped_by = f"the validation loss has not fallen for {patience} validations"
            trainer.should_stop = True
        before, then = self._since
        self._since = (before, then + time.perf_counter() - began)  # speed is that of training

    def save(self, trainer: Trainer, pl_module: TrainingModule, name: str) -> None:
        """Write a checkpoint, from all processes together."""
        trainer.save_checkpoint(self.folder / name)
        if name == LAST:
            self._say_where(pl_module, trainer.global_step)

    def _say_where(self, module: LightningModule, step: int) -> None:
        assert isinstance(module, TrainingModule)  # noqa: S101
        module.last_checkpoint = f"{self.folder / LAST} is from step {step}"

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:  # noqa: ARG002
        """Leave the terminal in order."""
        if self._bar is not None:
            self._bar.close()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Stop listening."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._bar is not None:
            self._bar.close()

    def _log(self, trainer: Trainer, module: TrainingModule, step: int) -> None:
        before, then = self._since
        now = time.perf_counter()
        tokens = (step - before) * self.config.batch_size * self.config.data.length
        speed = tokens / (now - then)
        self._since = (step, now)
        metrics = {name: value for name, value in module.metrics.items() if name.startswith("train/")}
        metrics["train/tokens_per_second"] = speed
        self._tell(trainer, step, metrics)
        if self._bar is None:
            return
        loss, rate = metrics["train/loss"], metrics["train/learning_rate"]
        self._bar.set_postfix_str(f"loss {loss:.3f}, rate {rate:.1e}, {speed:,.0f} tokens/s", refresh=False)
        if self._bar.disable:  # nobody watches a bar, but a log file can have lines
            self._bar.write(f"step {step}: loss {loss:.4f}, rate {rate:.2e}, {speed:,.0f} tokens/s", file=sys.stdout)

    def _tell(self, trainer: Trainer, step: int, metrics: dict[str, float]) -> None:
        """Write metrics to the table and to the loggers."""
        if self.table is None:
            return
        self.table.add(step, metrics)
        for logger in trainer.loggers:
            if isinstance(logger, Logger):
                logger.log_metrics(metrics, step)
        if "val/loss" in metrics and self._bar is not None:
            beyond = metrics.get("val/loss_extrapolated")
            more = f", {beyond:.4f} beyond the trained length" if beyond is not None else ""
            self._bar.write(f"step {step}: validation loss {metrics['val/loss']:.4f}{more}", file=sys.stdout)
