"""Attention maps: they are the attention that the model has, and colours stand for values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from evaluated_models import small_model

from musicgen.attention import softmax_attention
from musicgen.evaluation.encoding.focus import even_spread, looks
from musicgen.evaluation.encoding.maps import attending_layers, level_values, pooled, shade, to_levels
from musicgen.model import PerformerLM

LENGTH = 40
TOKENS = [(7 * place) % 361 for place in range(LENGTH)]
MODELS: list[dict[str, Any]] = [
    {"pe": "none"},
    {"pe": "ape", "decay": "fixed"},
    {"pe": "rope", "feature_map": "elu"},
    {"pe": "sine", "decay": "learnt"},
    {"pe": "conv", "shared": False, "feature_map": "relu"},
]
kinds = pytest.mark.parametrize("changes", MODELS, ids=lambda changes: "-".join(map(str, changes.values())))


def seen(model: PerformerLM, layer: int, name: str) -> list[Any]:
    """What went into a part of a layer when the model read the piece."""
    arguments: list[Any] = []
    module = model.layers[layer] if not name else getattr(model.layers[layer], name)
    handle = module.register_forward_pre_hook(lambda _, given: arguments.extend(given))
    with torch.no_grad():
        model(torch.tensor([TOKENS]), model.draw(5))
    handle.remove()
    return arguments


@kinds
def test_maps_of_features_times_values_are_what_the_layer_really_attends_to(changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    for number, attending in attending_layers(model, TOKENS, model.draw(5), [0, 1]).items():
        layer = model.layers[number]
        (hidden, *_), (attended,) = seen(model, number, ""), seen(model, number, "project_out")
        with torch.no_grad():
            values = layer.project_values(hidden)[0].unflatten(-1, (2, -1))
        outputs = [attending.map(head, "features") @ values[:, head] for head in range(2)]
        assert torch.allclose(torch.cat(outputs, -1), attended[0], atol=1e-5)


@kinds
def test_exact_maps_are_the_softmax_of_the_models_own_queries_and_keys(changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    layer = model.layers[1]
    hidden, encoder = seen(model, 1, "")[:2]
    with torch.no_grad():
        projected = layer.project_queries_keys(hidden)
        queries, keys = (half.reshape(1, LENGTH, 2, 8) for half in projected.chunk(2, -1))
        queries, keys = encoder(1, queries, keys)
        values = torch.randn(1, LENGTH, 2, 3)
        log_decay = None if layer.decay is None else layer.decay()
        expected = softmax_attention(queries, keys, values, log_decay=log_decay)[0]
    attending = attending_layers(model, TOKENS, model.draw(5), [1])[1]
    for head in range(2):
        attention = attending.map(head)
        assert torch.allclose(attention.sum(-1), torch.ones(LENGTH))
        assert attention.triu(1).abs().max() == 0
        assert torch.allclose(attention @ values[0, :, head], expected[:, head], atol=1e-5)
        for query, key in ((0, 0), (9, 4), (39, 39), (39, 0)):
            weights = []
            for other in range(query + 1):
                weight = float(queries[0, query, head] @ keys[0, other, head]) / math.sqrt(queries.shape[-1])
                decay = 0.0 if log_decay is None else float(log_decay[head])
                weights.append(math.exp(weight + (query - other) * decay))
            assert float(attention[query, key]) == pytest.approx(weights[key] / sum(weights), rel=1e-4)


def test_watching_a_model_leaves_it_as_it_was() -> None:
    model = small_model()
    before = model(torch.tensor([TOKENS]), model.draw(0))
    attending_layers(model, TOKENS, model.draw(0), [0, 1])
    assert not any(layer._forward_pre_hooks for layer in model.layers)
    assert torch.equal(model(torch.tensor([TOKENS]), model.draw(0)), before)


def test_colours_are_the_papers_and_levels_say_what_they_stand_for() -> None:
    known = {0.0: 0, 0.02: 255, 0.5: 255, 1.0: 255, 0.02 / 32: 64, 0.02 / 1024: 16}
    levels = to_levels(torch.tensor(list(known)))
    assert levels.tolist() == list(known.values())
    assert [round(shade(value)) for value in known] == list(known.values())
    values = level_values()
    assert len(values) == 256
    assert (values[0], values[-1]) == (0, 0.02)
    assert to_levels(torch.tensor(values, dtype=torch.float64)).tolist() == list(range(256))


@pytest.mark.parametrize(("length", "side", "cells"), [(10, 10, 10), (10, 20, 10), (10, 4, 4), (11, 5, 4), (7, 1, 1)])
def test_a_smaller_map_keeps_the_largest_of_each_cell(length: int, side: int, cells: int) -> None:
    levels = np.random.default_rng(0).integers(256, size=(length, length)).astype(np.uint8)
    smaller = pooled(levels, side)
    assert smaller.shape == (cells, cells)
    step = -(-length // side)
    for row, column in np.ndindex(cells, cells):
        own = levels[row * step : (row + 1) * step, column * step : (column + 1) * step]
        assert smaller[row, column] == own.max()


def test_looks_of_maps_with_known_answers() -> None:
    length, trained = 96, 64
    even = looks(even_spread(length), trained)
    queries = range(32, 64)
    assert even["within"].distance == pytest.approx(np.mean([query / 2 for query in queries]), rel=1e-5)
    assert even["within"].last == pytest.approx(np.mean([16 / (query + 1) for query in queries]), rel=1e-5)
    assert even["within"].first == pytest.approx(even["within"].last, rel=1e-5)
    assert even["within"].keys == pytest.approx(np.mean([query + 1 for query in queries]), rel=1e-4)
    assert math.isnan(even["within"].edge)
    assert even["beyond"].edge == pytest.approx(1, rel=1e-5)
    own = looks(torch.eye(length), trained)["beyond"]
    assert own == pytest.approx((0, 1, 0, 1, 0))
    clinging = torch.eye(length)
    clinging[trained:] = 0
    clinging[trained:, trained - 1] = 1
    beyond = looks(clinging, trained)["beyond"]
    assert beyond.distance == pytest.approx(np.mean([query - 63 for query in range(64, 96)]))
    # Keys 60 to 67 are around the end, for queries from 72 on: 8 of query + 1 keys in an even spread.
    assert beyond.edge == pytest.approx(np.mean([(query + 1) / 8 for query in range(72, 96)]))
    assert math.isnan(looks(even_spread(72), trained)["beyond"].edge)  # no query is N/8 beyond
    assert set(looks(even_spread(64), trained)) == {"within"}
    assert set(looks(even_spread(20), trained)) == set()
