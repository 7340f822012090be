"""What every positional code is: a kernel in expectation, drawn as correlated noise.

A code gives, for each head h and feature d, two noise signals q̄(m) and k̄(n) over positions whose covariance
is a kernel of the lag, P_d(m−n). Multiplied into queries and keys and summed over features they make the
logit Σ_d q_d k_d P_d(m−n) — relative positions — without an attention matrix ever being formed.

Scale is as published: E Σ_r q̄_r k̄_r = √(R/D)·P_d, so attention on the encoded queries and keys uses 1/√R.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from torch import Tensor, nn

from musicgen.spe.draw import Draw, NoiseKind

if TYPE_CHECKING:
    from musicgen.spe.gate import SPEFilter

Positions = Tensor | tuple[Tensor, ...]
"""Positions: a 1-D tensor, or for N-D codes one 1-D tensor for each axis of a grid."""


class PositionalCode(nn.Module, abc.ABC):
    """Base of `SineSPE` and `ConvSPE`.

    Args:
        num_heads: H.
        in_features: D, the features of a head.
        num_realizations: The default R of a draw.
    """

    block: int
    """The best number of positions to build at a time."""

    def __init__(self, num_heads: int, in_features: int, num_realizations: int) -> None:
        super().__init__()
        for name, value in (
            ("num_heads", num_heads),
            ("in_features", in_features),
            ("num_realizations", num_realizations),
        ):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        self.num_heads = num_heads
        self.in_features = in_features
        self.num_realizations = num_realizations

    @property
    def code_shape(self) -> tuple[int, int]:
        """(H, D): what a gate for this code must match."""
        return self.num_heads, self.in_features

    @property
    def noise_rows(self) -> int:
        """Coordinates of R that this code takes under `exact` noise; a gate's noise comes after them."""
        raise ValueError(f"{type(self).__name__} has no exact noise: use 'gaussian' or 'orthogonal'")

    def draw(self, seed: int, num_realizations: int | None = None, noise: NoiseKind = "gaussian") -> Draw:
        """A frozen draw of this code's noise; `num_realizations` overrides the default R."""
        return Draw(seed, self.num_realizations if num_realizations is None else num_realizations, noise)

    def kernel(self, lags: Positions, gate: SPEFilter | None = None) -> Tensor:
        """The expected kernel P_d(lag) in closed form, including the 1/(2K) of sines.

        Args:
            lags: m − n; for an N-D code one tensor for each axis.
            gate: If given, the kernel as that gate mixes it: δ + (1−δ)·P_d.

        Returns:
            `(heads, features, *lags)`.
        """
        kernel = self.ungated_kernel(lags)
        if gate is None or gate.delta is None:
            return kernel
        delta = gate.delta.reshape(*self.code_shape, *(1,) * (kernel.dim() - 2))
        return delta + (1 - delta) * kernel

    @abc.abstractmethod
    def ungated_kernel(self, lags: Positions) -> Tensor:
        """P_d(lag), `(heads, features, *lags)`."""

    def codes(self, draw: Draw, positions: Positions) -> tuple[Tensor, Tensor]:
        """The codes q̄ and k̄ at the given positions, each `(*positions, heads, features, R)`."""
        return self.codes_from(self.prepare(draw), draw, positions)

    @abc.abstractmethod
    def prepare(self, draw: Draw) -> tuple[Tensor, ...]:
        """What is computed from the parameters and the draw once for all positions, as input of `codes_from`."""

    @abc.abstractmethod
    def codes_from(self, prepared: tuple[Tensor, ...], draw: Draw, positions: Positions) -> tuple[Tensor, Tensor]:
        """`codes` from the prepared parameters. It depends on the parameters only through `prepared`."""
