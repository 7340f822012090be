"""Dropout that does not dominate a training step.

torch's CPU dropout draws a float for every number, by itself a seventh of a step of the paper's model, and keeps
it for the backward pass. Here one 64-bit random integer serves four numbers and what is kept is a byte each, or
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


def _dropped(like: Tensor, rate: float) -> Tensor:
    """True for a random share `rate`, in the shape of `like`."""
    words = torch.empty((like.numel() + 3) // 4, dtype=torch.int64, device=like.device).random_(-(1 << 63), None)
    halves = words.view(torch.int16)[: like.numel()]
    return (halves < round(rate * (1 << 16)) - (1 << 15)).view(like.shape)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, rate: float) -> Tensor:
        dropped = _dropped(tensor, rate)
        ctx.save_for_backward(dropped)
        ctx.scale = 1 / (1 - rate)
        return (tensor * ctx.scale).masked_fill_(dropped, 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (dropped,) = ctx.saved_tensors
        return (gradient * ctx.scale).masked_fill_(dropped, 0.0), None


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, rate: float) -> Tensor:
        ctx.scale = 1 / (1 - rate)
        output = (tensor * ctx.scale).clamp_min_(0.0).masked_fill_(_dropped(tensor, rate), 0.0)
        ctx.save_for_backward(output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (output,) = ctx.saved_tensors
        return (gradient * ctx.scale).masked_fill_(output <= 0, 0.0), None
