from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.training.config import OptimizerConfig
from musicgen.training.schedule import code_seed, feature_seed, learning_rate, validation_seed


def optimizer(warmup: int, decay: int | None, redraw: float = 0.05) -> OptimizerConfig:
    return OptimizerConfig(2e-4, 5e-6, warmup, decay, 0.5, redraw)


@settings(max_examples=60, deadline=None)
@given(warmup=st.integers(1, 50), decay=st.none() | st.integers(60, 300), steps=st.integers(60, 400))
def test_the_rate_rises_once_falls_once_and_stays(warmup: int, decay: int | None, steps: int) -> None:
    config = optimizer(warmup, decay)
    rates = [learning_rate(step, config, steps) for step in range(max(steps, decay or 0) + 50)]
    top = max(range(len(rates)), key=rates.__getitem__)
    assert rates[0] < config.learning_rate
    assert top == warmup
    assert rates[top] == pytest.approx(config.learning_rate)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] == pytest.approx(config.final_learning_rate)
    assert learning_rate(decay or steps, config, steps) == pytest.approx(config.final_learning_rate)


def test_without_a_warm_up_the_first_step_is_the_highest() -> None:
    assert learning_rate(0, optimizer(0, None), 100) == pytest.approx(2e-4)


def test_every_step_has_codes_of_its_own_and_validation_others() -> None:
    seeds = {code_seed(seed, step) for seed in range(3) for step in range(200)}
    assert len(seeds) == 600
    assert not seeds & {validation_seed(seed, number) for seed in range(3) for number in range(20)}


def test_features_stay_for_as_many_steps_as_are_asked_for() -> None:
    seeds = [feature_seed(0, step, 40) for step in range(200)]
    changes = [step for step in range(1, 200) if seeds[step] != seeds[step - 1]]
    assert changes == [40, 80, 120, 160]


def test_features_change_by_chance_and_by_the_step_alone() -> None:
    seeds = [feature_seed(7, step, 0.05) for step in range(4000)]
    changes = sum(one != other for one, other in pairwise(seeds))
    assert 140 < changes < 260  # 200 in the mean, 14 to either side
    assert len(set(seeds)) == changes + 1  # none comes back
