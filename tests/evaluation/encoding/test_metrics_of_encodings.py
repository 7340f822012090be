"""Translation invariance, monotonicity and the counting of inversions, against definitions and known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from pe_oracle import slow_invariance, slow_monotonicity

from musicgen.evaluation.encoding.metrics import DIRECT, monotonicity, smaller_later, translation_invariance

LENGTH = 40


def cut(exponents: NDArray[np.float64], low: int, high: int, width: int) -> NDArray[np.float64]:
    """Windows of whole maps, `(..., queries, keys)`, key by key."""
    windows = np.full((*exponents.shape[:-2], high - low, width), -np.inf)
    for query in range(low, high):
        for lag in range(min(width, query + 1)):
            windows[..., query - low, width - 1 - lag] = exponents[..., query, query - lag]
    return windows


def toeplitz(by_lag: NDArray[np.float64], length: int = LENGTH) -> NDArray[np.float64]:
    """A map whose exponents depend on the lag alone."""
    lags = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
    return by_lag[lags]


@pytest.mark.parametrize(("low", "high"), [(0, 20), (20, 40), (39, 40), (0, 2)])
def test_metrics_are_those_of_the_definition(low: int, high: int) -> None:
    generator = np.random.default_rng(low + high)
    # Rounded, so that there are ties.
    exponents = generator.normal(size=(2, 3, LENGTH, LENGTH)).round(1).astype(np.float32).astype(np.float64)
    offsets = [2, 7, 16]
    windows = cut(exponents, low, high, 16)
    invariance, monotone = translation_invariance(windows, offsets), monotonicity(windows, offsets)
    for token, head in np.ndindex(2, 3):
        attention = np.exp(exponents[token, head]).tolist()
        for number, offset in enumerate(offsets):
            assert invariance[token, head, number] == pytest.approx(slow_invariance(attention, low, high, offset))
            assert monotone[token, head, number] == pytest.approx(slow_monotonicity(attention, low, high, offset))


def test_attention_by_lag_alone_is_invariant_and_its_order_is_its_monotonicity() -> None:
    lags = np.arange(LENGTH, dtype=float)
    fading, growing, wavy = (cut(toeplitz(by_lag), 0, LENGTH, 30) for by_lag in (-lags, lags, np.cos(lags)))
    for windows in (fading, growing, wavy):
        assert translation_invariance(windows, [30])[0] < 1e-25
    assert monotonicity(fading, [5, 30]).tolist() == [0, 0]
    assert monotonicity(growing, [5, 30]).tolist() == [1, 1]
    assert 0.3 < monotonicity(wavy, [30])[0] < 0.7


def test_noise_is_neither_invariant_nor_monotone() -> None:
    windows = cut(np.random.default_rng(0).normal(size=(300, 300)), 100, 300, 60)
    assert translation_invariance(windows, [60])[0] == pytest.approx(1, abs=0.02)
    assert monotonicity(windows, [60])[0] == pytest.approx(0.5, abs=0.02)


def test_of_attention_that_is_the_same_everywhere_invariance_is_undefined_and_nothing_is_violated() -> None:
    constant = cut(np.full((LENGTH, LENGTH), 0.3), 0, LENGTH, 20)
    rounded = constant + np.random.default_rng(0).normal(size=constant.shape) * 1e-14
    for windows in (constant, rounded):
        assert math.isnan(translation_invariance(windows, [20])[0])
        assert monotonicity(windows, [20]).tolist() == [0]


def test_a_single_key_makes_no_pair() -> None:
    assert math.isnan(monotonicity(np.zeros((1, 1)), [1])[0])


@pytest.mark.parametrize("shift", [-5000.0, 800.0, 1e5])
def test_a_factor_changes_nothing_however_large(shift: float) -> None:
    windows = cut(np.random.default_rng(1).normal(size=(LENGTH, LENGTH)), 0, LENGTH, 16)
    expected = translation_invariance(windows, [4, 16])
    assert translation_invariance(windows + shift, [4, 16]) == pytest.approx(expected, rel=1e-9)


def test_near_keys_are_measured_however_much_more_far_ones_have() -> None:
    windows = cut(np.random.default_rng(2).normal(size=(LENGTH, LENGTH)), 20, 40, 16)
    towering = windows.copy()
    towering[:, :8] += 2000
    assert translation_invariance(towering, [8])[0] == translation_invariance(windows, [8])[0]


@pytest.mark.parametrize("length", [1, 2, 63, DIRECT, DIRECT + 1, 4 * DIRECT, 300])
@pytest.mark.parametrize("values", [3, 10_000], ids=["many ties", "few ties"])
def test_smaller_later_counts_what_comes_later_and_is_smaller(length: int, values: int) -> None:
    rows = np.random.default_rng(length).integers(values, size=(2, 3, length)).astype(np.float32)
    counts = smaller_later(rows)
    for index in np.ndindex(2, 3):
        row = rows[index].tolist()
        expected = [sum(later < value for later in row[place + 1 :]) for place, value in enumerate(row)]
        assert counts[index].tolist() == expected
