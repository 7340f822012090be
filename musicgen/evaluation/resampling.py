"""Means, quartiles, and how sure they are: 95 % intervals by resampling (the bootstrap).

Design note: songs are resampled, not tokens. The tokens of one song are alike, so a few long songs are a small sample.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLINGS = 1000
MEDIAN_RESAMPLINGS = 2000
Numbers = NDArray[np.float64]


class Totals(NamedTuple):
    """Sums of values, and how many there are, for each song and cell; both `(songs, cells)`."""

    sums: Numbers
    counts: Numbers

    def mean(self) -> Numbers:
        """Over all values of a cell, `(cells,)`; nan where there are none."""
        return _ratio(self.sums.sum(0), self.counts.sum(0))

    def deviation(self) -> Numbers:
        """The standard deviation of the songs' means, `(cells,)`; nan with fewer than two songs."""
        means = _ratio(self.sums, self.counts)
        return np.array([deviation(column[~np.isnan(column)]) for column in means.T])

    def interval(self, seed: int) -> Numbers:
        """The 95 % interval of the mean over resampled songs, `(2, cells)`; nan with fewer than two songs."""
        drawn = draw_counts(len(self.sums), np.random.default_rng(seed))
        means = _ratio(drawn @ self.sums, drawn @ self.counts)
        bounds = np.full((2, self.sums.shape[1]), np.nan)
        enough = (self.counts > 0).sum(0) > 1  # with few songs a resampling may have none: it does not count
        bounds[:, enough] = interval(means[:, enough])
        return bounds


def totals(values: NDArray[np.floating], song: NDArray[np.int64], cell: NDArray[np.int64], cells: int) -> Totals:
    """Sums by song and cell.

    Args:
        values: `(values,)`.
        song: The song of each value, counted from 0.
        cell: The cell of each value; below 0 it is in no cell.
        cells: How many cells there are.
    """
    songs = int(song.max(initial=-1)) + 1
    counted = cell >= 0
    address, size = (song * cells + cell)[counted], songs * cells
    weights = values[counted].astype(np.float64)
    sums, counts = (np.bincount(address, each, size).astype(np.float64) for each in (weights, np.ones_like(weights)))
    return Totals(sums.reshape(songs, cells), counts.reshape(songs, cells))


def deviation(values: Numbers) -> float:
    """The standard deviation of a sample; nan with fewer than two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def quartiles(values: Any) -> Numbers:
    """Lower quartile, median and upper quartile along the first axis, `(3, ...)`; nan without values.

    Args:
        values: `(values, ...)`; nan does not count.
    """
    numbers = np.asarray(values, np.float64)
    if not len(numbers):
        return np.full((3, *numbers.shape[1:]), np.nan)
    return np.asarray(np.nanquantile(numbers, [0.25, 0.5, 0.75], axis=0))


def draw_counts(size: int, random: np.random.Generator) -> Numbers:
    """How often each of some items is in each resampling, `(resamplings, size)`."""
    return random.multinomial(size, np.full(size, 1 / size), RESAMPLINGS).astype(np.float64)


def interval(resampled: Numbers) -> Numbers:
    """The 95 % interval of a statistic, from its values in the resamplings, `(resamplings, ...)` to `(2, ...)`."""
    return np.asarray(np.nanquantile(resampled, [0.025, 0.975], axis=0))


def median_interval(values: Numbers, seed: int) -> tuple[float, float]:
    """The 95 % interval of a median; nan without values."""
    if not len(values):
        return float("nan"), float("nan")
    chosen = np.random.default_rng(seed).integers(len(values), size=(MEDIAN_RESAMPLINGS, len(values)))
    low, high = interval(np.median(values[chosen], axis=1)).tolist()
    return low, high


def _ratio(sums: Numbers, counts: Numbers) -> Numbers:
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
