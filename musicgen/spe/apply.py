"""Codes applied to queries and keys, with or without a gate.

Design note: the gate acts on the queries, not on the codes. Gating the codes, √(1−δ)·q̄ + √δ·ε, costs a copy
of the whole code in every layer. The contraction is linear, so q̂ = (q√(1−δ))·q̄ + q·(√δ·ε) is the same number and
needs only a small (H, D, R) matrix. It is a matrix product batched over positions and heads: no product over batch,
length, features and realisations is ever written.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Mix(NamedTuple):
    """What a gate does to one layer's queries and keys, for one draw."""

    weight: Tensor
    """√(1−δ), `(H, D)`: the share of the code."""
    noise: Tensor
    """√δ·ε, `(H, D, R)`: the same at every position."""


class AppliedCode(Protocol):
    """A code at some positions, ready to be applied."""

    def apply(self, queries: Tensor, keys: Tensor, mix: Mix | None = None) -> tuple[Tensor, Tensor]:
        """Encode queries and keys: `(batch, *positions, H, D)` to `(batch, *positions, H, R)`."""
        ...


def contract(inputs: Tensor, code: Tensor) -> Tensor:
    """`(B, *P, H, D)` times `(*P, H, D, R)`, position by position and head by head: `(B, *P, H, R)`."""
    return torch.matmul(inputs.movedim(0, -2), code).movedim(-2, 0)


def by_head(inputs: Tensor, matrices: Tensor) -> Tensor:
    """`(B, *P, H, D)` times `(H, D, R)`, head by head: `(B, *P, H, R)`."""
    return torch.einsum("...hd,hdr->...hr", inputs, matrices)
