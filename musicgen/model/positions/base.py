"""What every positional encoding is: one class with everything that the model needs to know about positions.

`pe=name` finds a subclass in a file of this folder. It defines

- which configs are impossible (`check`) and its text in `musicgen describe` (`describe`),
- what is added to embedded tokens (`add_to`: only `ape` adds something),
- what happens to queries and keys of a whole sequence (`encoder`) and of one token in each row (`stream`),
- the same for one token in each row as a part of an ONNX graph (`add_to_graph`, `graph_encoder`).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from musicgen.errors import UserError
from musicgen.spe import Draw

if TYPE_CHECKING:
    from musicgen.model.config import PerformerConfig
    from musicgen.model.graph.builder import Graph

Encoder = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(layer, queries, keys) to encoded queries and keys: `(batch, length, heads, D)` to `(batch, length, heads, E)`."""

StepEncoder = Callable[[int, Tensor], Tensor]
"""(layer, queries and keys of one token in each row) to encoded ones: `(batch, 2, heads, D)` to `(batch, 2, heads, E)`.
The bits of a row do not depend on the other rows."""

Stream = Callable[[Sequence[float]], StepEncoder]
"""The position of each row to the encoder of one token in each row."""

GraphEncoder = Callable[[int, str], tuple[str, int]]
"""(layer, queries and keys in a graph) to encoded ones and E: `(batch, 2·heads, 1, D)` to `(batch, 2·heads, 1, E)`.
The queries of all heads are before the keys."""

REGISTRY: dict[str, type[PositionalEncoding]] = {}
"""All encodings by name."""


class PositionalEncoding(nn.Module, abc.ABC):
    """The trained part of a model's positional encoding, and what it does."""

    name: ClassVar[str]
    is_stochastic: ClassVar[bool] = False
    """Whether noise encodes positions, so that queries and keys get R features."""
    has_exact_noise: ClassVar[bool] = False
    """Whether it can do without randomness."""
    knows_positions: ClassVar[bool] = True
    """Whether it uses positions."""
    has_graph: ClassVar[bool] = False
    """Whether it can be part of an ONNX graph; only torch can run a model whose encoding cannot."""
    default_rotated: ClassVar[float | None] = None
    """The share of features that is rotated if the config does not say; None if it has no rotation."""

    def __init__(self, config: PerformerConfig) -> None:
        super().__init__()
        self.config = config
        self.codes = nn.ModuleList()
        """Stochastic codes: one, or one for each layer; empty without noise."""
        self.filters = nn.ModuleList()
        """The gates of these codes, one for each layer."""

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            REGISTRY[cls.name] = cls

    @classmethod
    def check(cls, config: PerformerConfig) -> None:
        """Raise `UserError` if this encoding cannot work with the config."""
        if config.noise == "exact" and not cls.has_exact_noise:
            raise UserError(f"noise=exact is for pe=sine, not pe={config.pe}")
        if config.rotated and cls.default_rotated is None:
            raise UserError(f"rotated is for pe=rope, sine and conv, not pe={config.pe}")

    @classmethod
    @abc.abstractmethod
    def describe(cls, config: PerformerConfig) -> str:
        """The encoding in words."""

    def add_to(self, hidden: Tensor, positions: Tensor) -> Tensor:  # noqa: ARG002
        """Embedded tokens `(batch, length, d_model)` with what this encoding adds to them.

        Args:
            hidden: The tokens.
            positions: `(length,)`, or `(batch, length)` where rows differ.
        """
        return hidden

    def encoder(self, draw: Draw, positions: Tensor, like: Tensor) -> Encoder:  # noqa: ARG002
        """The encoder of a sequence.

        Args:
            draw: The noise.
            positions: `(length,)`, or `(batch, length)` where rows differ.
            like: A tensor of the dtype and on the device to work in.
        """
        return lambda layer, queries, keys: (queries, keys)  # noqa: ARG005

    def stream(self, draw: Draw, like: Tensor) -> Stream:  # noqa: ARG002
        """The same for one token in each row; each row has its own position.

        Args:
            draw: The noise.
            like: A tensor of the dtype and on the device to work in.
        """
        return lambda positions: lambda layer, pairs: pairs  # noqa: ARG005

    def add_to_graph(self, graph: Graph, hidden: str, position: str) -> str:  # noqa: ARG002
        """As `add_to`, in a graph: `(batch, d_model)` at `(batch,)`."""
        return hidden

    def graph_encoder(self, graph: Graph, draw: Draw, position: str) -> GraphEncoder:
        """As `stream`, in a graph; only if `has_graph`.

        Args:
            graph: The graph of a step.
            draw: The noise.
            position: Where each row is, `(batch,)` in 64 bits.
        """
        raise NotImplementedError
