"""Stochastic positional encoding (SPE): what the sine and the conv form share.

All layers share one code, or each has its own; each layer has a gate. For a whole sequence the code is built once
for all layers. For one token at a time it comes from a small cache of blocks, which are built when needed.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from musicgen.model.positions.base import Encoder, GraphEncoder, PositionalEncoding, StepEncoder, Stream
from musicgen.model.positions.rotation import Rotation, check_rotation, describe_rotation
from musicgen.spe import AppliedCode, Draw, Mix, PositionalCode, SharedCode, SPEFilter

if TYPE_CHECKING:
    from musicgen.model.config import PerformerConfig
    from musicgen.model.graph.builder import Graph


class StochasticEncoding(PositionalEncoding):
    """The base of `pe=sine` and `pe=conv`."""

    is_stochastic = True
    has_graph = True
    default_rotated = 0.0
    stream_block: ClassVar[int]
    """Positions whose codes are built at a time in streaming."""

    def __init__(self, config: PerformerConfig) -> None:
        super().__init__(config)
        self.codes.extend(self.make_code(config) for _ in range(1 if config.shared else config.num_layers))
        shape = (config.num_heads, config.head_features)
        self.filters.extend(SPEFilter(config.gated, shape, layer) for layer in range(config.num_layers))
        self.rotation = Rotation(config) if config.rotated_share else None

    @staticmethod
    @abc.abstractmethod
    def make_code(config: PerformerConfig) -> PositionalCode:
        """A new code."""

    @classmethod
    def check(cls, config: PerformerConfig) -> None:
        """A rotation before the code must be possible."""
        super().check(config)
        if config.rotated_share:
            check_rotation(config)

    @classmethod
    @abc.abstractmethod
    def describe_kernel(cls, config: PerformerConfig) -> str:
        """The kernels in words."""

    @classmethod
    def describe(cls, config: PerformerConfig) -> str:
        """The encoding in words."""
        rotation = [describe_rotation(config)] if config.rotated_share else []
        return ", ".join(
            [
                f"SPE, {cls.describe_kernel(config)}",
                f"{config.num_realizations} realisations of {config.noise} noise",
                "a gate in each layer" if config.gated else "no gates",
                "one code for all layers" if config.shared else "one code for each layer",
                *rotation,
            ]
        )

    def draws(self, draw: Draw) -> list[Draw]:
        """The draw of each code: layers that do not share a code do not share its noise."""
        indices = range(len(self.codes))
        return [draw for _ in indices] if self.config.shared else [draw.child(index) for index in indices]

    def mixes(self, draw: Draw) -> list[Mix | None]:
        """What the gate of each layer does for a draw."""
        codes = cast(Sequence[PositionalCode], self.codes)
        filters = cast(Sequence[SPEFilter], self.filters)
        return [gate.mix(codes[layer % len(codes)], draw) for layer, gate in enumerate(filters)]

    def applied(self, code: PositionalCode, draw: Draw, positions: Tensor) -> AppliedCode:
        """A code at the positions of a sequence, ready for all layers."""
        return SharedCode(code, draw, positions)

    def encoder(self, draw: Draw, positions: Tensor, like: Tensor) -> Encoder:
        """Rotates, if requested; then applies codes that are built once, through the gates of the layers."""
        pairs = zip(cast(Sequence[PositionalCode], self.codes), self.draws(draw), strict=True)
        codes = [self.applied(code, own_draw, positions) for code, own_draw in pairs]
        mixes = self.mixes(draw)
        rotate = None if self.rotation is None else self.rotation.parallel(positions, like)

        def encode(layer: int, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
            if rotate is not None:
                queries, keys = rotate(queries), rotate(keys)
            return codes[layer % len(codes)].apply(queries, keys, mixes[layer])

        return encode

    def stream(self, draw: Draw, like: Tensor) -> Stream:
        """Rotates, if requested; then applies the code of each row's position."""
        pairs = zip(cast(Sequence[PositionalCode], self.codes), self.draws(draw), strict=True)
        windows = [CodeWindow(code, own_draw, self.stream_block) for code, own_draw in pairs]
        mixes = self.mixes(draw)

        def at(positions: Sequence[float]) -> StepEncoder:
            coded = [self.coded_position(position) for position in positions]
            codes = [window.at(coded) for window in windows]
            rotate = None
            if self.rotation is not None:
                rotate = self.rotation.step(torch.tensor(positions, dtype=torch.float64), like)

            def encode(layer: int, pairs: Tensor) -> Tensor:
                pairs = pairs if rotate is None else rotate(pairs)
                return _encode(pairs, coded, codes[layer % len(codes)], mixes[layer])

            return encode

        return at

    def graph_encoder(self, graph: Graph, draw: Draw, position: str) -> GraphEncoder:
        """As `stream`: rotates, if requested; then applies the code of each row's position."""
        pairs = zip(cast(Sequence[PositionalCode], self.codes), self.draws(draw), strict=True)
        codes = [self.graph_code(graph, code, own_draw, position) for code, own_draw in pairs]
        mixes = self.mixes(draw)
        rotate = None if self.rotation is None else self.rotation.graph(graph, position)

        def encode(layer: int, pairs: str) -> tuple[str, int]:
            pairs = pairs if rotate is None else rotate(pairs)
            code, mix = codes[layer % len(codes)], mixes[layer]
            if mix is None:
                return graph.op("MatMul", pairs, code), draw.num_realizations
            weight, noise = (torch.cat([tensor, tensor]) for tensor in mix)  # for queries and for keys
            weighted = graph.op("Mul", pairs, graph.constant(weight.unsqueeze(-2)))
            noisy = graph.op("MatMul", pairs, graph.constant(noise))
            return graph.op("Add", graph.op("MatMul", weighted, code), noisy), draw.num_realizations

        return encode

    def graph_code(self, graph: Graph, code: PositionalCode, draw: Draw, position: str) -> str:  # noqa: ARG002
        """q̄, then k̄, of each row: `(batch, 2H, D, R)`. An input, whose noise is addressed by position."""
        window, name = CodeWindow(code, draw, self.stream_block), f"code_{len(graph.feeds)}"

        def feed(positions: Sequence[float]) -> NDArray[np.float32]:
            coded = [self.coded_position(position) for position in positions]
            codes = window.at(coded)
            return torch.stack([codes[position].flatten(0, 1) for position in coded]).numpy()

        graph.feeds[name] = feed
        heads, features = code.code_shape
        return graph.input(name, (2 * heads, features, draw.num_realizations), axis="places")

    def coded_position(self, position: float) -> float:
        """Where the code of a position is taken from."""
        return position


