"""Gated parts of a layer: the feed-forward network (SwiGLU), the delta rule and the output of attention.

Each has a form for whole sequences and one for a step. The rounding of torch's sigmoid depends on the place in memory.
The step uses another form of it, so that the bits of a row do not depend on the other rows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def gated_width(d_ff: int) -> int:
    """The inner width at which three matrices have as many parameters as two of width `d_ff`."""
    return max(1, 2 * d_ff // 3)


def swiglu(expanded: Tensor) -> Tensor:
    """silu(a)·b of the halves a and b of `(..., 2·width)`: `(..., width)`."""
    first, second = expanded.chunk(2, -1)
    return F.silu(first) * second


def swiglu_step(expanded: Tensor) -> Tensor:
    """`swiglu` with bits that depend on each number alone."""
    first, second = expanded.chunk(2, -1)
    return first * second / _one_plus_exp(first)


def silu_step(tensor: Tensor) -> Tensor:
    """`silu` with bits that depend on each number alone."""
    return tensor / _one_plus_exp(tensor)


def unit(tensor: Tensor) -> Tensor:
    """Vectors of length 1 along the last axis."""
    return tensor / (tensor * tensor).sum(-1, keepdim=True).sqrt().clamp_min(1e-12)


class DeltaGates(nn.Module):
    """How strongly each head writes to its memory, and how fast it forgets, from what the layer reads.

    Args:
        width: d_model.
        heads: H.
        decays: Whether the heads have a decay. The gate then doubles its pace at most, and stops it at least.
    """

    def __init__(self, width: int, heads: int, decays: bool) -> None:
        super().__init__()
        self.project = nn.Linear(width, 2 * heads if decays else heads)
        self.heads = heads

    def forward(self, source: Tensor, log_decay: Tensor | None, elapsed: Tensor | None) -> tuple[Tensor, Tensor]:
        """β and log γ of each token, both `(batch, length, heads)`.

        Args:
            source: What the layer reads, `(batch, length, d_model)`.
            log_decay: The decay of the heads, `(heads,)`; None means none.
            elapsed: How far each token is from the one before it, `(batch, length)`; None means 1.
        """
        return delta_gates(torch.sigmoid(self.project(source)), self.heads, log_decay, elapsed)


def delta_gates(gates: Tensor, heads: int, log_decay: Tensor | None, elapsed: Tensor | None) -> tuple[Tensor, Tensor]:
    """β and log γ, `(..., heads)`, from gates between 0 and 1, `(..., heads)` or `(..., 2·heads)`."""
    strength = gates[..., :heads]
    if log_decay is None:
        return strength, torch.zeros_like(strength)
    decay = 2 * gates[..., heads:] * log_decay
    return strength, decay if elapsed is None else decay * elapsed.unsqueeze(-1).to(decay)


def sigmoid_step(tensor: Tensor) -> Tensor:
    """`sigmoid` with bits that depend on each number alone."""
    return 1 / _one_plus_exp(tensor)


class HeadOutput(nn.Module):
    """What happens to the output of attention before the heads are mixed: each is normalised, or gated, or both.

    Args:
        width: d_model.
        heads: H.
        norm: Whether each head is normalised.
        gate: Whether a gate scales each number.
    """

    def __init__(self, width: int, heads: int, norm: bool, gate: bool) -> None:
        super().__init__()
        self.heads = heads
        self.weight = nn.Parameter(torch.ones(width)) if norm else None
        self.gate = nn.Linear(width, width) if gate else None

    def forward(self, attended: Tensor, hidden: Tensor) -> Tensor:
        """Outputs `(..., d_model)`, gated by what the layer read, `(..., d_model)`."""
        attended = self.normalise(attended)
        return attended if self.gate is None else attended * torch.sigmoid(self.gate(hidden))

    def normalise(self, attended: Tensor) -> Tensor:
        """Each head's output with mean 0 and variance 1, times a learnt weight."""
        if self.weight is None:
            return attended
        heads = attended.unflatten(-1, (self.heads, -1))
        return F.layer_norm(heads, heads.shape[-1:]).flatten(-2) * self.weight


def sigmoid_gate_step(attended: Tensor, gate: Tensor) -> Tensor:
    """attended·sigmoid(gate), with bits that depend on each number alone."""
    return attended / _one_plus_exp(gate)


def _one_plus_exp(tensor: Tensor) -> Tensor:
    """1 + exp(−x)."""
    return tensor.neg().exp_().add_(1)
