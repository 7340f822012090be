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

StepEncoder = Callable[[int, Tensor], Tensor]
"""(layer, queries and keys of one token in each row) to encoded ones: `(batch, 2, heads, D)` to `(batch, 2, heads, E)`.
No row's bits depend on the other rows."""

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
    the draw and so is no part of a state. Blocks are always the same, whichever of their positions are asked for, so
    that a position's code always has the same bits.

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

    def encoder(self, positions: Sequence[int]) -> StepEncoder:
        """The encoder of one token in each row of a batch, at each row's own position."""
        config = self._encoding.config
        if config.pe == "rope":
            rotate = rotation(torch.tensor(positions).unsqueeze(-1), config.head_features, self._like)
            return lambda layer, pairs: rotate(pairs)  # noqa: ARG005
        if not config.is_stochastic:
            return lambda layer, pairs: pairs  # noqa: ARG005
        windows = [window.at(positions) for window in self._windows]

        def encode(layer: int, pairs: Tensor) -> Tensor:
            codes, mix = windows[layer % len(windows)], self._mixes[layer]
            if mix is not None:
                # Here the gate acts on the codes: of one position, they are smaller than two more products are slow.
                weight = mix.weight.unsqueeze(-1)
                codes = {position: torch.addcmul(mix.noise, code, weight) for position, code in codes.items()}
            # A product for each row: one over all rows would round by how many there are.
            batch, _, heads, features = pairs.shape
            flat = {position: code.view(2 * heads, features, -1) for position, code in codes.items()}
            rows = zip(pairs.view(batch, 2 * heads, 1, features), positions, strict=True)
            encoded = [torch.bmm(row, flat[position]) for row, position in rows]
            return torch.stack(encoded).view(batch, 2, heads, -1)

        return encode


class _CodeWindow:
    """A code at single positions, built block by block; the latest blocks are kept, two or as many as rows need."""

    def __init__(self, code: PositionalCode, draw: Draw) -> None:
        self._code, self._draw = code, draw
        self._block = 16 if isinstance(code, SineSPE) else 64
        self._built: dict[int, Tensor] = {}

    def at(self, positions: Sequence[int]) -> dict[int, Tensor]:
        """q̄ and k̄ of each position, `(2, H, D, R)`."""
        blocks = {position // self._block for position in positions}
        for index in blocks:
            built = self._built.pop(index, None)
            self._built[index] = self._build(index) if built is None else built  # the latest stands last
        for index in list(self._built)[: -max(2, len(blocks))]:
            del self._built[index]
        return {position: self._built[position // self._block][position % self._block] for position in set(positions)}

    def _build(self, index: int) -> Tensor:
        """A block, `(positions, 2, H, D, R)`."""
        start = index * self._block
        code = SharedCode(self._code, self._draw, torch.arange(start, start + self._block))
        return torch.stack([code.query_code, code.key_code], 1)


def unchanged(layer: int, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """The encoder of `none`, and of `ape`, which is added to the tokens instead."""
    return queries, keys


def stochastic(codes: Sequence[AppliedCode], mixes: Sequence[Mix | None]) -> Encoder:
    """SPE: the encoder that applies codes (one, or one for each layer) through the layers' gates."""

    def encode(layer: int, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        return codes[layer % len(codes)].apply(queries, keys, mixes[layer])

    return encode


def rotary(positions: Tensor, features: int, like: Tensor) -> Encoder:
    """RoPE: the encoder that rotates queries and keys; arguments as of `rotation`."""
    rotate = rotation(positions, features, like)

    def encode(layer: int, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
        return rotate(queries), rotate(keys)

    return encode


def rotation(positions: Tensor, features: int, like: Tensor) -> Callable[[Tensor], Tensor]:
    """What rotates pairs of features, `(batch, length, heads, features)`, by angles proportional to position.

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

    return rotate


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
