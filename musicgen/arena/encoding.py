"""Positions in a classifier, one class an encoding: added to the tokens, or applied to queries and keys.

Design note: a sequence has one axis, and CLS, its first token, has the first position. The pixels of an image may have
two axes instead. CLS then has no place: SPE encodes it by the noise of the gate alone, as if its δ were 1, and rope
leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch import Tensor, nn

from musicgen.errors import UserError
from musicgen.model.positions.ape import sinusoid_phases
from musicgen.spe import ConvSPE, Draw, PositionalCode, SharedCode, SineSPE, SPEFilter
from musicgen.spe.apply import by_head

if TYPE_CHECKING:
    from musicgen.arena.config import ClassifierConfig

Encode = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(layer, queries, keys) to encoded ones: `(batch, length, heads, D)` to `(batch, length, heads, E)`."""

ENCODINGS: dict[str, type[Encoding]] = {}
"""All encodings of classifiers by name."""


def encoding_class(name: str) -> type[Encoding]:
    """The class of an encoding."""
    if name not in ENCODINGS:
        raise UserError(f"pe={name}: classifiers have {', '.join(ENCODINGS)}")
    return ENCODINGS[name]


class Encoding(nn.Module):
    """The positional encoding of a classifier. This one does nothing: it is the base of all, and `pe=none`."""

    name: ClassVar[str] = "none"
    is_stochastic: ClassVar[bool] = False
    """Whether noise encodes positions, so that queries and keys get R features."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            ENCODINGS[cls.name] = cls

    @classmethod
    def check(cls, config: ClassifierConfig) -> None:
        """Raise `UserError` if this encoding cannot work with the config."""
        if config.learnt_positions:
            raise UserError(f"model.learnt_positions=true: is for pe=ape, not pe={cls.name}")

    def add_to(self, hidden: Tensor) -> Tensor:
        """Tokens `(batch, length, d_model)` with what this encoding adds to them."""
        return hidden

    def encoder(self, draw: Draw, length: int, like: Tensor) -> Encode:  # noqa: ARG002
        """What happens to queries and keys.

        Args:
            draw: The noise.
            length: Tokens of a sequence, CLS included.
            like: A tensor of the dtype and on the device to work in.
        """
        return lambda layer, queries, keys: (queries, keys)  # noqa: ARG005

    def _axes(self, length: int) -> tuple[Tensor, ...]:
        """The positions on each axis."""
        if self.config.axes == 1:
            return (torch.arange(length),)
        return (torch.arange(self.config.side or 0),) * 2

    def _phases(self, length: int, features: int) -> Tensor:
        """Angles `(places, features/2)`; with two axes half of the features are for each."""
        axes = self._axes(length)
        if len(axes) == 1:
            return sinusoid_phases(axes[0], features)
        rows, columns = torch.cartesian_prod(*axes).unbind(-1)
        return torch.cat([sinusoid_phases(rows, features // 2), sinusoid_phases(columns, features // 2)], -1)


ENCODINGS[Encoding.name] = Encoding


class AbsoluteEncoding(Encoding):
    """A vector for each position, added to the tokens: sinusoids, or learnt (`model.learnt_positions=true`)."""

    name = "ape"

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        self.table: nn.Parameter | None = None
        if config.learnt_positions:
            self.table = nn.Parameter(torch.empty(config.places, config.d_model).normal_(0.0, 0.02))

    @classmethod
    def check(cls, config: ClassifierConfig) -> None:
        """The width is parted into pairs of features for each axis."""
        _check_width(cls.name, config.d_model, config.axes)

    def add_to(self, hidden: Tensor) -> Tensor:
        """Tokens with the vectors of their positions."""
        if self.table is not None:
            return hidden + self.table[: hidden.shape[1]]
        phases = self._phases(hidden.shape[1], self.config.d_model)
        waves = torch.stack([phases.sin(), phases.cos()], -1).flatten(-2).to(hidden)
        cls = hidden.shape[1] - len(waves)  # tokens without a place
        return torch.cat([hidden[:, :cls], hidden[:, cls:] + waves], 1)


class RotaryEncoding(Encoding):
    """Queries and keys are rotated by the angles of their places."""

    name = "rope"

    @classmethod
    def check(cls, config: ClassifierConfig) -> None:
        """The features of a head are parted into pairs for each axis."""
        super().check(config)
        _check_width(cls.name, config.head_features, config.axes)

    def encoder(self, draw: Draw, length: int, like: Tensor) -> Encode:  # noqa: ARG002
        """Rotates queries and keys."""
        phases = self._phases(length, self.config.head_features).unsqueeze(-2)
        cosines, sines = phases.cos().to(like), phases.sin().to(like)
        return lambda layer, queries, keys: (_rotate(queries, cosines, sines), _rotate(keys, cosines, sines))  # noqa: ARG005


class StochasticEncoding(Encoding):
    """SPE: one code, or one for each layer, and a gate for each layer."""

    is_stochastic = True
    num_taps: ClassVar[str]
    """Which key of the config has the size of the code."""
    code: ClassVar[type[SineSPE] | type[ConvSPE]]

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        shape = (config.num_heads, config.head_features)
        taps = getattr(config, self.num_taps)
        self.codes = nn.ModuleList(
            self.code(*shape, config.num_realizations, taps, ndim=config.axes)
            for _ in range(1 if config.shared else config.num_layers)
        )
        self.filters = nn.ModuleList(SPEFilter(config.gated, shape, layer) for layer in range(config.num_layers))

    @classmethod
    def check(cls, config: ClassifierConfig) -> None:
        """A token without a place has only the noise of the gate, and exact codes have no other noise."""
        super().check(config)
        if config.axes == 2 and config.noise == "exact" and not config.gated:
            raise UserError("pe.gated=false: exact noise with two axes needs the noise of the gate")

    def encoder(self, draw: Draw, length: int, like: Tensor) -> Encode:  # noqa: ARG002
        """Codes are built once for all layers that share them, and applied through the gate of each layer."""
        axes = self._axes(length)
        positions = axes if len(axes) > 1 else axes[0]
        codes = list(cast(Sequence[PositionalCode], self.codes))
        draws = [draw] if self.config.shared else [draw.child(index) for index in range(len(codes))]
        built = [SharedCode(code, own, positions) for code, own in zip(codes, draws, strict=True)]
        filters = cast(Sequence[SPEFilter], self.filters)

        def encode(layer: int, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
            code, own = built[layer % len(built)], codes[layer % len(codes)]
            mix = filters[layer].mix(own, draw)
            if len(axes) == 1:
                return code.apply(queries, keys, mix)
            sizes = tuple(map(len, axes))
            cls = queries.shape[1] - sizes[0] * sizes[1]
            grids = [tensor[:, cls:].unflatten(1, sizes) for tensor in (queries, keys)]
            encoded = [grid.flatten(1, 2) for grid in code.apply(grids[0], grids[1], mix)]
            noise = filters[layer].noise(own, draw).to(queries)
            without = [by_head(tensor[:, :cls], noise) for tensor in (queries, keys)]
            both = [torch.cat(parts, 1) for parts in zip(without, encoded, strict=True)]
            return both[0], both[1]

        return encode


class SineEncoding(StochasticEncoding):
    """SineSPE."""

    name = "sine"
    num_taps = "num_sines"
    code = SineSPE


class ConvEncoding(StochasticEncoding):
    """ConvSPE."""

    name = "conv"
    num_taps = "kernel_size"
    code = ConvSPE


def _check_width(name: str, width: int, axes: int) -> None:
    if width % (2 * axes):
        raise UserError(f"pe={name}: needs a width that is a multiple of {2 * axes}, not {width}")


def _rotate(tensor: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """The last tokens of `(batch, length, heads, D)`, rotated by the angles of their places."""
    cls = tensor.shape[1] - len(cosines)
    first, second = tensor[:, cls:].chunk(2, -1)
    turned = torch.cat([first * cosines - second * sines, first * sines + second * cosines], -1)
    return torch.cat([tensor[:, :cls], turned], 1) if cls else turned
