"""What causal linear attention remembers, and the arithmetic of its scale.

All the past of a head is one matrix, Σ_n γ^(m−n)·φ(k_n)·[v_n, 1]ᵀ. Its last column is the normaliser, carried as
one more value, so numerator and denominator are one code path.

Key features carry log factors c_n that may differ by hundreds of nats, so the matrix is kept relative to
exp(log_scale), where log_scale is the running maximum M_m = max(M_{m−1} + log γ, c_m). It depends on the past
alone; whatever underflows against it is negligible in every later output.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

NOTHING = -1e30  # the log scale of an empty memory: −∞, but a number, so that differences of it are numbers


@dataclasses.dataclass(frozen=True)
class AttentionState:
    """Memory after some tokens; the true one is `memory · exp(log_scale)`.

    Attributes:
        memory: `(batch, heads, F, values + 1)`.
        log_scale: `(batch, heads)`.
    """

    memory: Tensor
    log_scale: Tensor

    @classmethod
    def empty(cls, batch: int, heads: int, features: int, values: int, like: Tensor) -> AttentionState:
        """The state before any token, of the dtype and on the device of `like`."""
        return cls(like.new_zeros(batch, heads, features, values + 1), like.new_full((batch, heads), NOTHING))


def passed_steps(length: int, elapsed: Tensor | None, like: Tensor) -> Tensor:
    """t since the state, at each token: `(length,)` or, where rows differ, `(batch, 1, length)`, in float64."""
    if elapsed is None:
        return torch.arange(1, length + 1, device=like.device, dtype=torch.float64)
    return elapsed.to(like.device, torch.float64).cumsum(-1).unsqueeze(1)


def with_ones(values: Tensor) -> Tensor:
    """`(..., V)` to `(..., V+1)`: values with the normaliser's column of ones."""
    return torch.cat([values, values.new_ones(*values.shape[:-1], 1)], -1)


def normalise(sums: Tensor) -> Tensor:
    """`(..., V+1)` sums to `(..., V)` outputs. Where no key matches (ReLU features), the output is 0."""
    if sums.requires_grad:
        return sums[..., :-1] * inverse_weight(sums)
    # Fewer operations, the same result: sums without weight are 0. Only their gradient would differ.
    return sums[..., :-1] / sums[..., -1:].clamp_min(torch.finfo(sums.dtype).tiny)


def inverse_weight(sums: Tensor) -> Tensor:
    """1/denominator, `(..., 1)`; 0 where the denominator is 0."""
    weight = sums[..., -1:]
    return torch.where(weight > 0, 1 / weight.clamp_min(torch.finfo(sums.dtype).tiny), 0.0)
