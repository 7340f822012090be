"""SPE with kernels of finite reach: filtered noise. Positions are rounded to whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from musicgen.model.positions.stochastic import StochasticEncoding
from musicgen.spe import AppliedCode, ConvSPE, Draw, PositionalCode

if TYPE_CHECKING:
    from musicgen.model.config import PerformerConfig


class ConvEncoding(StochasticEncoding):
    """`pe=conv`."""

    name = "conv"
    stream_block = 64

    @classmethod
    def describe_kernel(cls, config: PerformerConfig) -> str:
        """The kernels in words."""
        if config.positions == "time":
            return f"kernels that reach {config.kernel_size / config.time_resolution:.3g} beats"
        return f"kernels that reach {config.kernel_size} tokens"

    def applied(self, code: PositionalCode, draw: Draw, positions: Tensor) -> AppliedCode:
        """Built at whole positions."""
        return super().applied(code, draw, positions.round() if positions.is_floating_point() else positions)

    def coded_position(self, position: float) -> float:
        """The nearest whole position."""
        return round(position)

    @staticmethod
    def make_code(config: PerformerConfig) -> PositionalCode:
        """A new code."""
        return ConvSPE(config.num_heads, config.head_features, config.num_realizations, config.kernel_size)