def _encode(pairs: Tensor, positions: Sequence[float], codes: dict[float, Tensor], mix: Mix | None) -> Tensor:
    """`(batch, 2, heads, D)` multiplied by the code of each row's position, `(2, heads, D, R)`."""
    if mix is not None:
        # The gate acts on the codes here: those of one position are small, and two more products would be slow.
        weight = mix.weight.unsqueeze(-1)
        codes = {position: torch.addcmul(mix.noise, code, weight) for position, code in codes.items()}
    # One product for each row: the rounding of one product for all rows would depend on their number.
    batch, _, heads, features = pairs.shape
    flat = {position: code.view(2 * heads, features, -1) for position, code in codes.items()}
    rows = zip(pairs.view(batch, 2 * heads, 1, features), positions, strict=True)
    encoded = [torch.bmm(row, flat[position]) for row, position in rows]
    return torch.stack(encoded).view(batch, 2, heads, -1)


class CodeWindow:
    """A code at single positions, built block by block.

    The latest blocks are kept, two or as many as the rows need. They follow from the draw, so they are not part of a
    state. A block is always computed as a whole, so the code of a position always has the same bits.
    """

    def __init__(self, code: PositionalCode, draw: Draw, block: int) -> None:
        self._code, self._draw, self._block = code, draw, block
        self._built: dict[float, Tensor] = {}

    def at(self, positions: Sequence[float]) -> dict[float, Tensor]:
        """q̄ and k̄ of each position, `(2, H, D, R)`."""
        places = {position: self._place(position) for position in set(positions)}
        blocks = {index for index, _ in places.values()}
        for index in blocks:
            built = self._built.pop(index, None)
            self._built[index] = self._build(index) if built is None else built  # the latest is last
        for index in list(self._built)[: -max(2, len(blocks))]:
            del self._built[index]
        return {position: self._built[index][offset] for position, (index, offset) in places.items()}

    def _place(self, position: float) -> tuple[float, int]:
        """Block and place in it of a whole position; a position between whole ones is its own block."""
        if position != int(position):
            return position, 0
        index, offset = divmod(int(position), self._block)
        return index, offset

    def _build(self, index: float) -> Tensor:
        """A block, `(positions, 2, H, D, R)`."""
        positions = torch.tensor([index], dtype=torch.float64)
        if index == int(index):
            positions = torch.arange(self._block) + int(index) * self._block
        code = SharedCode(self._code, self._draw, positions)
        return torch.stack([code.query_code, code.key_code], 1)
