"""The gate: how much of each feature is positional.

A gated kernel is δ + (1−δ)·P_d: δ = 1 makes a feature ignore position, δ = 0 gives it to the code. `SPEFilter` is the
trained gate of one layer; apply.py applies a gated code at almost no cost.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musicgen.spe.apply import Mix
from musicgen.spe.code import PositionalCode, Positions
from musicgen.spe.draw import Draw, Stream
from musicgen.spe.shared import SharedCode


class SPEFilter(nn.Module):
    """Encodes queries and keys with a code, through a gate for each head and feature.

    Args:
        gated: Whether there is a gate.
        code_shape: (H, D) of the code; needed if gated.
        layer: Which layer this filter serves: each layer has its own gate noise.
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

        Layers that share a code build it once, as a `SharedCode`, and apply it with their own `mix`.
        """
        return SharedCode(code, draw, positions).apply(queries, keys, self.mix(code, draw))

    def mix(self, code: PositionalCode, draw: Draw) -> Mix | None:
        """What this gate does for one draw of a code; None if ungated."""
        if self.gate is None:
            return None
        if tuple(self.gate.shape) != code.code_shape:
            raise ValueError(
                f"a gate of shape {tuple(self.gate.shape)} does not fit a code of {code.code_shape} (heads, features)"
            )
        noise = self.noise(code, draw).to(self.gate)
        # √δ and √(1−δ) through logarithms: their gradients stay finite even if the gate is fully open or closed.
        share, rest = (F.logsigmoid(gate).mul(0.5).exp() for gate in (self.gate, -self.gate))
        return Mix(rest, share.unsqueeze(-1) * noise)

    def noise(self, code: PositionalCode, draw: Draw) -> Tensor:
        """ε of this layer for one draw of a code, `(H, D, R)`: what encodes the share that has no position."""
        heads, features = code.code_shape
        first = code.noise_rows if draw.noise == "exact" else 0
        rows = draw.rows(Stream.GATE, (self.layer,), heads, features, first)
        return rows * (features * draw.num_realizations) ** -0.25
