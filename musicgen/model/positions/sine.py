"""SPE with kernels that are sums of sines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from musicgen.errors import UserError
from musicgen.model.positions.stochastic import StochasticEncoding
from musicgen.spe import AppliedCode, Draw, FactorisedSine, PositionalCode, SharedCode, SineSPE

if TYPE_CHECKING:
    from musicgen.model.config import PerformerConfig
    from musicgen.model.graph.builder import Graph

LARGEST_BUILT_CODE = 1 << 30  # bytes; a larger code that is not trained is applied without being built


class SineEncoding(StochasticEncoding):
    """`pe=sine`."""

    name = "sine"
    has_exact_noise = True
    stream_block = 16

    @classmethod
    def check(cls, config: PerformerConfig) -> None:
        """Exact noise needs one realisation for each row of noise."""
        super().check(config)
        needed = (2 * config.num_sines + config.gated) * config.head_features
        if config.noise == "exact" and config.num_realizations < needed:
            raise UserError(f"noise=exact needs num_realizations of at least {needed}, not {config.num_realizations}")

    @classmethod
    def describe_kernel(cls, config: PerformerConfig) -> str:
        """The kernels in words."""
        return f"kernels of {config.num_sines} sines"

    @staticmethod
    def make_code(config: PerformerConfig) -> PositionalCode:
        """A new code."""
        return SineSPE(config.num_heads, config.head_features, config.num_realizations, config.num_sines)

    def applied(self, code: PositionalCode, draw: Draw, positions: Tensor) -> AppliedCode:
        """Built if it fits into memory or is trained; otherwise factorised."""
        heads, features = code.code_shape
        size = 2 * 4 * len(positions.unique()) * heads * features * draw.num_realizations
        if isinstance(code, SineSPE) and size > LARGEST_BUILT_CODE and not torch.is_grad_enabled():
            return FactorisedSine(code, draw, positions)
        return SharedCode(code, draw, positions)

    def graph_code(self, graph: Graph, code: PositionalCode, draw: Draw, position: str) -> str:
        """Computed in the graph: cosines and sines of each row's position, times the noise.

        The offsets of the queries turn their noise, so that queries and keys have the same waves.
        """
        frequencies, offsets, noise = (tensor.detach().flatten(0, 1) for tensor in code.prepare(draw))
        cosines, sines = noise.chunk(2, 1)  # (H·D, K, R)
        turn, lean = offsets.cos().unsqueeze(-1), offsets.sin().unsqueeze(-1)
        turned = torch.cat([turn * cosines + lean * sines, turn * sines - lean * cosines], 1)
        waves = graph.op("Concat", *graph.cos_sin(position, frequencies.unsqueeze(1)), axis=3)  # (batch, H·D, 1, 2K)
        # One product for both takes less time than two.
        built = graph.op("MatMul", waves, graph.constant(torch.cat([turned, noise], -1)))
        both = graph.reshape(built, *code.code_shape, 2 * draw.num_realizations)
        return graph.op("Concat", *graph.split(both, [draw.num_realizations] * 2, 3), axis=1)
