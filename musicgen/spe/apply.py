"""Codes applied to queries and keys, with or without a gate.

The hard choice: the gate acts on the queries, not on the codes. Gating the codes, √(1−δ)·q̄ + √δ·ε, costs a copy
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
    """√(1−δ), `(H, D)`: how much of the code."""
    noise: Tensor
    """√δ·ε, `(H, D, R)`: what every position has alike."""


class AppliedCode(Protocol):
    """A code at some positions, ready to be applied."""

    def apply(self, queries: Tensor, keys: Tensor, mix: Mix | None = None) -> tuple[Tensor, Tensor]:
        """Encode queries and keys: `(batch, *positions, H, D)` to `(batch, *positions, H, R)`."""
        ...


class BuiltCode:
    """Codes as plain tensors.

    Args:
        query_code: q̄, `(*positions, H, D, R)`.
        key_code: k̄, `(*positions, H, D, R)`.
    """

    def __init__(self, query_code: Tensor, key_code: Tensor) -> None:
        self.query_code, self.key_code = query_code, key_code

    def apply(self, queries: Tensor, keys: Tensor, mix: Mix | None = None) -> tuple[Tensor, Tensor]:
        """Encode queries and keys: `(batch, *positions, H, D)` to `(batch, *positions, H, R)`."""
        return encode(queries, self.query_code, mix), encode(keys, self.key_code, mix)


def encode(inputs: Tensor, code: Tensor, mix: Mix | None) -> Tensor:
    """Queries or keys `(B, *P, H, D)` met with a code `(*P, H, D, R)`, through a gate if there is one."""
    if mix is None:
        return contract(inputs, code)
    return contract(inputs * mix.weight, code) + by_head(inputs, mix.noise)


def contract(inputs: Tensor, code: Tensor) -> Tensor:
    """`(B, *P, H, D)` times `(*P, H, D, R)`, position by position and head by head: `(B, *P, H, R)`."""
    return torch.matmul(inputs.movedim(0, -2), code).movedim(-2, 0)


def by_head(inputs: Tensor, matrices: Tensor) -> Tensor:
    """`(B, *P, H, D)` times `(H, D, R)`, head by head: `(B, *P, H, R)`."""
    return torch.einsum("...hd,hdr->...hr", inputs, matrices)
