"""The gate: how much of each feature is positional, and the application of a code.

A gated kernel is δ + (1−δ)·P_d: δ = 1 makes a feature ignore position, δ = 0 gives it to the code.

The hard choice: the gate acts on the queries, not on the codes. Gating the codes, √(1−δ)·q̄ + √δ·ε, costs a copy
of the whole code in every layer. The contraction is linear, so
q̂ = (q√(1−δ))·q̄ + q·(√δ·ε) is the same number and needs only a small (H, D, R) matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from musicgen.spe.code import PositionalCode, Positions
from musicgen.spe.draw import Draw, Stream
from musicgen.spe.shared import AppliedCode, SharedCode


class SPEFilter(nn.Module):
    """Encodes queries and keys with a code, through a gate for each head and feature.

    Args:
        gated: Whether there is a gate.
        code_shape: (H, D) of the code; needed if gated.
        layer: Which layer this filter serves: each layer has gate noise of its own.
    """

    def __init__(self, gated: bool = True, code_shape: tuple[int, int] | None = None, layer: int = 0) -> None:
        super().__init__()
        if gated and code_shape is None:
            raise ValueError("a gated SPEFilter needs code_shape, the (heads, features) of its code")
        self.layer = layer
        self.gate = nn.Parameter(torch.randn(code_shape)) if gated and code_shape else None

    @property
    def delta(self) -> Tensor | None:
        """δ in (0, 1), `(H, D)`: the share of each feature that is not positional; None if ungated."""
        return None if self.gate is None else torch.sigmoid(self.gate)

    def forward(
        self, queries: Tensor, keys: Tensor, code: PositionalCode, draw: Draw, positions: Positions
    ) -> tuple[Tensor, Tensor]:
        """Encode queries and keys, `(batch, *length, H, D)`, to `(batch, *length, H, R)` each.

        Layers that share a code build it once, as a `SharedCode`, and call `encode`.
        """
        return self.encode(queries, keys, SharedCode(code, draw, positions), self.gate_noise(code, draw))

    def encode(
        self, queries: Tensor, keys: Tensor, code: AppliedCode, gate_noise: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Encode with a code that is ready to apply and this filter's `gate_noise` of the same draw."""
        delta = self.delta
        if delta is None or gate_noise is None:
            return code.apply(queries, keys)
        weight = (1 - delta).sqrt()
        encoded = code.apply(queries * weight, keys * weight)
        return encoded[0] + _mix(queries, gate_noise), encoded[1] + _mix(keys, gate_noise)

    def gate_noise(self, code: PositionalCode, draw: Draw) -> Tensor | None:
        """√δ·ε with the published (D·R)^−¼, `(H, D, R)`; None if ungated."""
        delta = self.delta
        if delta is None:
            return None
        if tuple(delta.shape) != code.code_shape:
            raise ValueError(
                f"a gate of shape {tuple(delta.shape)} does not fit a code of {code.code_shape} (heads, features)"
            )
        heads, features = code.code_shape
        first = code.noise_rows if draw.noise == "exact" else 0
        noise = draw.rows(Stream.GATE, (self.layer,), heads, features, first).to(delta)
        return delta.sqrt().unsqueeze(-1) * noise * (features * draw.num_realizations) ** -0.25


def _mix(tensor: Tensor, gate_noise: Tensor) -> Tensor:
    """`(B, *N, H, D)` times `(H, D, R)`, head by head."""
    return torch.einsum("...hd,hdr->...hr", tensor, gate_noise)
