"""Learned kernels: the closed form is what draws have on average; gates and decays are the model's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from evaluated_models import small_model

from musicgen.evaluation.encoding.kernels import choose, decays, gates, templates

PICKS = [(1, 3), (2, 8)]


@pytest.mark.parametrize("changes", [{"pe": "sine"}, {"pe": "sine", "shared": False}, {"pe": "conv"}], ids=str)
def test_the_closed_form_is_the_mean_of_draws(changes: dict[str, Any]) -> None:
    found = templates(small_model(**changes), PICKS, reach=12, side=10, draws=600, seed=0)
    assert found.realised.shape == (600, 2, 25)
    assert found.lags.tolist() == list(range(-12, 13))
    errors = found.realised.std(0) / np.sqrt(600)
    assert (np.abs(found.realised.mean(0) - found.closed) < 5 * errors + 1e-6).all()
    assert np.abs(found.closed).max() > 20 * errors.mean()  # so that the comparison says something


def test_kernels_are_those_of_the_picks_and_matrices_those_of_the_first_draw() -> None:
    model = small_model(pe="conv")
    found = templates(model, PICKS, reach=300, side=6, draws=1, seed=4)  # more positions than a block
    code = model.encoding.codes[0]
    lags = torch.arange(-300, 301)
    query_code, key_code = code.codes(model.draw(4), torch.arange(601))
    for number, (head, feature) in enumerate(PICKS):
        assert found.closed[number] == pytest.approx(code.kernel(lags)[head - 1, feature - 1].detach().numpy())
        products = query_code[:, head - 1, feature - 1] @ key_code[:, head - 1, feature - 1].T
        expected = products.detach().numpy() * np.sqrt(8 / 12)  # √(D/R)
        assert found.realised[0, number] == pytest.approx(expected[:, 300], abs=1e-5)
        assert found.matrices[number] == pytest.approx(expected[:6, :6], abs=1e-5)
        for query, key in np.ndindex(6, 6):
            assert found.expected()[number, query, key] == found.closed[number, 300 + query - key]
    assert found.errors() == pytest.approx(np.sqrt(np.square(found.realised[0] - found.closed).mean(-1)))


def test_exact_noise_has_no_error() -> None:
    model = small_model(pe="sine", gated=False, noise="exact", num_realizations=32)
    assert templates(model, PICKS, 10, 5, 2, 0).errors().max() < 1e-5


def test_picks_are_all_if_they_are_few_and_random_by_the_seed_if_they_are_many() -> None:
    assert choose([2, 5], [1, 3], 4, 0) == [(2, 1), (2, 3), (5, 1), (5, 3)]
    many = choose(range(1, 9), range(1, 65), 16, 0)
    assert len(set(many)) == 16
    assert many == choose(range(1, 9), range(1, 65), 16, 0)
    assert many != choose(range(1, 9), range(1, 65), 16, 1)
    assert choose([], [], 16, 0) == []


def test_gates_and_decays_are_those_of_the_parameters() -> None:
    model = small_model(decay="fixed", decay_exponents=(1.0, 3.0))
    deltas = gates(model)
    assert deltas is not None
    for layer, layer_filter in enumerate(model.encoding.filters):
        expected = 1 / (1 + np.exp(-layer_filter.gate.detach().double().numpy()))
        assert deltas[layer] == pytest.approx(expected, rel=1e-5)
    rates = decays(model)
    assert rates is not None
    assert rates == pytest.approx(np.array([[0.5, 0.875]] * 2), rel=1e-5)
    plain = small_model(pe="ape")
    assert gates(plain) is None
    assert decays(plain) is None
    assert gates(small_model(gated=False)) is None
