"""Rotation of queries and keys: pairs of features are turned by angles proportional to position.

`pe=rope` is this alone; sine and conv may rotate before their codes are applied. A share of each head's features is
rotated. The rest ignores position, like features with δ = 1 in a gate of SPE.

By token, frequencies are RoPE's: base 10 000. By time they are musical: periods in geometric steps from
`shortest_beats` to `longest_bars`. If no period is longer than a training window, later positions look familiar.

Inside SPE the two features of a pair have different kernels. Where these agree, the product depends only on the
distance; the rest depends on the place in the piece.

Design note: the result lies in memory with heads first, as attention needs it. So the rotation replaces a copy
that is needed anyway, and costs little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from musicgen.errors import UserError
from musicgen.model.positions.ape import sinusoid_phases

if TYPE_CHECKING:
    from musicgen.model.config import PerformerConfig
    from musicgen.model.graph.builder import Graph

BEATS_IN_BAR = 4


class Rotation(nn.Module):
    """The frequencies of a model's rotation, common to its layers, fixed or learnt for each head."""

    def __init__(self, config: PerformerConfig) -> None:
        super().__init__()
        self._config, self._pairs = config, rotated_pairs(config)
        self.log_frequencies = None
        if config.learn_frequencies:
            initial = self._fixed_phases(torch.ones(1, device="cpu")).log()
            self.log_frequencies = nn.Parameter(torch.empty(config.num_heads, self._pairs).copy_(initial))

    def _fixed_phases(self, positions: Tensor) -> Tensor:
        """Angles `(*positions, pairs)` in float64, so that no position is too large."""
        if self._config.positions == "token":
            return sinusoid_phases(positions, 2 * self._pairs)
        return positions.double().cpu().unsqueeze(-1) * (2 * math.pi / musical_periods(self._config, self._pairs))

    def angles(self, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, `(*positions, 1 or heads, pairs)`."""
        if self.log_frequencies is None:
            phases = self._fixed_phases(positions).unsqueeze(-2)
        else:
            frequencies = self.log_frequencies.double().exp()
            phases = positions.to(frequencies)[..., None, None] * frequencies
        return phases.cos().to(like), phases.sin().to(like)

    def parallel(self, positions: Tensor, like: Tensor) -> Callable[[Tensor], Tensor]:
        """A function that rotates `(batch, length, heads, D)`.

        Args:
            positions: `(length,)`, or `(batch, length)` where rows differ.
            like: A tensor of the dtype and on the device to work in.
        """
        cosines, sines = self.angles(positions, like)

        def rotate(tensor: Tensor) -> Tensor:
            rotated: Tensor = _Rotate.apply(tensor, cosines, sines)
            return rotated

        return rotate

    def step(self, positions: Tensor, like: Tensor) -> Callable[[Tensor], Tensor]:
        """A function that rotates `(batch, 2, heads, D)`, with rows at `(batch,)` positions. Has no gradient."""
        cosines, sines = self.angles(positions.unsqueeze(-1), like)

        def rotate(tensor: Tensor) -> Tensor:
            first, second, rest = tensor.split([self._pairs, self._pairs, tensor.shape[-1] - 2 * self._pairs], -1)
            return torch.cat([first * cosines - second * sines, first * sines + second * cosines, rest], -1)

        return rotate

    def graph(self, graph: Graph, position: str) -> Callable[[str], str]:
        """As `step`, in a graph: a function that rotates `(batch, 2·heads, 1, D)`.

        A number times its cosine, plus its partner times its sine. The rest has frequency 0.
        """
        if self.log_frequencies is None:
            frequencies = self._fixed_phases(torch.ones(1))
        else:
            frequencies = self.log_frequencies.detach().double().exp()
        both = torch.cat([-frequencies, frequencies], -1)  # the first of a pair takes its partner's sine away
        both = functional.pad(both, (0, self._config.head_features - both.shape[-1]))
        both = torch.cat([both, both]) if len(both) > 1 else both  # for queries and for keys
        cosines, sines = graph.cos_sin(position, both.unsqueeze(-2) / (2 * math.pi))
        places = torch.arange(self._config.head_features)
        partners = graph.constant(torch.cat([places[: 2 * self._pairs].roll(self._pairs), places[2 * self._pairs :]]))

        def rotate(pairs: str) -> str:
            partner = graph.op("Gather", pairs, partners, axis=3)
            return graph.op("Add", graph.op("Mul", pairs, cosines), graph.op("Mul", partner, sines))

        return rotate


def rotated_pairs(config: PerformerConfig) -> int:
    """How many pairs of features of a head are rotated."""
    return round(config.rotated_share * config.head_features / 2)


def musical_periods(config: PerformerConfig, pairs: int) -> Tensor:
    """Periods in positions, `(pairs,)`, in geometric steps; a single pair has the longest."""
    shortest, longest = config.shortest_beats, config.longest_bars * BEATS_IN_BAR
    steps = torch.linspace(0, 1, pairs, dtype=torch.float64, device="cpu")
    return (config.time_resolution * longest * (shortest / longest) ** steps).flip(0)


def check_rotation(config: PerformerConfig) -> None:
    """Raise `UserError` if the rotation is impossible."""
    if config.head_features % 2:
        raise UserError(f"rotation needs an even number of features a head, not {config.head_features}")
    if config.rotated_share > 0 and not rotated_pairs(config):
        raise UserError(
            f"rotated={config.rotated} is less than a pair of the {config.head_features} features of a head"
        )
    if config.shortest_beats >= config.longest_bars * BEATS_IN_BAR:
        raise UserError(
            f"shortest_beats ({config.shortest_beats}) must be below longest_bars ({config.longest_bars} bars of "
            f"{BEATS_IN_BAR} beats)"
        )


def describe_rotation(config: PerformerConfig) -> str:
    """The rotation in words."""
    share = "" if config.rotated_share == 1 else f"{config.rotated_share:.0%} of the features of "
    words = f"{share}queries and keys rotated by angles proportional to position"
    if config.positions == "time":
        words += f", periods from {config.shortest_beats:.3g} beats to {config.longest_bars:g} bars"
    return words + (", frequencies learnt" if config.learn_frequencies else "")


def _turn(out: Tensor, tensor: Tensor, cosines: Tensor, sines: Tensor, sign: int) -> Tensor:
    """Write `tensor`, turned by the angles or, with sign −1, turned back, to `out`."""
    pairs = cosines.shape[-1]
    first, second = tensor[..., :pairs], tensor[..., pairs : 2 * pairs]
    torch.mul(first, cosines, out=out[..., :pairs]).sub_(second * sines, alpha=sign)
    torch.mul(second, cosines, out=out[..., pairs : 2 * pairs]).add_(first * sines, alpha=sign)
    if 2 * pairs < tensor.shape[-1]:
        out[..., 2 * pairs :] = tensor[..., 2 * pairs :]
    return out


class _Rotate(torch.autograd.Function):
    """Keeps nothing but the angles, unless these are learnt."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        ctx.learnt = ctx.needs_input_grad[1]
        ctx.save_for_backward(cosines, sines, *([tensor] if ctx.learnt else []))
        heads_first = torch.empty_like(tensor.transpose(1, 2), memory_format=torch.contiguous_format)
        return _turn(heads_first.transpose(1, 2), tensor, cosines, sines, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        cosines, sines, *kept = ctx.saved_tensors
        back = torch.empty_like(gradient, memory_format=torch.contiguous_format)
        grad_tensor = _turn(back, gradient, cosines, sines, -1)
        if not ctx.learnt:
            return grad_tensor, None, None
        pairs = cosines.shape[-1]
        first, second = (kept[0][..., part * pairs : (part + 1) * pairs] for part in (0, 1))
        above, below = (gradient[..., part * pairs : (part + 1) * pairs] for part in (0, 1))
        grad_cosines = (above * first).addcmul_(below, second).sum_to_size(cosines.shape)
        grad_sines = (below * first).addcmul_(above, second, value=-1).sum_to_size(sines.shape)
        return grad_tensor, grad_cosines, grad_sines
