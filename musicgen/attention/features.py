"""Feature maps φ, which turn the kernel of attention into a dot product: κ(q, k) = φ(q)·φ(k).

Exponential features span hundreds of nats, so a map never returns φ itself. It returns bounded features and,
for keys, the logarithm of the factor that was taken out of each token: φ(k_n) = features_n · exp(scale_n).
Queries need no such factor: it cancels in the normalised output.

Design note: the factor of a token is its own maximum. A maximum over the
sequence (as in other Performers) lets the future decide what underflows in the past, and an ε added to features
makes past outputs depend on it outright.
"""

from __future__ import annotations

import abc
import math
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from musicgen.spe.draw import Draw, uniform_rotations

FeatureMapName = Literal["favor", "relu", "elu"]


class FeatureMap(abc.ABC):
    """A positive feature map, frozen for one draw."""

    @abc.abstractmethod
    def queries(self, queries: Tensor) -> Tensor:
        """Features `(..., F)` of queries `(..., E)`, up to a positive factor for each token."""

    @abc.abstractmethod
    def keys(self, keys: Tensor) -> tuple[Tensor, Tensor | None]:
        """Features `(..., F)` of keys `(..., E)` and the log factor `(...)` taken out (None: no factor)."""

    def pairs(self, encoded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys of one token in each row, at once; no row's bits depend on the others. Has no gradient.

        Args:
            encoded: `(batch, 2, heads, E)`.

        Returns:
            Features of queries and of keys, `(batch, heads, F)`, and the log factors of the keys, `(batch, heads)`.
        """
        queries, keys = self.queries(encoded).unbind(1)  # without a factor, keys are treated like queries
        return queries, keys, keys.new_zeros(keys.shape[:-1])


class Favor(FeatureMap):
    """FAVOR+: positive random features of the softmax kernel exp(q·k/√E), two-sided.

    Args:
        projection: ω, `(E, F/2)`; see `favor_projection`.

    Attributes:
        both_sides: ω and −ω, `(E, F)`, with the 1/√E of the logits.
    """

    def __init__(self, projection: Tensor) -> None:
        self._projection = projection * projection.shape[0] ** -0.25  # the 1/√E of the logits, half on each side
        self.both_sides = torch.cat([self._projection, -self._projection], -1)

    def queries(self, queries: Tensor) -> Tensor:
        """exp(±ωᵀq) over its largest; ‖q‖² would cancel and is left out."""
        projected = queries @ self._projection
        return _two_sided(projected, _largest(projected))

    def keys(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """exp(±ωᵀk) over its largest, and the log of what was taken out: max|ωᵀk| − ‖k‖²/2."""
        projected = keys @ self._projection
        largest = _largest(projected)
        energy = keys.square().sum(-1, keepdim=True) * (0.5 * keys.shape[-1] ** -0.5)
        # What is taken out is a constant to autograd, so the gradient of ‖k‖² enters here, as a zero.
        features = _two_sided(projected, largest + (energy - energy.detach()))
        return features, (largest - energy.detach()).squeeze(-1)

    def pairs(self, encoded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`queries` and `keys`, with one product for each row, whose rounding does not depend on the other rows."""
        batch, _, heads, features = encoded.shape
        rows = encoded.view(batch, 2 * heads, features)
        projected = torch.stack([torch.mm(row, self.both_sides) for row in rows])
        largest = projected.amax(-1, keepdim=True)
        query_features, key_features = projected.sub_(largest).exp_().view(batch, 2, heads, -1).unbind(1)
        keys = encoded[:, 1]
        energy = torch.linalg.vecdot(keys, keys)
        key_scale = torch.sub(largest.view(batch, 2, heads)[:, 1], energy, alpha=0.5 * features**-0.5)
        return query_features, key_features, key_scale


def _largest(projected: Tensor) -> Tensor:
    """max|p| of each token, `(..., 1)`."""
    return projected.detach().abs().amax(-1, keepdim=True)


def _two_sided(projected: Tensor, shift: Tensor) -> Tensor:
    """exp(±p − shift), `(..., F)`."""
    features: Tensor = _TwoSided.apply(projected, shift)
    return features


class _TwoSided(torch.autograd.Function):
    """Written in place, side by side, and kept once: this is the second-largest tensor of a layer."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, shift: Tensor) -> Tensor:
        half = projected.shape[-1]
        features = projected.new_empty(*projected.shape[:-1], 2 * half)
        torch.sub(projected, shift, out=features[..., :half])
        torch.add(projected, shift, out=features[..., half:]).neg_()
        ctx.save_for_backward(features.exp_())
        return features

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        (features,) = ctx.saved_tensors
        positive, negative = (gradient * features).chunk(2, -1)
        grad_shift = (positive + negative).sum(-1, keepdim=True).neg_() if ctx.needs_input_grad[1] else None
        return positive - negative, grad_shift


class Relu(FeatureMap):
    """max(0, x): the Linear Transformer with ReLU."""

    def queries(self, queries: Tensor) -> Tensor:
        return queries.relu()

    def keys(self, keys: Tensor) -> tuple[Tensor, None]:
        return keys.relu(), None


class Elu(FeatureMap):
    """elu(x) + 1: the Linear Transformer as first published."""

    def queries(self, queries: Tensor) -> Tensor:
        return _elu_and_one(queries)

    def keys(self, keys: Tensor) -> tuple[Tensor, None]:
        return _elu_and_one(keys), None


def _elu_and_one(tensor: Tensor) -> Tensor:
    """elu(x) + 1 = exp(min(0, x)) + max(0, x).

    Torch's own function loses digits of small features, and its rounding depends on the place in memory.
    """
    return tensor.clamp_max(0).exp() + tensor.relu()


def favor_projection(draw: Draw, layer: int, in_features: int, num_features: int) -> Tensor:
    """FAVOR's ω of a draw: orthogonal in blocks, with the norms of Gaussian vectors, `(in_features, F/2)`."""
    if num_features < 2 or num_features % 2:
        raise ValueError(f"favor takes an even number of features, at least 2, not {num_features}")
    columns = num_features // 2
    blocks = math.ceil(columns / in_features)
    noise = torch.randn(2, blocks, in_features, in_features, generator=draw.feature_generator(layer))
    directions = uniform_rotations(noise[0]).flatten(0, 1)
    norms = noise[1].norm(dim=-1).flatten()
    return (directions * norms.unsqueeze(-1))[:columns].T.contiguous()


def feature_map(
    name: FeatureMapName,
    draw: Draw,
    layer: int,
    in_features: int,
    num_features: int,
    like: Tensor | None = None,
) -> FeatureMap:
    """The feature map of a layer for a draw.

    Args:
        name: `favor`, `relu` or `elu`.
        draw: The noise.
        layer: Each layer has its own random features.
        in_features: E, the dimension of queries and keys: R with SPE, D without.
        num_features: F; only `favor` uses it.
        like: A tensor of the dtype and on the device to work in.
    """
    if name == "favor":
        projection = favor_projection(draw, layer, in_features, num_features)
        return Favor(projection if like is None else projection.to(like))
    if name == "relu":
        return Relu()
    if name == "elu":
        return Elu()
    raise ValueError(f"feature_map must be favor, relu or elu, not {name!r}")
