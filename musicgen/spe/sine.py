"""SineSPE: kernels that are sums of K sines.

P_d(m−n) = 1/(2K) · Σ_k λ_k² cos(2π f_k (m−n) + θ_k), with f = sigmoid(freqs)/2, λ = softplus(gains), θ = offsets.
Positions may be any real numbers (tokens, beats, seconds), at any offset. On images and volumes (ndim 2, 3) each sine
is a wave in some direction: f is a vector, and the phase is 2π f·(m−n).

Design note: the phase f·n is reduced to a fraction of a turn in float64 before anything is rounded to the
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
        ndim: 1, 2 or 3. Above 1, positions and lags are tuples of one tensor for each axis.
    """

    block = 64  # positions built at a time: what keeps the products of building in the cache

    def __init__(
        self,
        num_heads: int = 8,
        in_features: int = 64,
        num_realizations: int = 256,
        num_sines: int = 1,
        ndim: int = 1,
    ) -> None:
        super().__init__(num_heads, in_features, num_realizations)
        if num_sines < 1:
            raise ValueError(f"num_sines must be at least 1, not {num_sines}")
        if ndim not in (1, 2, 3):
            raise ValueError(f"ndim must be 1, 2 or 3, not {ndim}")
        self.num_sines, self.ndim = num_sines, ndim
        shape = (num_heads, in_features, num_sines)
        axes = () if ndim == 1 else (ndim,)
        self.freqs = nn.Parameter(
            nn.init.normal_(torch.empty(*shape, *axes), -4.0)
        )  # slow: a median period of about 110 positions
        self.offsets = nn.Parameter(torch.randn(shape))
        gains = torch.randn(shape)
        if not gains.is_meta:  # where a tensor is a shape, arithmetic takes torch a second to prepare
            gains = 2 * gains / gains.norm(dim=-1, keepdim=True).sqrt()
        self.gains = nn.Parameter(gains)

    @property
    def frequencies(self) -> Tensor:
        """f in (0, ½) turns per position, `(H, D, K)`; with several axes `(H, D, K, axes)`, of both signs."""
        frequencies = torch.sigmoid(self.freqs) / 2
        return frequencies if self.ndim == 1 else frequencies * self._signs().to(frequencies)

    def _signs(self) -> Tensor:
        """Signs of the frequencies, `(K, axes)`: with positive ones alone no wave would rise to the left."""
        sines, axes = torch.arange(self.num_sines).unsqueeze(-1), torch.arange(self.ndim)
        return torch.where(axes == 0, 1, 1 - 2 * ((sines >> (axes - 1).clamp_min(0)) & 1))

    @property
    def amplitudes(self) -> Tensor:
        """λ > 0, `(H, D, K)`."""
        return F.softplus(self.gains)

    @property
    def noise_rows(self) -> int:
        """2·K·D: from this R on, `exact` noise meets the kernel with no variance."""
        return 2 * self.num_sines * self.in_features

    def ungated_kernel(self, lags: Positions) -> Tensor:
        """P_d(lag), `(H, D, *lags)`."""
        sizes, places = self._places(lags)
        phase = _phases(self.frequencies, places) + self.offsets.unsqueeze(2)
        kernel = (self.amplitudes.square().unsqueeze(2) * phase.cos()).sum(-1) / (2 * self.num_sines)
        return kernel.unflatten(2, sizes)

    def prepare(self, draw: Draw) -> tuple[Tensor, ...]:
        """Frequencies, offsets `(H, D, K)`, and the noise with all amplitudes, `(H, D, 2K, R)`.

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
        """q̄ and k̄, each `(*positions, H, D, R)`: for each head and feature, Ω·Z."""
        frequencies, offsets, noise = prepared
        sizes, places = self._places(positions)
        query_waves, key_waves = ((waves @ noise).permute(2, 0, 1, 3) for waves in _waves(frequencies, offsets, places))
        return query_waves.unflatten(0, sizes), key_waves.unflatten(0, sizes)

    def _places(self, positions: Positions) -> tuple[tuple[int, ...], Tensor]:
        """The size of each axis, and all positions: `(positions,)`, or `(positions, axes)` of a grid."""
        axes = positions if isinstance(positions, tuple) else (positions,)
        if len(axes) != self.ndim or any(axis.dim() != 1 for axis in axes):
            raise ValueError(f"SineSPE with ndim={self.ndim} takes {self.ndim} 1-D tensor(s) of positions or lags")
        return tuple(map(len, axes)), axes[0] if self.ndim == 1 else torch.cartesian_prod(*axes)


def _phases(frequencies: Tensor, positions: Tensor) -> Tensor:
    """2π·frac(f·n) in the precision of the frequencies, `(H, D, positions, K)`."""
    places = positions.to(frequencies.device, torch.float64)
    if places.dim() == 1:
        turns = frequencies.double().unsqueeze(2) * places.unsqueeze(-1)
    else:
        turns = torch.einsum("hdka,na->hdnk", frequencies.double(), places)
    return (2 * math.pi * (turns - turns.detach().floor())).to(frequencies.dtype)


def _waves(frequencies: Tensor, offsets: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Ω of queries and of keys, `(H, D, positions, 2K)`: cosines, then sines."""
    phase = _phases(frequencies, positions)
    shifted = phase + offsets.unsqueeze(2)
    return torch.cat([shifted.cos(), shifted.sin()], -1), torch.cat([phase.cos(), phase.sin()], -1)


class FactorisedSine:
    """A sine code applied without being built: q̂ = Σ_{d,j} (q_d·Ω_dj(n))·Z_dj.

    It takes 2K times the arithmetic of a built code and none of its memory: for long sequences that are read once.

    Args:
        code: The sine code.
        draw: The noise.
        positions: `(length,)`, or `(batch, length)` where rows differ.
    """

    def __init__(self, code: SineSPE, draw: Draw, positions: Tensor) -> None:
        self._shape, self._positions = positions.shape, positions.flatten()
        self._frequencies, self._offsets, noise = code.prepare(draw)
        self._noise = noise.flatten(1, 2)  # (H, D·2K, R)

    def apply(self, queries: Tensor, keys: Tensor, mix: Mix | None = None) -> tuple[Tensor, Tensor]:
        """Encode queries and keys: `(batch, length, H, D)` to `(batch, length, H, R)`."""
        if len(self._shape) == 2:  # all rows are one long row
            rows = self._apply(queries.flatten(0, 1).unsqueeze(0), keys.flatten(0, 1).unsqueeze(0), mix)
            return rows[0].squeeze(0).unflatten(0, self._shape), rows[1].squeeze(0).unflatten(0, self._shape)
        return self._apply(queries, keys, mix)

    def _apply(self, queries: Tensor, keys: Tensor, mix: Mix | None) -> tuple[Tensor, Tensor]:
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
