"""Overlap of distributions against numerical integration by brute force, and where it is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from musicgen.evaluation.music.overlap import chance, distance_overlap, dominance, halves, overlap, surely


def brute_force(first: np.ndarray, second: np.ndarray, strips: int = 40_000) -> float:
    """The area under the lower of two sums of bells, by very many narrow strips."""
    widths = [values.std(ddof=1) * len(values) ** -0.2 for values in (first, second)]
    low = min(first.min(), second.min()) - 8 * max(widths)
    high = max(first.max(), second.max()) + 8 * max(widths)
    points = np.linspace(low, high, strips + 1)
    heights = []
    for values, width in zip((first, second), widths, strict=True):
        height = np.zeros(len(points))
        for value in values:
            height += np.exp(-(((points - value) / width) ** 2) / 2) / (width * math.sqrt(2 * math.pi) * len(values))
        heights.append(height)
    return float(np.minimum(*heights).sum() * (points[1] - points[0]))


@pytest.mark.parametrize("seed", range(6))
def test_the_overlap_is_the_area_under_both_densities(seed: int) -> None:
    random = np.random.default_rng(seed)
    first = random.normal(0, 1, int(random.integers(2, 60)))
    second = random.normal(random.uniform(-2, 2), 10.0 ** random.uniform(-2, 1), int(random.integers(2, 60)))
    assert overlap(first, second) == pytest.approx(brute_force(first, second), abs=2e-3)
    assert overlap(first, second) == pytest.approx(overlap(second, first))
    assert overlap(3 * first + 7, 3 * second + 7) == pytest.approx(overlap(first, second), abs=1e-6)


def test_scipy_sees_the_same_densities() -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(0)
    first, second = random.normal(0, 1, 30), random.normal(0.7, 2, 40)
    points = np.linspace(-15, 15, 20_001)
    densities = [stats.gaussian_kde(values)(points) for values in (first, second)]
    assert overlap(first, second) == pytest.approx(np.minimum(*densities).sum() * (points[1] - points[0]), abs=1e-3)


def test_thousands_of_values_are_seen_through_their_quantiles() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(0, 1, 4000), random.normal(1, 1, 5000)
    assert overlap(first, second) == pytest.approx(brute_force(first, second, 1000), abs=5e-3)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 1, 1], [1, 1], 1.0),
        ([1, 1, 1], [2, 2], 0.0),
        ([1 / 3, 1 - 2 / 3], [1 / 3, 1 / 3], 1.0),
        ([0, 1, 2, 3], [0, 1, 2, 3], 1.0),
        ([0, 1, 2], [100, 101, 102], 0.0),
    ],
)
def test_known_overlaps(first: list[float], second: list[float], expected: float) -> None:
    assert overlap(np.array(first, float), np.array(second, float)) == pytest.approx(expected, abs=1e-3)


def test_a_constant_is_near_what_is_nearly_constant() -> None:
    nearly = np.array([0.0] * 30 + [0.01])
    assert overlap(np.zeros(10), nearly) > 0.9
    assert overlap(np.ones(10), nearly) < 0.01


@pytest.mark.parametrize(("first", "second"), [([], [1, 2]), ([1], [1, 2]), ([1, 2], [1])])
def test_one_value_has_no_distribution(first: list[float], second: list[float]) -> None:
    assert math.isnan(overlap(np.array(first, float), np.array(second, float)))


def test_distances_are_within_the_reference_and_between_the_sets() -> None:
    generated, reference = np.array([0.0, 5.0]), np.array([1.0, 2.0, 4.0])
    within, between = np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 4.0, 4.0, 3.0, 1.0])
    assert distance_overlap(generated, reference) == overlap(within, between)
    assert math.isnan(distance_overlap(generated, reference[:2]))
    assert math.isnan(distance_overlap(generated[:0], reference))


def test_parts_of_the_reference_overlap_more_than_another_set_and_less_the_fewer_they_are() -> None:
    random = np.random.default_rng(1)
    reference = random.normal(0, 1, 200)
    assert halves(reference, 100, 0) == halves(reference, 100, 0)
    many, few = halves(reference, 100, 0), halves(reference, 4, 0)
    assert many[0] > 0.85 > overlap(random.normal(1.5, 1, 100), reference)
    assert few[0] < many[0]
    assert halves(reference, 1000, 0) == many
    assert all(map(math.isnan, halves(reference[:3], 10, 0)))


def test_dominance_is_the_balance_of_all_pairs() -> None:
    random = np.random.default_rng(2)
    first, second = random.integers(0, 6, 12).astype(float), random.integers(1, 8, 9).astype(float)
    expected = sum((a > b) - (a < b) for a in first.tolist() for b in second.tolist()) / (12 * 9)
    delta, low, high = dominance(first, second, 0)
    assert delta == pytest.approx(expected)
    assert low < delta < high
    assert dominance(second, first, 0)[0] == pytest.approx(-expected)
    assert dominance(np.array([2.0, 3.0]), np.array([0.0, 1.0]), 0) == (1, 1, 1)


def test_dominance_of_too_few_pieces_has_no_interval() -> None:
    delta, low, high = dominance(np.array([2.0]), np.array([0.0, 1.0]), 0)
    assert delta == 1
    assert math.isnan(low)
    assert math.isnan(high)
    assert math.isnan(dominance(np.empty(0), np.ones(3), 0)[0])


def test_chance_is_the_share_of_all_partings_that_part_as_far() -> None:
    random = np.random.default_rng(5)
    for _ in range(5):
        first, second = random.integers(0, 5, 3).astype(float), random.integers(1, 7, 5).astype(float)
        both = np.concatenate([first, second]).tolist()
        found = abs(dominance(first, second, 0)[0])
        deltas = []
        for chosen in itertools.combinations(range(8), 3):
            ours = np.array([both[place] for place in chosen])
            rest = np.array([both[place] for place in range(8) if place not in chosen])
            deltas.append(abs(dominance(ours, rest, 0)[0]))
        exact = np.mean([delta >= found - 1e-9 for delta in deltas])
        assert chance(first, second, 0) == pytest.approx(exact, abs=0.04)
    assert math.isnan(chance(np.empty(0), np.ones(2), 0))


def test_sets_that_are_alike_differ_in_a_metric_in_few_of_many_comparisons() -> None:
    random = np.random.default_rng(6)
    named = [
        any(surely([chance(random.normal(size=3), random.normal(size=20), seed) for seed in range(8)]))
        for _ in range(60)
    ]
    assert sum(named) <= 8  # 3 of 60 are to be expected
    assert surely([chance(np.full(6, 9.0), random.normal(size=20), 0), 0.5]) == [True, False]


def test_of_several_differences_the_surest_are_judged_first() -> None:
    assert surely([0.02, 0.001, math.nan, 0.04]) == [True, True, False, True]
    assert surely([0.02, 0.03, 0.04]) == [False, False, False]
    assert surely([]) == []
