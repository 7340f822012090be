"""The training step, as a Lightning module, whatever is trained.

Design note: the loss is the mean over the targets of the whole batch. Every process knows their number in advance,
because a batch is a function of the step. Each part contributes its sum divided by that number, so the gradient does
not depend on how the batch is divided. A mean of the parts' means would, because some parts have more padding.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from musicgen.errors import UserError
from musicgen.spe import Draw
from musicgen.training.config import RunConfig
from musicgen.training.schedule import code_seed, feature_seed, learning_rate
from musicgen.training.validation import gather_full

EXPLODED = 2.0
"""Training has failed if the loss exceeds the loss of uniform guessing by this factor."""


class DivergenceError(UserError):
    """Training has failed. The message has the step, the draw and the last checkpoint."""


class AnyPart(Protocol):
    """Some rows of the batch of a step; what else it holds is known to those who make and who read it."""

    @property
    def step(self) -> int:
        """The step."""
        ...

    @property
    def num_targets(self) -> int:
        """Number of targets in the whole batch."""
        ...


class StepModule(LightningModule, abc.ABC):
    """A model in training.

    Args:
        model: The model.
        config: The config of the run.
        shard: Divides the model among processes, for `fsdp`.

    Attributes:
        metrics: The latest metrics, by name.
        last_checkpoint: A description of the last checkpoint, for error messages.
    """

    def __init__(self, model: nn.Module, config: RunConfig, shard: Callable[[Any], None] | None = None) -> None:
        super().__init__()
        self.model: Any = model
        self.config, self.shard = config, shard
        self.metrics: dict[str, float] = {}
        self.last_checkpoint = "there is no checkpoint yet"
        self._loss_sum: Tensor | None = None
        self._num_targets = 1

    @property
    @abc.abstractmethod
    def guessing(self) -> float:
        """The loss of uniform guessing."""

    @property
    def limit(self) -> float:
        """Training has failed if the loss is above this."""
        return EXPLODED * self.guessing

    @abc.abstractmethod
    def loss(self, part: Any, draw: Draw) -> Tensor:
        """The sum of the losses of a part."""

    def end_step(self) -> None:
        """Adds metrics of a step, if there are more than its loss."""

    def make_optimizer(self) -> Optimizer:
        """The optimizer of a run."""
        return Adam(self.model.parameters(), lr=self.config.optimizer.learning_rate, fused=True)

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step."""
        return learning_rate(step, self.config.optimizer, self.config.trainer.max_steps)

    def configure_model(self) -> None:
        """Divide the model among processes, if the strategy needs it."""
        if self.shard is not None:
            self.shard(self.model)
            self.shard = None

    def configure_optimizers(self) -> Any:
        """The optimizer, with a learning rate that is a function of the step."""
        optimizer, highest = self.make_optimizer(), self.config.optimizer.learning_rate
        rate = LambdaLR(optimizer, lambda step: self.learning_rate(step) / highest)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": rate, "interval": "step"}}

    def training_step(self, part: AnyPart, _: int) -> Tensor:
        """The loss of a part, scaled so that Lightning's means give the mean over the whole batch."""
        loss = self.loss(part, self.draw(part.step))
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
        """Check the loss and the gradient, then clip the gradient. Runs once per step.

        Raises:
            DivergenceError: The loss or the gradient is not finite, or the loss is too high.
        """
        assert self._loss_sum is not None  # noqa: S101  (a step has parts)
        loss = float(self.sum_over_processes(self._loss_sum)) / self._num_targets
        self._loss_sum = None
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optimizer.gradient_clip)
        length = float(gather_full(norm))
        if not math.isfinite(loss) or not math.isfinite(length) or loss > self.limit:
            step = self.trainer.global_step
            raise DivergenceError(
                f"training has failed at step {step + 1}: loss {loss:.4g} (guessing has {self.guessing:.2f}), gradient "
                f"{length:.4g}, draw {code_seed(self.config.seed, step)}; {self.last_checkpoint}; a lower "
                "optimizer.learning_rate or a longer optimizer.warmup_steps may help"
            )
        rate = float(optimizer.param_groups[0]["lr"])
        self.metrics |= {"train/loss": loss, "train/gradient_norm": length, "train/learning_rate": rate}
        self.end_step()

    def sum_over_processes(self, value: Tensor) -> Tensor:
        """The sum of a tensor over all processes."""
        return cast(Tensor, self.trainer.strategy.reduce(value, reduce_op="sum"))
