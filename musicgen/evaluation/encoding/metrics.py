"""Translation invariance and monotonicity of attention maps.

Both are measured on windows. Each row of a window has the keys from some offset before the query up to the query
itself. Columns are lags, so the end of a row is a smaller window. Values are logarithms of attention.

Design note: for each element, the later elements that are smaller are counted. The inversions of any smaller window are
sums of these counts, so counting once serves all offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DIRECT = 64  # blocks of this size are compared element by element, which is faster than sorting
ROUNDING = 1e-6  # relative differences below this are rounding: models run in single precision


def translation_invariance(exponents: Floats, offsets: Sequence[int]) -> Floats:
    """The variance of attention between queries at equal lags, divided by its total variance.

    It is 0 if attention depends only on the lag, and 1 if it does not depend on the lag.

    Attention itself may overflow. The measure does not change if a map is multiplied by a factor, so each map is
    divided by its largest value.

    Args:
        exponents: Logarithms of attention, `(..., queries, width)`; the last column is the query's own position, and
            −inf stands where there is no key.
        offsets: How many lags, from 0 on, each at most `width`.

    Returns:
        `(..., offsets)`; nan where attention is the same everywhere.
    """
    return np.stack([_invariance(exponents[..., exponents.shape[-1] - offset :]) for offset in offsets], -1)


def _invariance(exponents: Floats) -> Floats:
    attention = np.exp(exponents - exponents.max((-2, -1), keepdims=True))
    is_key = np.isfinite(exponents[(0,) * (exponents.ndim - 2)])  # the same in all maps
    keys = is_key.sum()
    columns = attention.sum(-2, keepdims=True) / np.maximum(is_key.sum(0), 1)
    within = np.square(np.where(is_key, attention - columns, 0)).sum((-2, -1))
    mean = attention.sum((-2, -1), keepdims=True) / keys
    total = np.square(np.where(is_key, attention - mean, 0)).sum((-2, -1))
    is_constant = total <= ROUNDING**2 * np.square(attention).sum((-2, -1))
    return np.where(is_constant, np.nan, within / np.where(is_constant, 1, total))


def monotonicity(exponents: Floats, offsets: Sequence[int]) -> Floats:
    """The share of pairs of keys in which the farther key has more attention: 0 if attention fades, ½ if random.

    Arguments are those of `translation_invariance`. Equal attention does not count. Values are compared in single
    precision, in which models run.

    Returns:
        `(..., offsets)`; nan where no query has two keys.
    """
    width = exponents.shape[-1]
    counts = smaller_later(exponents.astype(np.float32))
    is_key = np.isfinite(exponents[(0,) * (exponents.ndim - 2)])
    shares = []
    for offset in offsets:
        lengths = is_key[:, width - offset :].sum(-1)
        pairs = int((lengths * (lengths - 1) // 2).sum())
        inversions = counts[..., width - offset :].sum((-2, -1), dtype=np.int64)
        shares.append(inversions / pairs if pairs else np.full(inversions.shape, np.nan))
    return np.stack(shares, -1)


def smaller_later(values: NDArray[np.float32]) -> NDArray[np.int32]:
    """How many of the elements after each one are smaller than it, along the last axis, in O(n log n).

    As in a merge sort, blocks are joined to blocks twice as long. For each element of the left block, a search in the
    sorted right block gives how many are smaller.
    """
    length = values.shape[-1]
    size = min(DIRECT, max(length, 1))
    whole = size
    while whole < length:
        whole *= 2
    # The padding comes before all elements and is smaller than all, so it changes no count.
    padded = np.full((*values.shape[:-1], whole), -np.inf, np.float32)
    padded[..., whole - length :] = values
    counts = _compared(padded.reshape(-1, size)).reshape(padded.shape)
    while size < whole:
        left, right = (np.ascontiguousarray(half) for half in padded.reshape(-1, 2, size).swapaxes(0, 1))
        right.sort(-1)
        found = torch.searchsorted(torch.from_numpy(right), torch.from_numpy(left), out_int32=True)
        counts.reshape(-1, 2, size)[:, 0] += found.numpy()
        size *= 2
    return counts[..., whole - length :]


def _compared(blocks: NDArray[np.float32]) -> NDArray[np.int32]:
    """`smaller_later` for short blocks, `(blocks, size)`: compares each element with each later one."""
    counts = np.zeros(blocks.shape, np.uint8)
    for distance in range(1, blocks.shape[-1]):
        counts[:, :-distance] += blocks[:, :-distance] > blocks[:, distance:]
    return counts.astype(np.int32)
