"""How far two sets of numbers agree: the area that their densities share, and which set is larger.

The hard choice: densities are Gaussian kernel estimates with Scott's bandwidth, as in mgeval, and the area under the
lower of the two is what they share: 1 for the same distribution, 0 for distributions that do not meet. A set whose
values are all equal has no bandwidth; it takes that of the other, so that "always 0" and "nearly always 0" are close.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

POINTS = 256
"""At which a density is looked at, for each of the two sets."""
REACH = 5.0
"""Bandwidths from the outermost values to where a density is taken to end."""
MOST = 500
"""Of more values than this, as many quantiles stand for all of them."""
SAME = 1e-12
"""Numbers that differ by less than this part differ by rounding."""
SPLITS = 10
RESAMPLINGS = 1000
PARTINGS = 3999


def overlap(first: Numbers, second: Numbers) -> float:
    """The area that the densities of two sets share, from 0 to 1; nan if one has less than two values."""
    if min(len(first), len(second)) < 2:
        return math.nan
    widths = [_bandwidth(values) for values in (first, second)]
    if not any(widths):
        return float(math.isclose(first[0], second[0], rel_tol=SAME, abs_tol=SAME))
    widths = [width or max(widths) for width in widths]
    sets = [_thinned(values) for values in (first, second)]
    # Points of both supports: a narrow set beside a wide one is seen as finely as it needs.
    points = np.unique(np.concatenate([_support(values, width) for values, width in zip(sets, widths, strict=True)]))
    densities = [_density(values, width, points) for values, width in zip(sets, widths, strict=True)]
    shared = np.minimum(*densities)
    area = ((shared[1:] + shared[:-1]) / 2 * np.diff(points)).sum()
    return min(float(area), 1.0)


def distance_overlap(generated: Numbers, reference: Numbers) -> float:
    """The overlap of mgeval: of the distances within the reference with those between the sets.

    It is nan if there are less than three reference values (one distance has no distribution) or none generated.
    """
    if len(reference) < 3 or not len(generated):
        return math.nan
    within = np.abs(reference[:, None] - reference)[np.triu_indices(len(reference), 1)]
    between = np.abs(generated[:, None] - reference).ravel()
    return overlap(within, between)


def halves(reference: Numbers, generated: int, seed: int) -> tuple[float, float]:
    """What a perfect model would get from `overlap` and `distance_overlap` with as few pieces.

    The reference is parted at random into what is taken for generated (as many as were, at most half) and the rest,
    ten times; the means.
    """
    size = min(generated, len(reference) // 2)
    if size < 2:
        return math.nan, math.nan
    random = np.random.default_rng(seed)
    orders = [random.permutation(reference) for _ in range(SPLITS)]
    plain = [overlap(order[:size], order[size:]) for order in orders]
    distances = [distance_overlap(order[:size], order[size:]) for order in orders]
    return float(np.mean(plain)), float(np.mean(distances))


def chance(generated: Numbers, reference: Numbers, seed: int) -> float:
    """How likely a δ as far from 0 is if nothing tells the sets apart: their pieces are mixed and parted anew.

    An exact test in the limit of many partings, also for sets of two or three pieces, where no interval can be trusted.

    Returns:
        The probability, at least 1 / (partings + 1); nan if a set is empty.
    """
    if not len(generated) or not len(reference):
        return math.nan
    both = np.concatenate([generated, reference])
    # δ is the sum of the signs of all pairs, which is linear in the sums of ranks (ties in their middle).
    ranks = np.sign(both[:, None] - both).sum(1)
    found = abs(ranks[: len(generated)].sum())
    random = np.random.default_rng(seed)
    mixed = random.permuted(np.tile(ranks, (PARTINGS, 1)), axis=1)[:, : len(generated)].sum(1)
    return float((1 + (np.abs(mixed) >= found - 1e-9).sum()) / (PARTINGS + 1))


def surely(chances: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of several differences are no chance, so that with this probability not even one is (Holm's procedure)."""
    order = sorted((value, place) for place, value in enumerate(chances) if not math.isnan(value))
    sure = [False] * len(chances)
    for number, (value, place) in enumerate(order):
        if value > level / (len(order) - number):
            break
        sure[place] = True
    return sure


def dominance(generated: Numbers, reference: Numbers, seed: int) -> tuple[float, float, float]:
    """Cliff's δ and its 95 % interval, by drawing pieces of both sets anew.

    How much more often a generated value is the larger of a pair than the smaller: 1 if always, −1 if never, 0 if the
    sets are alike. It asks nothing of their distributions, and no single piece weighs more than another.

    Returns:
        δ and the ends of its interval; nan if a set is empty, and for the ends if one has less than two values.
    """
    if not len(generated) or not len(reference):
        return math.nan, math.nan, math.nan
    signs = np.sign(generated[:, None] - reference)
    if min(signs.shape) < 2:
        return float(signs.mean()), math.nan, math.nan
    random = np.random.default_rng(seed)
    rows, columns = (random.multinomial(size, np.full(size, 1 / size), RESAMPLINGS) / size for size in signs.shape)
    low, high = np.quantile(((rows @ signs) * columns).sum(1), [0.025, 0.975])
    return float(signs.mean()), float(low), float(high)


def _bandwidth(values: Numbers) -> float:
    """Scott's: the deviation, and narrower the more values there are; 0 if all are equal."""
    if np.ptp(values) <= SAME * max(1.0, float(np.abs(values).max())):
        return 0.0
    return float(values.std(ddof=1) * len(values) ** -0.2)


def _thinned(values: Numbers) -> Numbers:
    if len(values) <= MOST:
        return values
    return np.quantile(values, (np.arange(MOST) + 0.5) / MOST)


def _support(values: Numbers, width: float) -> Numbers:
    return np.linspace(values.min() - REACH * width, values.max() + REACH * width, POINTS)


def _density(values: Numbers, width: float, points: Numbers) -> Numbers:
    """A Gaussian on each value, `(points,)`."""
    bells = np.exp(-0.5 * ((points[:, None] - values) / width) ** 2)
    return bells.mean(1) / (width * math.sqrt(2 * math.pi))
