from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from likelihood_oracle import plain_mean

from musicgen.evaluation.resampling import RESAMPLINGS, deviation, totals

SONG = np.repeat(np.arange(5), [40, 3, 20, 11, 26])


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(0).normal(size=100) + SONG


def test_means_and_deviations_are_those_of_plain_lists(values: np.ndarray) -> None:
    cell = np.random.default_rng(1).integers(-1, 3, 100)
    cell[SONG == 1] = 2
    found = totals(values, SONG, cell, 4)
    for number in range(4):
        chosen = [
            [v for v, s, c in zip(values, SONG, cell, strict=True) if (s, c) == (song, number)] for song in range(5)
        ]
        assert found.mean()[number] == pytest.approx(plain_mean(itertools.chain(*chosen)), nan_ok=True)
        means = [plain_mean(song) for song in chosen if song]
        expected = statistics.stdev(means) if len(means) > 1 else math.nan
        assert found.deviation()[number] == pytest.approx(expected, nan_ok=True)


def test_intervals_are_those_of_songs_drawn_one_by_one(values: np.ndarray) -> None:
    found = totals(values, SONG, np.zeros(100, np.int64), 1).interval(seed=3)[:, 0]
    random = np.random.default_rng(17)
    by_song = [values[song == SONG].tolist() for song in range(5)]
    means = [
        plain_mean(itertools.chain(*(by_song[song] for song in random.integers(5, size=5))))
        for _ in range(4 * RESAMPLINGS)
    ]
    expected = np.quantile(means, [0.025, 0.975])
    np.testing.assert_allclose(found, expected, atol=0.15)
    assert found[0] < values.mean() < found[1]
    np.testing.assert_array_equal(found, totals(values, SONG, np.zeros(100, np.int64), 1).interval(seed=3)[:, 0])


def test_songs_that_are_all_the_same_have_no_interval_to_speak_of() -> None:
    found = totals(np.ones(100), SONG, np.zeros(100, np.int64), 1)
    np.testing.assert_allclose(found.interval(0), 1)
    assert found.deviation()[0] == pytest.approx(0)


def test_one_song_says_nothing_of_others(values: np.ndarray) -> None:
    found = totals(values, SONG, np.where(SONG == 2, 0, -1), 1)
    assert np.isnan(found.interval(0)).all()
    assert math.isnan(found.deviation()[0])
    assert found.mean()[0] == pytest.approx(values[SONG == 2].mean())
    assert math.isnan(deviation(np.ones(1)))
