"""Absolute positions: sinusoids that are added to the embedded tokens. The paper's baseline.

In musical time the formula is the same, at positions on the grid of `time_resolution` steps per beat. So the shortest
period, 2π steps, is about half a beat, and the longest is beyond any piece: no two times look alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from musicgen.errors import UserError
from musicgen.model.positions.base import GraphEncoder, PositionalEncoding
from musicgen.spe import Draw

if TYPE_CHECKING:
    from musicgen.model.config import PerformerConfig
    from musicgen.model.graph.builder import Graph


class AbsoluteEncoding(PositionalEncoding):
    """`pe=ape`."""

    name = "ape"
    has_graph = True

    @classmethod
    def check(cls, config: PerformerConfig) -> None:
        """Sines and cosines come in pairs."""
        super().check(config)
        if config.d_model % 2:
            raise UserError(f"ape needs an even d_model, not {config.d_model}")

    @classmethod
    def describe(cls, config: PerformerConfig) -> str:  # noqa: ARG003
        """The encoding in words."""
        return "sinusoids added to the tokens"

    def add_to(self, hidden: Tensor, positions: Tensor) -> Tensor:
        """Tokens with their sinusoids: sine and cosine in turn."""
        phases = sinusoid_phases(positions, self.config.d_model)
        return hidden + torch.stack([phases.sin(), phases.cos()], -1).flatten(-2).to(hidden)

    def add_to_graph(self, graph: Graph, hidden: str, position: str) -> str:
        """Tokens with their sinusoids."""
        width = self.config.d_model
        frequencies = sinusoid_phases(torch.ones(()), width) / (2 * math.pi)
        cosines, sines = graph.cos_sin(position, frequencies.unsqueeze(-1))
        columns = (sines, cosines)
        return graph.op("Add", hidden, graph.reshape(graph.op("Concat", *columns, axis=2), width))

    def graph_encoder(self, graph: Graph, draw: Draw, position: str) -> GraphEncoder:  # noqa: ARG002
        """Queries and keys as they are."""
        return lambda layer, pairs: (pairs, self.config.head_features)  # noqa: ARG005


def sinusoid_phases(positions: Tensor, features: int) -> Tensor:
    """n·10000^(−2i/features), `(*positions, features/2)`, in float64, so that no position is too large."""
    exponents = torch.arange(0, features, 2, dtype=torch.float64, device="cpu") / features
    return positions.double().cpu().unsqueeze(-1) * 10_000.0**-exponents
