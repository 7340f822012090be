"""No encoding: the model knows order through causality, and through the decay if it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from musicgen.model.positions.base import GraphEncoder, PositionalEncoding
from musicgen.spe import Draw

if TYPE_CHECKING:
    from musicgen.model.config import PerformerConfig
    from musicgen.model.graph.builder import Graph


class NoEncoding(PositionalEncoding):
    """`pe=none`."""

    name = "none"
    knows_positions = False
    has_graph = True

    @classmethod
    def describe(cls, config: PerformerConfig) -> str:  # noqa: ARG003
        """The encoding in words."""
        return "not encoded"

    def graph_encoder(self, graph: Graph, draw: Draw, position: str) -> GraphEncoder:  # noqa: ARG002
        """Queries and keys as they are."""
        return lambda layer, pairs: (pairs, self.config.head_features)  # noqa: ARG005
