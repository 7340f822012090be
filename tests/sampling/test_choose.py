"""Choices against exact distributions, and at the extremes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.sampling.choose import Chance, SamplingConfig, choose, distribution

ALL = np.ones((1, 4), np.bool_)
CHANCES = np.linspace(0, 1, 5_001)[:-1]
MIXED = [
    *(SamplingConfig(temperature) for temperature in (0, 0.5, 1e-310, 3)),
    *(SamplingConfig(1.2, top_p) for top_p in (0.9, 1)),
    SamplingConfig(top_k=2),
    SamplingConfig(min_p=0.3),
    SamplingConfig(0.7, 0.8, 5, 0.01),
    SamplingConfig(1.2, 0.9, rhythm_temperature=0.5),
]
"""Rows with nothing in common."""


def sweep(logits: list[float], allowed: list[bool], config: SamplingConfig) -> NDArray[np.float64]:
    """How often each token is chosen by numbers spread evenly over 0 to 1."""
    many = np.broadcast_to(np.array(logits), (len(CHANCES), len(logits)))
    mask = np.broadcast_to(np.array(allowed), many.shape)
    tokens = choose(many, mask, CHANCES, [config] * len(CHANCES)).tokens
    return np.bincount(tokens, minlength=len(logits)) / len(CHANCES)


def slow(logits: list[float], allowed: list[bool], config: SamplingConfig) -> list[float]:
    """The distribution by the definitions, one token after another."""
    ids = [token for token, keep in enumerate(allowed) if keep]
    ids.sort(key=lambda token: (-logits[token], token))
    if config.temperature == 0:
        ids = ids[:1]
    top = logits[ids[0]]
    weight = {i: float(np.exp((logits[i] - top) / (config.temperature or 1))) for i in ids}
    ids = [token for token in ids if weight[token] >= config.min_p * weight[ids[0]]]
    ids = ids[: config.top_k]
    total = sum(weight[token] for token in ids)
    nucleus, mass = [], 0.0
    for token in ids:
        if mass >= config.top_p and config.top_p < 1:
            break
        nucleus.append(token)
        mass += weight[token] / total
    total = sum(weight[token] for token in nucleus)
    return [weight[token] / total if token in nucleus else 0.0 for token in range(len(logits))]


sampling_configs = st.builds(
    SamplingConfig,
    temperature=st.sampled_from([0.0, 0.3, 0.6, 1.0, 1.2, 3.0]),
    top_p=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    top_k=st.none() | st.integers(1, 8),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[float], list[bool]]:
    size = draw(st.integers(1, 8))
    # Multiples of a quarter: exact ties happen, and no cut falls within rounding of a boundary.
    logits = draw(st.lists(st.integers(-20, 20).map(lambda n: n / 4), min_size=size, max_size=size))
    allowed = draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any))
    return logits, allowed


@settings(max_examples=200, deadline=None)
@given(situations(), sampling_configs)
def test_choices_come_as_often_as_the_definitions_say(
    situation: tuple[list[float], list[bool]], config: SamplingConfig
) -> None:
    logits, allowed = situation
    exact = slow(logits, allowed, config)
    assert np.allclose(distribution(np.array([logits]), np.array([allowed]), [config])[0], exact, atol=1e-12)
    assert np.abs(sweep(logits, allowed, config) - exact).max() <= 2 / len(CHANCES)


@settings(max_examples=200, deadline=None)
@given(situations(), sampling_configs, sampling_configs, st.integers(0, 255))
def test_rhythm_is_as_likely_as_ever_and_chosen_by_its_own_settings(
    situation: tuple[list[float], list[bool]], config: SamplingConfig, own: SamplingConfig, bits: int
) -> None:
    logits, allowed = (np.array([part]) for part in situation)
    rhythm = np.array([bool(bits >> number & 1) for number in range(logits.shape[1])])
    own = replace(own, top_k=config.top_k)
    cooler = replace(config, rhythm_temperature=own.temperature, rhythm_top_p=own.top_p, rhythm_min_p=own.min_p)
    usual = distribution(logits, allowed, [config])[0]
    probabilities = distribution(logits, allowed, [cooler], rhythm)[0]
    assert np.allclose(probabilities[~rhythm], usual[~rhythm], atol=1e-12)
    share = usual[rhythm].sum()
    if share > 0:
        assert np.allclose(probabilities[rhythm] / share, distribution(logits, allowed & rhythm, [own])[0, rhythm])
    many, mask = (np.repeat(part, 50, 0) for part in (logits, allowed))
    chosen = choose(many, mask, CHANCES[::100], [cooler] * 50, rhythm)
    assert (probabilities[chosen.tokens] > 0).all()


@settings(max_examples=100, deadline=None)
@given(situations(), sampling_configs)
def test_rhythm_like_everything_else_changes_nothing(
    situation: tuple[list[float], list[bool]], config: SamplingConfig
) -> None:
    logits, allowed = (np.broadcast_to(np.array(part), (len(CHANCES[::100]), len(part))) for part in situation)
    configs = [config] * len(logits)
    plain, with_rhythm = (
        choose(logits, allowed, CHANCES[::100], configs, rhythm)
        for rhythm in (None, np.arange(logits.shape[1]) % 2 == 0)
    )
    assert all(np.array_equal(one, other) for one, other in zip(plain, with_rhythm, strict=True))


def test_a_setting_that_is_given_holds_for_rhythm_too_unless_rhythm_is_given() -> None:
    bundle = SamplingConfig(0.9, 0.95, rhythm_temperature=0.7, rhythm_top_p=0.8)
    assert bundle.rhythm == SamplingConfig(0.7, 0.8)
    assert bundle.changed(temperature=0.3).rhythm == SamplingConfig(0.3, 0.8)
    assert bundle.changed(temperature=0.3, rhythm_temperature=0.2).rhythm == SamplingConfig(0.2, 0.8)
    assert bundle.changed(temperature=None, top_k=3) == replace(bundle, top_k=3)
    assert SamplingConfig(0.9).rhythm is None


def test_random_numbers_give_the_exact_distribution() -> None:
    logits, allowed, config = (
        [2.0, 1.0, 0.5, -1.0, 3.0, 0.0],
        [True, True, True, True, False, True],
        SamplingConfig(1.2, 0.9),
    )
    chance = Chance(seed=3)
    numbers = np.array([chance.at(place) for place in range(50_000)])
    many = np.broadcast_to(np.array(logits), (len(numbers), len(logits)))
    tokens = choose(many, np.broadcast_to(np.array(allowed), many.shape), numbers, [config] * len(numbers)).tokens
    counts, exact = np.bincount(tokens, minlength=6), np.array(slow(logits, allowed, config))
    expected = exact[exact > 0] * len(numbers)
    chi_squared = float((((counts[exact > 0] - expected) ** 2) / expected).sum())
    assert counts[exact == 0].sum() == 0
    assert chi_squared < 18.5  # exceeded once in a thousand with 4 degrees of freedom


def test_the_nucleus_is_the_smallest_set_that_has_the_probability() -> None:
    logits = np.log([[0.5, 0.3, 0.15, 0.05]])
    kept = {
        p: int((distribution(logits, ALL, [SamplingConfig(1.0, p)]) > 0).sum())
        for p in (0.2, 0.49, 0.6, 0.79, 0.81, 0.96, 1)
    }
    assert kept == {0.2: 1, 0.49: 1, 0.6: 2, 0.79: 2, 0.81: 3, 0.96: 4, 1: 4}


def test_one_token_above_p_is_the_only_choice() -> None:
    logits = np.log([[0.95, 0.03, 0.01, 0.01]])
    assert {int(choose(logits, ALL, np.array([u]), [SamplingConfig(1.0, 0.9)]).tokens[0]) for u in CHANCES[::100]} == {
        0
    }


@pytest.mark.parametrize(
    "config",
    [
        SamplingConfig(),
        SamplingConfig(0),
        SamplingConfig(1e-8),
        SamplingConfig(1e-310),
        SamplingConfig(1e9),
        SamplingConfig(top_p=1e-9),
    ],
)
def test_all_masked_but_one_is_that_one(config: SamplingConfig) -> None:
    for only, chance in itertools.product(range(4), (0.0, 0.5, np.nextafter(1, 0))):
        logits = np.array([[1e4, -1e4, 0.0, 30.0]])
        assert choose(logits, np.arange(4)[None] == only, np.array([chance]), [config]).tokens[0] == only


def test_greedy_takes_the_most_likely_of_what_is_allowed_and_of_equals_the_first() -> None:
    logits = np.array([[5.0, 9.0, 7.0, 7.0]])
    assert choose(logits, ALL, np.array([0.99]), [SamplingConfig(0)]).tokens[0] == 1
    assert choose(logits, np.array([[True, False, True, True]]), np.array([0.99]), [SamplingConfig(0)]).tokens[0] == 2


def test_numbers_next_to_1_choose_something_that_has_a_probability() -> None:
    logits = np.random.default_rng(0).normal(size=(1000, 361)) * 5
    allowed = np.random.default_rng(1).random((1000, 361)) < 0.05
    allowed[:, 7] = True
    config = SamplingConfig(1.2, 0.9)
    tokens = choose(logits, allowed, np.full(1000, np.nextafter(1, 0)), [config] * 1000).tokens
    assert (distribution(logits, allowed, [config] * 1000)[np.arange(1000), tokens] > 0).all()


def test_the_model_s_own_opinion_is_that_without_masks_and_temperature() -> None:
    logits = np.log([[0.5, 0.3, 0.15, 0.05]])
    chosen = choose(logits, np.array([[False, True, False, True]]), np.array([0.0]), [SamplingConfig(0.3, 0.5)])
    assert chosen.tokens[0] == 1
    assert chosen.log_likelihood[0] == pytest.approx(np.log(0.3))
    assert chosen.masked_probability[0] == pytest.approx(0.65)


def test_a_row_does_not_see_the_others_or_their_settings() -> None:
    generator = np.random.default_rng(0)
    logits, chance = generator.normal(size=(10, 50)) * 3, generator.random(10)
    allowed, rhythm = generator.random((10, 50)) < 0.5, np.arange(50) < 20
    for configs in ([SamplingConfig(1.2, 0.9)] * 10, MIXED):
        together = choose(logits, allowed, chance, configs, rhythm)
        for row in range(10):
            one = slice(row, row + 1)
            alone = choose(logits[one], allowed[one], chance[one], configs[one], rhythm)
            assert [part[0] for part in alone] == [part[row] for part in together]


def test_chance_is_addressed_and_differs_between_seeds_and_variations() -> None:
    forwards = [Chance(1).at(place) for place in range(600)]
    chance = Chance(1)
    assert [chance.at(place) for place in reversed(range(600))] == forwards[::-1]
    assert len({tuple(Chance(s, v).at(0) for _ in "x") for s in (0, 1, -1, 2**70) for v in (0, 1)}) == 8
    assert 0 <= min(forwards) < 0.02
    assert 0.98 < max(forwards) < 1


def test_what_cannot_be_sampled_from_is_refused() -> None:
    with pytest.raises(ValueError, match="no token"):
        choose(np.zeros((1, 4)), ~ALL, np.zeros(1), [SamplingConfig()])
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(UserError, match="not finite"):
            choose(np.array([[0.0, bad, 0, 0]]), ALL, np.zeros(1), [SamplingConfig()])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", 0),
        ("min_p", 2),
        ("rhythm_top_p", 0),
    ],
)
def test_a_setting_out_of_range_names_its_key(key: str, value: float) -> None:
    with pytest.raises(UserError, match=f"^{key}="):
        SamplingConfig(**{key: value})  # type: ignore[arg-type]
