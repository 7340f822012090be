"""The training step of a language model of songs.

Gaps in examples have their own metrics: the loss of plain examples, and that of fills.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from musicgen.data.batches import IGNORED
from musicgen.model import PerformerLM
from musicgen.spe import Draw
from musicgen.training.config import TrainConfig
from musicgen.training.loaders import Part
from musicgen.training.step import StepModule


class TrainingModule(StepModule):
    """A language model in training.

    Args:
        model: The model.
        config: The config of the run.
        shard: Divides the model among processes, for `fsdp`.
        fill: The token after which gaps are filled; None if no example has gaps.
    """

    def __init__(
        self,
        model: PerformerLM,
        config: TrainConfig,
        shard: Callable[[PerformerLM], None] | None = None,
        fill: int | None = None,
    ) -> None:
        super().__init__(model, config, shard)
        self.fill = fill
        self._apart: Tensor | None = None

    @property
    def guessing(self) -> float:
        """The loss of a token if all are equally likely."""
        return math.log(self.model.config.vocab_size)

    def loss(self, part: Part, draw: Draw) -> Tensor:
        """The sum of the losses of a part's tokens."""
        logits = self.model(part.inputs, draw, first_row=part.first_row, times=part.times)
        reduction = "sum" if self.fill is None else "none"
        loss = F.cross_entropy(
            logits.flatten(0, 1).float(), part.targets.flatten(), ignore_index=IGNORED, reduction=reduction
        )
        if self.fill is not None:
            apart = loss_apart(loss.detach().view_as(part.targets), part, self.fill)
            self._apart = apart if self._apart is None else self._apart + apart
            loss = loss.sum()
        return loss

    def end_step(self) -> None:
        """Adds the losses of plain examples and of fills."""
        if self._apart is not None:
            sums, counts = self.sum_over_processes(self._apart).tolist()
            self._apart = None
            for name, total, count in zip(("train/plain_loss", "train/infill_loss"), sums, counts, strict=True):
                self.metrics.pop(name, None)
                if count:
                    self.metrics[name] = total / count


def loss_apart(losses: Tensor, part: Part, fill: int) -> Tensor:
    """Sums of losses (first row) and numbers of tokens: of plain examples, and of fills; `(2, 2)`.

    Args:
        losses: The loss of each target, `(rows, length)`; 0 where there is none.
        part: The part.
        fill: The token after which gaps are filled.
    """
    is_fill = (part.inputs == fill).cumsum(-1) > 0
    is_token = part.targets != IGNORED
    kinds = torch.stack([~is_fill.any(-1, keepdim=True) & is_token, is_fill & is_token]).double()
    return torch.stack([(losses * kinds).sum((1, 2)), kinds.sum((1, 2))])
