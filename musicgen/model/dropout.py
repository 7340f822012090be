"""Dropout that does not dominate a training step.

torch's CPU dropout draws a float for every number, by itself a seventh of a step of the paper's model, and keeps
it for the backward pass. Here one 64-bit random integer serves four numbers and what is kept is two bytes each, or
nothing at all after a ReLU: a unit passed exactly where the output is positive.

The rate is met to one part in 65 536. Masks come from torch's global generator, so `torch.manual_seed` rules them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def dropout(tensor: Tensor, rate: float, training: bool) -> Tensor:
    """Zero a share `rate` of the numbers and scale the others to keep the mean."""
    if not training or rate == 0:
        return tensor
    result: Tensor = _Dropout.apply(tensor, rate)
    return result


def relu_dropout(tensor: Tensor, rate: float, training: bool) -> Tensor:
    """`dropout(relu(tensor))`."""
    if not training or rate == 0:
        return F.relu(tensor)
    result: Tensor = _ReluDropout.apply(tensor, rate)
    return result


def _chances(like: Tensor) -> Tensor:
    """A random number from −2¹⁵ to 2¹⁵−1 for every number of `like`, two bytes each."""
    words = torch.empty((like.numel() + 3) // 4, dtype=torch.int64, device=like.device).random_(-(1 << 63), None)
    return words.view(torch.int16)[: like.numel()].view(like.shape)


def _keep(tensor: Tensor, chances: Tensor, rate: float) -> Tensor:
    """`tensor`, scaled, where its chance is above the rate; 0 elsewhere."""
    # threshold_backward passes its first argument where the second is above a threshold: one vectorised pass,
    # where masks of booleans take three times as long.
    threshold = round(rate * (1 << 16)) - (1 << 15) - 0.5
    kept = torch.ops.aten.threshold_backward(tensor, chances.to(tensor.dtype), threshold)
    return kept.mul_(1 / (1 - rate))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, rate: float) -> Tensor:
        chances = _chances(tensor)
        ctx.save_for_backward(chances)
        ctx.rate = rate
        return _keep(tensor, chances, rate)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (chances,) = ctx.saved_tensors
        return _keep(gradient, chances, ctx.rate), None


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, rate: float) -> Tensor:
        output = _keep(tensor, _chances(tensor), rate).clamp_min_(0.0)
        ctx.save_for_backward(output)
        ctx.rate = rate
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (output,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, output, 0.0).mul_(1 / (1 - ctx.rate)), None
