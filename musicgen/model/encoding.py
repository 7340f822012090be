"""How queries and keys meet their positions: one interface for every encoding, in training and in streaming.

`PositionalEncoding` holds what is trained (codes and gates; nothing for the others). `encoder(...)` binds it to a
draw and to positions, giving what each layer calls once on its queries and keys. A new encoding is added here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from musicgen.model.config import PerformerConfig
from musicgen.spe import (
    AppliedCode,
    BuiltCode,
    ConvSPE,
    Draw,
    FactorisedSine,
    Mix,
    PositionalCode,
    SharedCode,
    SineSPE,
    SPEFilter,
)

Encoder = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(layer, queries, keys) to encoded queries and keys: `(batch, length, heads, D)` to `(batch, length, heads, E)`."""

LARGEST_BUILT_CODE = 1 << 30  # bytes; a larger sine code that is not trained is applied without being built


class PositionalEncoding(nn.Module):
    """The trained part of a model's positional encoding.

    Args:
        config: The model's config.
    """

    def __init__(self, config: PerformerConfig) -> None:
        super().__init__()
        self.config = config
        self.codes = nn.ModuleList()
        self.filters = nn.ModuleList()
        if config.is_stochastic:
            self.codes.extend(_code(config) for _ in range(1 if config.shared else config.num_layers))
            shape = (config.num_heads, config.head_features)
            self.filters.extend(SPEFilter(config.gated, shape, layer) for layer in range(config.num_layers))

    def draws(self, draw: Draw) -> list[Draw]:
        """Each code's own draw: layers that do not share a code do not share its noise."""
        indices = range(len(self.codes))
        return [draw for _ in indices] if self.config.shared else [draw.child(index) for index in indices]

    def mixes(self, draw: Draw) -> list[Mix | None]:
        """What each layer's gate does for a draw."""
        codes = cast(Sequence[PositionalCode], self.codes)
        filters = cast(Sequence[SPEFilter], self.filters)
        return [gate.mix(codes[layer % len(codes)], draw) for layer, gate in enumerate(filters)]

    def encoder(self, draw: Draw, positions: Tensor, like: Tensor) -> Encoder:
        """The encoder of a sequence.

        Args:
            draw: The noise.
            positions: `(length,)`.
            like: A tensor of the dtype and on the device to work in.
        """
        if self.config.pe == "rope":
            return rotary(positions, self.config.head_features, like)
        if not self.config.is_stochastic:
            return unchanged
        codes = [
            _applied(cast(PositionalCode, code), own_draw, positions)
            for code, own_draw in zip(self.codes, self.draws(draw), strict=True)
        ]
        return stochastic(codes, self.mixes(draw))


