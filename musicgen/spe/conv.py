"""ConvSPE: kernels with finite support, made by filtering white noise.

q̄ = w_q * z and k̄ = w_k * z share one noise z, so P_d(m−n) = Σ_p w_k[p]·w_q[p+m−n], which vanishes once the lag
reaches the filter's length. Works on sequences, images and volumes (ndim 1, 2, 3).

Design note: this is a true convolution, z[n−p]. The published code swaps the names of the two filters and correlates
instead of convolving. Together this gives the same law; only one of the two would mirror every lag.
A convolution also looks back, so position n needs noise at n−k+1 … n: N+k−1 samples for N positions.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musicgen.spe.code import PositionalCode, Positions
from musicgen.spe.draw import Draw, Stream

NOISE_BLOCK = {1: 32, 2: 8, 3: 4}  # noise is addressed in cubes of this side, by ndim
FFT_COST = {1: 20.0, 2: 3.0, 3: 3.0}  # of an FFT's operation, in operations of the direct form, by ndim
TOEPLITZ_BLOCK = 64  # output positions of one matrix product in the direct 1-D convolution


class ConvSPE(PositionalCode):
    """Filtered-noise stochastic positional code.

    Args:
        num_heads: H.
        in_features: D.
        num_realizations: R, by default.
        kernel_size: Filter length, one number or one for each axis.
        ndim: 1, 2 or 3. Above 1, positions and lags are tuples of one tensor for each axis.
    """

    def __init__(
        self,
        num_heads: int = 8,
        in_features: int = 64,
        num_realizations: int = 256,
        kernel_size: int | tuple[int, ...] = 200,
        ndim: int = 1,
    ) -> None:
        super().__init__(num_heads, in_features, num_realizations)
        if ndim not in NOISE_BLOCK:
            raise ValueError(f"ndim must be 1, 2 or 3, not {ndim}")
        self.ndim = ndim
        self.kernel_size = (kernel_size,) * ndim if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(self.kernel_size) != ndim or min(self.kernel_size) < 1:
            raise ValueError(f"kernel_size must be {ndim} positive number(s), not {kernel_size}")
        # The direct convolution should stay in the cache; FFTs should transform the k−1 extra samples rarely.
        long = (4 * self.kernel_size[0], *self.kernel_size[1:])
        self.block = long[0] if fft_is_cheaper(long, self.kernel_size) else TOEPLITZ_BLOCK
        shape = (num_heads, in_features, *self.kernel_size)
        scale = 1 / math.sqrt(math.prod(self.kernel_size) / 2)  # a triangle of height ½ at initialisation
        self.query_filter = nn.Parameter(nn.init.uniform_(torch.empty(shape), 0.0, scale))
        self.key_filter = nn.Parameter(nn.init.uniform_(torch.empty(shape), 0.0, scale))

    def ungated_kernel(self, lags: Positions) -> Tensor:
        """P_d(lag), `(H, D, *lags)`: the correlation of the two filters."""
        axes = self._axes(lags)
        channels = self.num_heads * self.in_features
        padding = [size - 1 for size in self.kernel_size]
        convolution = _CONVOLUTIONS[self.ndim]
        # conv_nd correlates: out[j] = Σ_p w_q[p + j − (k−1)]·w_k[p], so lag l stands at index l + k − 1.
        kernel = convolution(
            self.query_filter.reshape(1, channels, *self.kernel_size),
            self.key_filter.reshape(channels, 1, *self.kernel_size),
            padding=padding,
            groups=channels,
        ).reshape(*self.code_shape, *(2 * size - 1 for size in self.kernel_size))
        for axis, (lag, size) in enumerate(zip(axes, self.kernel_size, strict=True), start=2):
            inside = lag.abs() < size
            index = torch.where(inside, lag + size - 1, 0).long().to(kernel.device)
            shape = [1] * kernel.dim()
            shape[axis] = len(lag)
            kernel = kernel.index_select(axis, index) * inside.to(kernel).reshape(shape)
        return kernel

    def prepare(self, draw: Draw) -> tuple[Tensor, ...]:
        """The two filters, `(H, D, *kernel)`, with the published (R·D)^−¼; and as Toeplitz matrices in 1-D."""
        scale = (draw.num_realizations * self.in_features) ** -0.25
        filters = (self.query_filter * scale, self.key_filter * scale)
        return (*filters, *map(_toeplitz, filters)) if self.ndim == 1 else filters

    def codes_from(self, prepared: tuple[Tensor, ...], draw: Draw, positions: Positions) -> tuple[Tensor, Tensor]:
        """q̄ and k̄, each `(*positions, H, D, R)`. Positions are whole numbers, in any order."""
        axes = self._axes(positions)
        if any(len(axis) == 0 for axis in axes):
            empty = prepared[0].new_empty(*map(len, axes), *self.code_shape, draw.num_realizations)
            return empty, empty.clone()
        if self.ndim == 1:
            spread = int(axes[0].max() - axes[0].min())
            if spread > 2 * len(axes[0]) + self.kernel_size[0]:
                return self._scattered_codes(prepared, draw, axes[0])
        low = [int(axis.min()) for axis in axes]
        noise = self._noise(
            draw,
            [start - size + 1 for start, size in zip(low, self.kernel_size, strict=True)],
            [int(axis.max()) + 1 for axis in axes],
        )
        codes = self._filter(noise, prepared)
        for dim, (axis, start) in enumerate(zip(axes, low, strict=True)):
            if not torch.equal(axis, torch.arange(start, start + len(axis))):
                codes = [code.index_select(dim, (axis - start).to(code.device)) for code in codes]
        return codes[0], codes[1]

    def _scattered_codes(self, prepared: tuple[Tensor, ...], draw: Draw, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Codes at positions far apart: each position has its own window."""
        distinct, index = positions.unique(return_inverse=True)
        single = [self.codes_from(prepared, draw, position) for position in distinct.split(1)]
        index = index.to(self.query_filter.device)
        return torch.cat([query for query, _ in single])[index], torch.cat([key for _, key in single])[index]

    def _axes(self, positions: Positions) -> tuple[Tensor, ...]:
        axes = positions if isinstance(positions, tuple) else (positions,)
        if len(axes) != self.ndim or any(axis.dim() != 1 for axis in axes):
            raise ValueError(f"ConvSPE with ndim={self.ndim} takes {self.ndim} 1-D tensor(s) of positions or lags")
        if any(axis.is_floating_point() and not torch.equal(axis, axis.round()) for axis in axes):
            raise ValueError("ConvSPE takes whole positions and lags; SineSPE takes real ones")
        return tuple(axis.detach().cpu().long() for axis in axes)

    def _noise(self, draw: Draw, low: list[int], high: list[int]) -> Tensor:
        """White noise at the positions low … high−1 of each axis, `(*extent, H, D, R)`."""
        heads, features = self.code_shape
        side = NOISE_BLOCK[self.ndim]
        block_shape = (*(side,) * self.ndim, heads, features, draw.num_realizations)
        first = [start // side for start in low]
        counts = [-(-end // side) - start for start, end in zip(first, high, strict=True)]
        noise = torch.empty(*(count * side for count in counts), *block_shape[self.ndim :])
        for offset in itertools.product(*map(range, counts)):
            index = tuple(start + step for start, step in zip(first, offset, strict=True))
            window = tuple(slice(step * side, (step + 1) * side) for step in offset)
            noise[window] = _noise_block(draw, index, side**self.ndim * heads, features).reshape(block_shape)
        window = tuple(
            slice(start - begin * side, end - begin * side) for start, end, begin in zip(low, high, first, strict=True)
        )
        return noise[window].to(self.query_filter)

    def _filter(self, noise: Tensor, prepared: tuple[Tensor, ...]) -> list[Tensor]:
        """Both valid convolutions of the noise."""
        if fft_is_cheaper(noise.shape[: self.ndim], self.kernel_size):
            return _fft_convolutions(noise, prepared[:2])
        if self.ndim == 1:
            return [_toeplitz_convolution(noise, matrices) for matrices in prepared[2:]]
        return [_direct_convolution(noise, weights) for weights in prepared[:2]]


@functools.lru_cache(maxsize=24)
def _noise_block(draw: Draw, index: tuple[int, ...], groups: int, rows: int) -> Tensor:
    """Code noise of a block of positions. Neighbouring windows overlap, so the latest blocks are kept."""
    return draw.rows(Stream.CODE, index, groups, rows)


_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def fft_is_cheaper(extent: tuple[int, ...], kernel_size: tuple[int, ...]) -> bool:
    """Whether FFT convolution of this much noise costs less than the direct sum.

    Both are counted in operations for each channel. One operation of an FFT takes as long as FFT_COST of the direct
    form, as measured by benchmarks/convolution.py: about 20 where the direct form is matrix products.
    """
    transformed = math.prod(extent)
    outputs = math.prod(size - taps + 1 for size, taps in zip(extent, kernel_size, strict=True))
    taps = math.prod(kernel_size)
    if len(extent) == 1:
        taps += min(outputs, TOEPLITZ_BLOCK) - 1
    transforms = 3 * 2.5 * transformed * math.log2(transformed + 1)
    return FFT_COST[len(extent)] * transforms < 2 * 2 * outputs * taps


def _toeplitz(weights: Tensor) -> Tensor:
    """`(H, D, k)` filters as banded matrices `(H·D, block, block+k−1)`: noise rows to a block of outputs."""
    padded = F.pad(weights.flatten(0, 1).flip(-1), (TOEPLITZ_BLOCK - 1, TOEPLITZ_BLOCK - 1))
    return padded.unfold(-1, TOEPLITZ_BLOCK + weights.shape[-1] - 1, 1).flip(1)


def _toeplitz_convolution(noise: Tensor, matrices: Tensor) -> Tensor:
    """`(T, H, D, R)` noise to `(T−k+1, H, D, R)`, as matrix products for each channel."""
    taps = matrices.shape[-1] - TOEPLITZ_BLOCK + 1
    outputs = noise.shape[0] - taps + 1
    rows = noise.flatten(1, 2).transpose(0, 1)  # (H·D, T, R), a view
    blocks = []
    for start in range(0, outputs, TOEPLITZ_BLOCK):
        size = min(TOEPLITZ_BLOCK, outputs - start)
        filtered = torch.bmm(matrices[:, :size, : size + taps - 1], rows[:, start : start + size + taps - 1])
        blocks.append(filtered.transpose(0, 1))
    whole = blocks[0] if len(blocks) == 1 else torch.cat(blocks)
    return whole.unflatten(1, noise.shape[1:3])


def _direct_convolution(noise: Tensor, weights: Tensor) -> Tensor:
    """Valid N-D convolution as a grouped convolution with R as the batch."""
    ndim = noise.dim() - 3
    extent, (heads, features, realizations) = noise.shape[:ndim], noise.shape[ndim:]
    channels = noise.flatten(ndim, ndim + 1).movedim((-1, -2), (0, 1))  # (R, H·D, *extent)
    flipped = weights.flip(tuple(range(2, 2 + ndim))).flatten(0, 1).unsqueeze(1)
    filtered = _CONVOLUTIONS[ndim](channels, flipped, groups=heads * features)
    outputs = [size - taps + 1 for size, taps in zip(extent, weights.shape[2:], strict=True)]
    return filtered.movedim((0, 1), (-1, -2)).reshape(*outputs, heads, features, realizations)


def _fft_convolutions(noise: Tensor, filters: tuple[Tensor, ...]) -> list[Tensor]:
    """Valid convolutions by FFT; the noise is transformed once for all filters."""
    ndim = noise.dim() - 3
    extent = noise.shape[:ndim]
    axes = tuple(range(-ndim, 0))
    padded = tuple(map(_fast_length, extent))
    channels = noise.movedim(tuple(range(ndim)), axes).contiguous()  # (H, D, R, *extent)
    spectrum = torch.fft.rfftn(channels, s=padded, dim=axes)
    window = (..., *(slice(taps - 1, size) for taps, size in zip(filters[0].shape[2:], extent, strict=True)))
    results = []
    for weights in filters:
        response = torch.fft.rfftn(weights, s=padded, dim=axes).unsqueeze(2)
        filtered = torch.fft.irfftn(spectrum * response, s=padded, dim=axes)[window]
        results.append(filtered.movedim(axes, tuple(range(ndim))))
    return results


def _fast_length(length: int) -> int:
    """The next length without a prime factor above 5, for which FFTs are fast."""
    while True:
        rest = length
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
        length += 1
