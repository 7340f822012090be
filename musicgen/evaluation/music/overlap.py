"""How similar two sets of numbers are: the overlap of their densities, and which set is larger.

Design note: densities are Gaussian kernel estimates with Scott's bandwidth, as in mgeval. The overlap is the area under
the lower of the two: 1 for equal distributions, 0 for separate ones. A set whose values are all equal has no bandwidth
and takes that of the other set, so that "always 0" and "nearly always 0" are similar.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from musicgen.evaluation.resampling import Numbers, draw_counts, interval

POINTS = 256
"""Points at which a density is evaluated, for each of the two sets."""
REACH = 5.0
"""A density ends this many bandwidths from the outermost values."""
MOST = 500
"""A larger set is replaced by this many of its quantiles."""
SAME = 1e-12
"""Relative differences below this are rounding."""
SPLITS = 10
PERMUTATIONS = 3999


def overlap(first: Numbers, second: Numbers) -> float:
    """The area that the densities of two sets share, from 0 to 1; nan if one has less than two values."""
    if min(len(first), len(second)) < 2:
        return math.nan
    widths = [_bandwidth(values) for values in (first, second)]
    if not any(widths):
        return float(math.isclose(first[0], second[0], rel_tol=SAME, abs_tol=SAME))
    widths = [width or max(widths) for width in widths]
    sets = [_thinned(values) for values in (first, second)]
    # Points from both sets, so that a narrow set has enough points even if the other is wide.
    points = np.unique(np.concatenate([_support(values, width) for values, width in zip(sets, widths, strict=True)]))
    densities = [_density(values, width, points) for values, width in zip(sets, widths, strict=True)]
    shared = np.minimum(*densities)
    area = ((shared[1:] + shared[:-1]) / 2 * np.diff(points)).sum()
    return min(float(area), 1.0)


def distance_overlap(generated: Numbers, reference: Numbers) -> float:
    """The overlap of mgeval: of the distances within the reference and the distances between the sets.

    It is nan if there are less than three reference values (one distance has no distribution) or none generated.
    """
    if len(reference) < 3 or not len(generated):
        return math.nan
    within = np.abs(reference[:, None] - reference)[np.triu_indices(len(reference), 1)]
    between = np.abs(generated[:, None] - reference).ravel()
    return overlap(within, between)


def halves(reference: Numbers, generated: int, seed: int) -> tuple[float, float]:
    """What a perfect model would get from `overlap` and `distance_overlap` with as few pieces.

    The reference is split at random, ten times: one part has as many pieces as were generated, at most half. The
    result is the mean.
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
    """The probability of a δ this far from 0 if the sets are alike, by a permutation test.

    It is also right for sets of two or three pieces, where an interval is not reliable.

    Returns:
        The probability, at least 1 / (permutations + 1); nan if a set is empty.
    """
    if not len(generated) or not len(reference):
        return math.nan
    both = np.concatenate([generated, reference])
    # δ is the sum of the signs of all pairs, which is linear in the sums of ranks (ties in their middle).
    ranks = np.sign(both[:, None] - both).sum(1)
    found = abs(ranks[: len(generated)].sum())
    random = np.random.default_rng(seed)
    mixed = random.permuted(np.tile(ranks, (PERMUTATIONS, 1)), axis=1)[:, : len(generated)].sum(1)
    return float((1 + (np.abs(mixed) >= found - 1e-9).sum()) / (PERMUTATIONS + 1))


def surely(chances: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of several differences are significant, by Holm's procedure at this level."""
    order = sorted((value, place) for place, value in enumerate(chances) if not math.isnan(value))
    sure = [False] * len(chances)
    for number, (value, place) in enumerate(order):
        if value > level / (len(order) - number):
            break
        sure[place] = True
    return sure


def dominance(generated: Numbers, reference: Numbers, seed: int) -> tuple[float, float, float]:
    """Cliff's δ and its 95 % interval, by resampling the pieces of both sets.

    δ is 1 if generated values are always larger, −1 if always smaller, and 0 if the sets are alike. It assumes nothing
    about the distributions, and all pieces have the same weight.

    Returns:
        δ and the ends of its interval; nan if a set is empty, and for the ends if one has less than two values.
    """
    if not len(generated) or not len(reference):
        return math.nan, math.nan, math.nan
    signs = np.sign(generated[:, None] - reference)
    if min(signs.shape) < 2:
        return float(signs.mean()), math.nan, math.nan
    random = np.random.default_rng(seed)
    rows, columns = (draw_counts(size, random) / size for size in signs.shape)
    low, high = interval(((rows @ signs) * columns).sum(1)).tolist()
    return float(signs.mean()), low, high


def _bandwidth(values: Numbers) -> float:
    """Scott's bandwidth; 0 if all values are equal."""
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
