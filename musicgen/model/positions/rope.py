"""Rotary positions: queries and keys are rotated, so that their products depend only on the distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from musicgen.errors import UserError
from musicgen.model.positions.base import Encoder, GraphEncoder, PositionalEncoding, StepEncoder, Stream
from musicgen.model.positions.rotation import Rotation, check_rotation, describe_rotation
from musicgen.spe import Draw

if TYPE_CHECKING:
    from musicgen.model.config import PerformerConfig
    from musicgen.model.graph.builder import Graph


class RotaryEncoding(PositionalEncoding):
    """`pe=rope`."""

    name = "rope"
    default_rotated = 1.0
    has_graph = True

    def __init__(self, config: PerformerConfig) -> None:
        super().__init__(config)
        self.rotation = Rotation(config)

    @classmethod
    def check(cls, config: PerformerConfig) -> None:
        """Features are rotated in pairs, at least one of them."""
        super().check(config)
        check_rotation(config)
        if not config.rotated_share:
            raise UserError("rotated=0 leaves nothing of rope; choose pe=none")

    @classmethod
    def describe(cls, config: PerformerConfig) -> str:
        """The encoding in words."""
        return describe_rotation(config)

    def encoder(self, draw: Draw, positions: Tensor, like: Tensor) -> Encoder:  # noqa: ARG002
        """Rotates queries and keys."""
        rotate = self.rotation.parallel(positions, like)
        return lambda layer, queries, keys: (rotate(queries), rotate(keys))  # noqa: ARG005

    def stream(self, draw: Draw, like: Tensor) -> Stream:  # noqa: ARG002
        """Rotates both of each row by the row's angles."""

        def at(positions: Sequence[float]) -> StepEncoder:
            rotate = self.rotation.step(torch.tensor(positions, dtype=torch.float64), like)
            return lambda layer, pairs: rotate(pairs)  # noqa: ARG005

        return at

    def graph_encoder(self, graph: Graph, draw: Draw, position: str) -> GraphEncoder:  # noqa: ARG002
        """Rotates both of each row."""
        rotate = self.rotation.graph(graph, position)
        return lambda layer, pairs: (rotate(pairs), self.config.head_features)  # noqa: ARG005
