"""Means over tokens of songs, and how sure they are: intervals by drawing the songs anew.

The hard choice: songs are drawn, not tokens. The tokens of a song are alike, and a corpus of few songs is a small
sample however long they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLINGS = 1000
Numbers = NDArray[np.float64]


class Totals(NamedTuple):
    """Sums of values, and how many there are, of each song in each cell; both `(songs, cells)`."""

    sums: Numbers
    counts: Numbers

    def mean(self) -> Numbers:
        """Over all values of a cell, `(cells,)`; nan where there are none."""
        return _ratio(self.sums.sum(0), self.counts.sum(0))

    def deviation(self) -> Numbers:
        """Of the means of songs, `(cells,)`; nan where there are less than two."""
        means = _ratio(self.sums, self.counts)
        return np.array([deviation(column[~np.isnan(column)]) for column in means.T])

    def interval(self, seed: int) -> Numbers:
        """Between which 95 % of means lie if songs are drawn anew, `(2, cells)`; nan where less than two songs are."""
        songs = len(self.sums)
        random = np.random.default_rng(seed)
        drawn = random.multinomial(songs, np.full(songs, 1 / songs), RESAMPLINGS).astype(np.float64)
        means = _ratio(drawn @ self.sums, drawn @ self.counts)
        bounds = np.full((2, self.sums.shape[1]), np.nan)
        enough = (self.counts > 0).sum(0) > 1  # of few songs, a drawing may have none: it says nothing
        bounds[:, enough] = np.nanquantile(means[:, enough], [0.025, 0.975], axis=0)
        return bounds


def totals(values: NDArray[np.floating], song: NDArray[np.int64], cell: NDArray[np.int64], cells: int) -> Totals:
    """Sums by song and cell.

    Args:
        values: `(values,)`.
        song: The song of each, from 0 on.
        cell: The cell of each; what is below 0 is in none.
        cells: How many cells there are.
    """
    songs = int(song.max(initial=-1)) + 1
    counted = cell >= 0
    address, size = (song * cells + cell)[counted], songs * cells
    weights = values[counted].astype(np.float64)
    sums, counts = (np.bincount(address, each, size).astype(np.float64) for each in (weights, np.ones_like(weights)))
    return Totals(sums.reshape(songs, cells), counts.reshape(songs, cells))


def deviation(values: Numbers) -> float:
    """The sample's standard deviation; nan of less than two."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def _ratio(sums: Numbers, counts: Numbers) -> Numbers:
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