class StreamingEncoding:
    """A positional encoding bound to a draw, for one token at a time at any position.

    Codes are built a block of positions at a time and kept until the next: a bounded cache that is derived from
    the draw and so is no part of a state.

    Args:
        encoding: The trained part.
        draw: The noise.
        like: A tensor of the dtype and on the device to work in.
    """

    def __init__(self, encoding: PositionalEncoding, draw: Draw, like: Tensor) -> None:
        self._encoding, self._like = encoding, like
        self._windows = [
            _CodeWindow(cast(PositionalCode, code), own_draw)
            for code, own_draw in zip(encoding.codes, encoding.draws(draw), strict=True)
        ]
        self._mixes = encoding.mixes(draw)

    def encoder(self, positions: Sequence[int]) -> Encoder:
        """The encoder of one token in each row of a batch, at each row's own position."""
        config = self._encoding.config
        if config.pe == "rope":
            return rotary(torch.tensor(positions).unsqueeze(-1), config.head_features, self._like)
        if not config.is_stochastic:
            return unchanged
        distinct = sorted(set(positions))
        if len(distinct) == 1:
            codes = [window.at(distinct) for window in self._windows]
            return stochastic(codes, self._mixes)
        by_row = stochastic([window.at(positions) for window in self._windows], self._mixes)

        def encode(layer: int, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
            # Rows at different positions are, to a code, one sequence of those positions.
            queries, keys = by_row(layer, queries.transpose(0, 1), keys.transpose(0, 1))
            return queries.transpose(0, 1), keys.transpose(0, 1)

        return encode


class _CodeWindow:
    """A code at single positions, built block by block; the two latest blocks are kept."""

    def __init__(self, code: PositionalCode, draw: Draw) -> None:
        self._code, self._draw = code, draw
        self._block = 16 if isinstance(code, SineSPE) else 64
        self._built: dict[int, SharedCode] = {}

    def at(self, positions: Sequence[int]) -> BuiltCode:
        if len({position // self._block for position in positions}) > 2:  # rows far apart: nothing to keep
            return SharedCode(self._code, self._draw, torch.tensor(positions))
        rows = [(self._block_of(position), position % self._block) for position in positions]
        if len(rows) == 1:
            block, row = rows[0]
            return BuiltCode(block.query_code[row : row + 1], block.key_code[row : row + 1])
        return BuiltCode(
            torch.stack([block.query_code[row] for block, row in rows]),
            torch.stack([block.key_code[row] for block, row in rows]),
        )

    def _block_of(self, position: int) -> SharedCode:
        index = position // self._block
        if index not in self._built:
            if len(self._built) == 2:
                del self._built[min(self._built)]
            start = index * self._block
            self._built[index] = SharedCode(self._code, self._draw, torch.arange(start, start + self._block))
        return self._built[index]


def unchanged(layer: int, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """The encoder of `none`, and of `ape`, which is added to the tokens instead."""
    return queries, keys


def stochastic(codes: Sequence[AppliedCode], mixes: Sequence[Mix | None]) -> Encoder:
    """SPE: the encoder that applies codes (one, or one for each layer) through the layers' gates."""

    def encode(layer: int, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        return codes[layer % len(codes)].apply(queries, keys, mixes[layer])

    return encode


def rotary(positions: Tensor, features: int, like: Tensor) -> Encoder:
    """RoPE: pairs of features rotated by angles proportional to position.

    Args:
        positions: `(length,)`, or `(batch, 1)` where rows differ.
        features: D, even.
        like: A tensor of the dtype and on the device to work in.
    """
    phases = sinusoid_phases(positions, features).unsqueeze(-2)
    cosines, sines = phases.cos().to(like), phases.sin().to(like)

    def rotate(tensor: Tensor) -> Tensor:
        first, second = tensor.chunk(2, -1)
        return torch.cat([first * cosines - second * sines, first * sines + second * cosines], -1)

    def encode(layer: int, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
        return rotate(queries), rotate(keys)

    return encode


def sinusoids(positions: Tensor, features: int) -> Tensor:
    """The sinusoids that `ape` adds to tokens, `(*positions, features)`: sine and cosine in turn, base 10 000."""
    phases = sinusoid_phases(positions, features)
    return torch.stack([phases.sin(), phases.cos()], -1).flatten(-2)


def sinusoid_phases(positions: Tensor, features: int) -> Tensor:
    """n·10000^(−2i/features), `(*positions, features/2)`, in float64, so that no position is too large."""
    exponents = torch.arange(0, features, 2, dtype=torch.float64) / features
    return positions.double().cpu().unsqueeze(-1) * 10_000.0**-exponents


def _code(config: PerformerConfig) -> PositionalCode:
    shape = (config.num_heads, config.head_features, config.num_realizations)
    return SineSPE(*shape, config.num_sines) if config.pe == "sine" else ConvSPE(*shape, config.kernel_size)


def _applied(code: PositionalCode, draw: Draw, positions: Tensor) -> AppliedCode:
    heads, features = code.code_shape
    size = 2 * 4 * len(positions) * heads * features * draw.num_realizations
    if isinstance(code, SineSPE) and size > LARGEST_BUILT_CODE and not torch.is_grad_enabled():
        return FactorisedSine(code, draw, positions)
    return SharedCode(code, draw, positions)
