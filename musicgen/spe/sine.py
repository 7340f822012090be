"""SineSPE: kernels that are sums of K sines.

P_d(m−n) = 1/(2K) · Σ_k λ_k² cos(2π f_k (m−n) + θ_k), with f = sigmoid(freqs)/2, λ = softplus(gains), θ = offsets.
Positions may be any real numbers (tokens, beats, seconds), at any offset.

The hard choice: the phase f·n is reduced to a fraction of a turn in float64 before anything is rounded to the
model's precision. In float32 it would be off by a hundredth of a turn at position 100 000.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musicgen.spe.apply import Mix, by_head
from musicgen.spe.code import PositionalCode, Positions
from musicgen.spe.draw import Draw, Stream

FACTORISED_BLOCK = 128  # positions expanded at a time: keeps the 2K-fold expansion inside the cache


class SineSPE(PositionalCode):
    """Sum-of-sines stochastic positional code.

    Args:
        num_heads: H.
        in_features: D.
        num_realizations: R, by default.
        num_sines: K.
    """

    block = 64  # positions built at a time: what keeps the products of building in the cache

    def __init__(
        self, num_heads: int = 8, in_features: int = 64, num_realizations: int = 256, num_sines: int = 1
    ) -> None:
        super().__init__(num_heads, in_features, num_realizations)
        if num_sines < 1:
            raise ValueError(f"num_sines must be at least 1, not {num_sines}")
        self.num_sines = num_sines
        shape = (num_heads, in_features, num_sines)
        self.freqs = nn.Parameter(torch.randn(shape) - 4)  # slow: a median period of about 110 positions
        self.offsets = nn.Parameter(torch.randn(shape))
        gains = torch.randn(shape)
        self.gains = nn.Parameter(2 * gains / gains.norm(dim=-1, keepdim=True).sqrt())

    @property
    def frequencies(self) -> Tensor:
        """f in (0, ½) turns per position, `(H, D, K)`."""
        return torch.sigmoid(self.freqs) / 2

    @property
    def amplitudes(self) -> Tensor:
        """λ > 0, `(H, D, K)`."""
        return F.softplus(self.gains)

    @property
    def noise_rows(self) -> int:
        """2·K·D: from this R on, `exact` noise meets the kernel with no variance."""
        return 2 * self.num_sines * self.in_features

    def ungated_kernel(self, lags: Positions) -> Tensor:
        """P_d(lag), `(H, D, lags)`."""
        phase = _phases(self.frequencies, _one_axis(lags)) + self.offsets.unsqueeze(2)
        return (self.amplitudes.square().unsqueeze(2) * phase.cos()).sum(-1) / (2 * self.num_sines)

    def prepare(self, draw: Draw) -> tuple[Tensor, ...]:
        """Frequencies and offsets, `(H, D, K)`, and the noise with all amplitudes, `(H, D, 2K, R)`.

        The noise is λ·z/√(2K), with the published (R·D)^−¼ folded in.
        """
        heads, features = self.code_shape
        noise = draw.rows(Stream.CODE, (0,), heads, self.noise_rows).to(self.gains)
        noise = noise.reshape(heads, features, 2 * self.num_sines, draw.num_realizations)
        scale = (draw.num_realizations * features) ** -0.25 / math.sqrt(2 * self.num_sines)
        return (
            self.frequencies,
            self.offsets,
            noise * (scale * self.amplitudes.repeat(1, 1, 2)).unsqueeze(-1),
        )

    def codes_from(
        self,
        prepared: tuple[Tensor, ...],
        draw: Draw,  # noqa: ARG002 - its noise is in `prepared`
        positions: Positions,
    ) -> tuple[Tensor, Tensor]:
        """q̄ and k̄, each `(positions, H, D, R)`: for each head and feature, Ω·Z."""
        frequencies, offsets, noise = prepared
        query_waves, key_waves = _waves(frequencies, offsets, _one_axis(positions))
        return (query_waves @ noise).permute(2, 0, 1, 3), (key_waves @ noise).permute(2, 0, 1, 3)


def _phases(frequencies: Tensor, positions: Tensor) -> Tensor:
    """2π·frac(f·n) in the precision of the frequencies, `(H, D, positions, K)`."""
    turns = frequencies.double().unsqueeze(2) * positions.to(frequencies.device, torch.float64).unsqueeze(-1)
    return (2 * math.pi * (turns - turns.detach().floor())).to(frequencies.dtype)


def _waves(frequencies: Tensor, offsets: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Ω of queries and of keys, `(H, D, positions, 2K)`: cosines, then sines."""
    phase = _phases(frequencies, positions)
    shifted = phase + offsets.unsqueeze(2)
    return torch.cat([shifted.cos(), shifted.sin()], -1), torch.cat([phase.cos(), phase.sin()], -1)


class FactorisedSine:
    """A sine code applied without being built: q̂ = Σ_{d,j} (q_d·Ω_dj(n))·Z_dj.

    2K times the arithmetic of a built code and none of its memory: for long sequences that are read once.

    Args:
        code: The sine code.
        draw: The noise.
        positions: `(length,)`.
    """

    def __init__(self, code: SineSPE, draw: Draw, positions: Tensor) -> None:
        self._positions = positions
        self._frequencies, self._offsets, noise = code.prepare(draw)
        self._noise = noise.flatten(1, 2)  # (H, D·2K, R)

    def apply(self, queries: Tensor, keys: Tensor, mix: Mix | None = None) -> tuple[Tensor, Tensor]:
        """Encode queries and keys: `(batch, length, H, D)` to `(batch, length, H, R)`."""
        scaled = (queries, keys) if mix is None else (queries * mix.weight, keys * mix.weight)
        encoded: tuple[list[Tensor], list[Tensor]] = ([], [])
        for start in range(0, len(self._positions), FACTORISED_BLOCK):
            block = slice(start, start + FACTORISED_BLOCK)
            both = _waves(self._frequencies, self._offsets, self._positions[block])
            for tensor, waves, blocks in zip(scaled, both, encoded, strict=True):
                expanded = (tensor[:, block].unsqueeze(-1) * waves.permute(2, 0, 1, 3)).flatten(-2)
                blocks.append(by_head(expanded, self._noise))
        query_part, key_part = (torch.cat(blocks, 1) for blocks in encoded)
        if mix is None:
            return query_part, key_part
        return query_part + by_head(queries, mix.noise), key_part + by_head(keys, mix.noise)


def _one_axis(positions: Positions) -> Tensor:
    if isinstance(positions, tuple) or positions.dim() != 1:
        raise ValueError("SineSPE takes positions on one axis: a 1-D tensor")
    return positions
