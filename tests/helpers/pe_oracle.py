"""Translation invariance and monotonicity straight from their definitions, pair by pair, on whole maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

Map = Sequence[Sequence[float]]
"""Unnormalised attention by query and key."""


def entries(attention: Map, low: int, high: int, offset: int) -> list[tuple[int, float]]:
    """(lag, attention) of the queries low … high − 1 and their keys at lags below the offset."""
    return [
        (query - key, attention[query][key])
        for query in range(low, high)
        for key in range(query + 1)
        if query - key < offset
    ]


def variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


def slow_invariance(attention: Map, low: int, high: int, offset: int) -> float:
    found = entries(attention, low, high, offset)
    within = 0.0
    for lag in {lag for lag, _ in found}:
        values = [value for at, value in found if at == lag]
        within += len(values) * variance(values)
    return within / len(found) / variance([value for _, value in found])


def slow_monotonicity(attention: Map, low: int, high: int, offset: int) -> float:
    pairs = violations = 0
    for query in range(low, high):
        row = [attention[query][key] for key in range(max(0, query - offset + 1), query + 1)]
        for farther, nearer in combinations(row, 2):
            pairs += 1
            violations += farther > nearer
    return violations / pairs
