"""The training step, as Lightning wants it.

The hard choice: the loss is the mean over the tokens of the whole batch, known to every process beforehand because
the batch is a function of the step. Each part then contributes its sum over that number, and the gradient is the same
however the batch was divided; the mean of the parts' own means would not be, where some are padded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from musicgen.data.batches import IGNORED
from musicgen.errors import UserError
from musicgen.model import PerformerLM
from musicgen.spe import Draw
from musicgen.training.config import TrainConfig
from musicgen.training.loaders import Part
from musicgen.training.schedule import code_seed, feature_seed, learning_rate
from musicgen.training.validation import whole

EXPLODED = 2.0
"""A loss of so many times that of guessing blindly means that training has failed."""


class DivergenceError(UserError):
    """Training has failed: at which step, with which noise, and what there is to go back to."""


class TrainingModule(LightningModule):
    """A language model in training.

    Args:
        model: The model.
        config: The run.
        shard: Puts a part of the model on each process, for `fsdp`.

    Attributes:
        metrics: What was measured last, by name.
        last_checkpoint: Says, for an error, what there is to go back to.
    """

    def __init__(
        self, model: PerformerLM, config: TrainConfig, shard: Callable[[PerformerLM], None] | None = None
    ) -> None:
        super().__init__()
        self.model, self.config = model, config
        self.shard = shard
        self.metrics: dict[str, float] = {}
        self.last_checkpoint = "there is no checkpoint yet"
        self._loss_sum: Tensor | None = None
        self._num_targets = 1

    def configure_model(self) -> None:
        """Divide the model among processes, where the strategy asks for it."""
        if self.shard is not None:
            self.shard(self.model)
            self.shard = None

    def configure_optimizers(self) -> Any:
        """Adam, with a rate that is a function of the step."""
        config, steps = self.config.optimizer, self.config.trainer.max_steps
        optimizer = Adam(self.model.parameters(), lr=config.learning_rate, fused=True)
        rate = LambdaLR(optimizer, lambda step: learning_rate(step, config, steps) / config.learning_rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": rate, "interval": "step"}}

    def training_step(self, part: Part, _: int) -> Tensor:
        """The loss of a part of a batch, so scaled that Lightning's means make it the mean over the batch."""
        logits = self.model(part.inputs, self.draw(part.step), first_row=part.first_row)
        loss = F.cross_entropy(
            logits.flatten(0, 1).float(), part.targets.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        detached = loss.detach()
        self._loss_sum = detached if self._loss_sum is None else self._loss_sum + detached
        self._num_targets = part.num_targets
        return loss * (self.trainer.world_size * self.config.accumulate / part.num_targets)

    def draw(self, step: int) -> Draw:
        """The noise of a step."""
        seed, redraw = self.config.seed, self.config.optimizer.feature_redraw
        return self.model.draw(code_seed(seed, step), feature_seed=feature_seed(seed, step, redraw))

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,  # noqa: ARG002  (the run's config has it)
        gradient_clip_algorithm: str | None = None,  # noqa: ARG002
    ) -> None:
        """Shorten the gradient, having seen that it and the loss are sound. Runs once a step.

        Raises:
            DivergenceError: They are not.
        """
        assert self._loss_sum is not None  # noqa: S101  (a step has parts)
        loss = float(self.sum_over_processes(self._loss_sum)) / self._num_targets
        self._loss_sum = None
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optimizer.gradient_clip)
        length = float(whole(norm))
        guessing = math.log(self.model.config.vocab_size)
        if not math.isfinite(loss) or not math.isfinite(length) or loss > EXPLODED * guessing:
            step = self.trainer.global_step
            raise DivergenceError(
                f"training has failed at step {step + 1}: loss {loss:.4g} (guessing has {guessing:.2f}), gradient "
                f"{length:.4g}, draw {code_seed(self.config.seed, step)}; {self.last_checkpoint}; a lower "
                "optimizer.learning_rate or a longer optimizer.warmup_steps may help"
            )
        rate = float(optimizer.param_groups[0]["lr"])
        self.metrics |= {"train/loss": loss, "train/gradient_norm": length, "train/learning_rate": rate}

    def sum_over_processes(self, value: Tensor) -> Tensor:
        """The sum of what each process has."""
        return cast(Tensor, self.trainer.strategy.reduce(value, reduce_op="sum"))
