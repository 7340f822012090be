"""Dropout that does not dominate a training step.

torch's CPU dropout draws a float for every number, which takes a seventh of a step of the paper's model, and keeps it
for the backward pass. Here one 64-bit random integer serves four numbers. Two bytes are kept for each, or nothing after
a ReLU: a unit passed exactly where the output is positive.

The rate is exact to one part in 65 536.

Design note: a mask is a function of the draw, the place in the model and the row of the batch, like all noise.
So a row has the same masks for any number of processes, and after a run is resumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from musicgen.spe.draw import Draw, Stream, address


@dataclass(frozen=True)
class DropoutNoise:
    """The masks of one training step.

    Attributes:
        rate: The share of numbers that are zeroed.
        draw: The step's noise.
        first_row: Which row of the whole batch the first row here is.
    """

    rate: float
    draw: Draw
    first_row: int = 0

    def chances(self, site: int, like: Tensor) -> Tensor:
        """A random number from −2¹⁵ to 2¹⁵−1 for every number of `like`, two bytes each.

        Args:
            site: Which dropout of the model this is.
            like: `(batch, ...)`.
        """
        batch, numbers = like.shape[0], like[0].numel()
        words = torch.empty(batch, (numbers + 3) // 4, dtype=torch.int64, device=like.device)
        for row in () if like.is_meta else range(batch):
            key = (self.draw.seed, Stream.DROPOUT, site, self.first_row + row)
            words[row].random_(-(1 << 63), None, generator=address(*key, device=like.device))
        return words.view(torch.int16)[:, :numbers].reshape(like.shape)


def dropout(tensor: Tensor, noise: DropoutNoise | None, site: int) -> Tensor:
    """Zero a share of the numbers and scale the others to keep the mean. Does nothing without noise.

    Args:
        tensor: `(batch, ...)`.
        noise: The step's masks.
        site: Which dropout of the model this is.
    """
    if noise is None:
        return tensor
    result: Tensor = _Dropout.apply(tensor, noise.chances(site, tensor), noise.rate)
    return result


def relu_dropout(tensor: Tensor, noise: DropoutNoise | None, site: int) -> Tensor:
    """`dropout(relu(tensor))`."""
    if noise is None:
        return F.relu(tensor)
    result: Tensor = _ReluDropout.apply(tensor, noise.chances(site, tensor), noise.rate)
    return result


def _keep(tensor: Tensor, chances: Tensor, rate: float) -> Tensor:
    """`tensor`, scaled, where its chance is above the rate; 0 elsewhere."""
    # threshold_backward passes its first argument where the second is above a threshold: one vectorised pass,
    # where masks of booleans take three times as long.
    threshold = round(rate * (1 << 16)) - (1 << 15) - 0.5
    if tensor.dtype != torch.float32:  # fewer digits than a chance has
        return torch.where(chances > threshold, tensor, 0) * (1 / (1 - rate))
    kept = torch.ops.aten.threshold_backward(tensor, chances.to(tensor.dtype), threshold)
    return kept.mul_(1 / (1 - rate))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, chances: Tensor, rate: float) -> Tensor:
        ctx.save_for_backward(chances)
        ctx.rate = rate
        return _keep(tensor, chances, rate)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (chances,) = ctx.saved_tensors
        return _keep(gradient, chances, ctx.rate), None, None


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, chances: Tensor, rate: float) -> Tensor:
        output = _keep(tensor, chances, rate).clamp_min_(0.0)
        ctx.save_for_backward(output)
        ctx.rate = rate
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (output,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, output, 0.0).mul_(1 / (1 - ctx.rate)), None, None
