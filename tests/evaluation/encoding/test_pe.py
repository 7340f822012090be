"""Probing of models: the maps are the model's own, and encodings have the properties that theory says they have."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from evaluated_models import evaluated, small_model
from torch import Tensor

from musicgen.errors import UserError
from musicgen.evaluation.encoding.pe import Grid, Scores, grid_of, measure
from musicgen.evaluation.encoding.pe_findings import pe_findings
from musicgen.evaluation.encoding.probing import Probe
from musicgen.evaluation.report.findings import terminal
from musicgen.model import PerformerLM

GRID = Grid(((0, 32), (32, 64), (64, 80)), (4, 16, 32), 64)
ENCODINGS: list[dict[str, Any]] = [
    {"pe": "none"},
    {"pe": "none", "decay": "fixed"},
    {"pe": "ape"},
    {"pe": "rope"},
    {"pe": "sine"},
    {"pe": "sine", "gated": False, "shared": False},
    {"pe": "conv", "decay": "learnt"},
]


def silent(items: Iterable[Any], total: int, unit: str) -> Iterable[Any]:  # noqa: ARG001
    return items


def scores_of(grid: Grid = GRID, tokens: int | None = 5, draws: int = 2, seed: int = 0, **changes: Any) -> Scores:
    return measure([evaluated(**changes)], [grid], tokens, draws, seed, silent)[0]


def naive_map(model: PerformerLM, token: int, length: int, seed: int) -> Tensor:
    """log A of the first layer, `(heads, queries, keys)`, from what goes into it when the model really runs."""
    seen: list[Any] = []
    handle = model.layers[0].register_forward_pre_hook(lambda _, arguments: seen.extend(arguments))
    draw = model.draw(seed)
    with torch.no_grad():
        model(torch.full((1, length), token), draw)
        handle.remove()
        hidden, encoder = seen[:2]
        heads, features = model.config.num_heads, model.config.head_features
        projected = model.layers[0].project_queries_keys(hidden)
        queries, keys = (half.reshape(1, length, heads, features) for half in projected.chunk(2, -1))
        queries, keys = encoder(0, queries, keys)
        logits = torch.zeros(heads, length, length, dtype=torch.float64)
        for head in range(heads):
            for query in range(length):
                for key in range(length):
                    product = queries[0, query, head].double() @ keys[0, key, head].double()
                    logits[head, query, key] = product / math.sqrt(queries.shape[-1])
                    if model.layers[0].decay is not None:
                        logits[head, query, key] += (query - key) * model.layers[0].decay()[head].double()
    return logits


@pytest.mark.parametrize("changes", ENCODINGS, ids=lambda changes: "-".join(map(str, changes.values())))
def test_windows_are_those_of_the_models_own_attention(changes: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setattr("musicgen.evaluation.encoding.probing.ROWS", 5)  # several blocks of queries
    model, length, width = small_model(**changes), 24, 10
    probe = Probe(model, model.draw(3), length)
    queries, keys = probe.queries_and_keys([7, 200])
    for number, token in enumerate((7, 200)):
        logits = naive_map(model, token, length, 3)
        for low, high in ((0, 12), (11, 24)):
            windows = probe.windows(queries, keys, low, high, width)[number]
            for query in range(low, high):
                for lag in range(width):
                    value = windows[:, query - low, width - 1 - lag]
                    if lag > query:
                        assert np.isneginf(value).all()
                    else:
                        expected = logits[:, query, query - lag].numpy()
                        assert value == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_rope_is_invariant_and_ape_is_not() -> None:
    assert scores_of(pe="rope").values["T"].max() < 1e-9
    assert scores_of(pe="ape").values["T"].min() > 0.05


def test_sine_with_exact_noise_is_invariant_and_with_gaussian_noise_is_not() -> None:
    exact = scores_of(pe="sine", gated=False, noise="exact", num_realizations=2 * 2 * 8)
    assert exact.values["T"].max() < 1e-9
    assert len(exact.values["T"]) == 1  # there is nothing to draw
    assert scores_of(pe="sine", gated=False).values["T"].min() > 0.01


def test_without_positions_invariance_is_undefined_and_nothing_is_violated() -> None:
    scores = scores_of(pe="none")
    assert np.isnan(scores.values["T"]).all()
    assert (scores.values["M"] == 0).all()
    text = terminal(pe_findings([scores], [evaluated(pe="none")]))
    assert "T is undefined" in text
    assert "–" in text


def test_decay_alone_is_invariant_and_monotone() -> None:
    scores = scores_of(pe="none", decay="fixed", decay_exponents=(2.0, 6.0))
    assert scores.values["T"].max() < 1e-9
    assert (scores.values["M"] == 0).all()
    findings = pe_findings([scores], [evaluated(pe="none", decay="fixed")])
    assert any("decay of small" in sentence for sentence in findings.summary)


def test_draws_differ_and_are_those_of_their_seeds() -> None:
    both, second = scores_of(draws=2), scores_of(draws=1, seed=1)
    assert not np.allclose(both.values["T"][0], both.values["T"][1])
    assert np.array_equal(both.values["T"][1], second.values["T"][0])


def test_scores_are_means_over_tokens_however_they_are_divided(monkeypatch: Any) -> None:
    whole = scores_of(tokens=None, pe="ape")
    monkeypatch.setattr("musicgen.evaluation.encoding.pe.BATCH", 1)
    apart = [scores_of(tokens=tokens, pe="ape").values for tokens in (None, 2)]
    assert whole.values["M"] == pytest.approx(apart[0]["M"])
    assert whole.values["T"] == pytest.approx(apart[0]["T"])
    assert whole.values["M"] != pytest.approx(apart[1]["M"])


def test_the_best_head_is_the_lowest_on_average_and_its_spread_is_its_own() -> None:
    values = np.array([[0.5, 0.3], [0.1, 0.4]]).reshape(2, 2, 1, 1)  # (draws, heads): means 0.3 and 0.35
    scores = Scores("x", Grid(((0, 8),), (4,), None), {"T": values, "M": values * np.nan})
    assert scores.best("T")[0][0] == pytest.approx((0.3, np.std([0.5, 0.1], ddof=1)))
    assert math.isnan(scores.best("M")[0][0].mean)


def test_the_papers_ranges_are_taken_in_proportion_to_the_trained_length() -> None:
    paper = Grid(((0, 1024), (1024, 2048), (2048, 2560)), (128, 512, 1024), 2048)
    assert grid_of(evaluated(length=2048), None, None, None) == paper
    assert grid_of(evaluated(length=None), 2048, None, None) == paper
    assert grid_of(evaluated(length=64), 999, None, [9]) == Grid(GRID.ranges, (9,), 64)
    assert grid_of(evaluated(length=None), None, [(3, 5)], [2]) == Grid(((3, 5),), (2,), None)
    for length, naming in ((None, "trained=NUMBER"), (31, "31 tokens")):
        with pytest.raises(UserError, match=naming):
            grid_of(evaluated(length=length), None, None, None)


@pytest.mark.parametrize(("beyond", "word"), [(0.24, "no worse"), (0.26, "worse"), (0.0, "no worse")])
def test_the_verdict_compares_beyond_with_the_last_range_within(beyond: float, word: str) -> None:
    values = np.array([[0.9, 0.9], [0.2, 0.9], [beyond, 0.0]]).reshape(1, 1, 3, 2)
    scores = Scores("x", Grid(GRID.ranges, (4, 8), 64), {"T": values, "M": values[..., ::-1]})
    (sentence,) = [line for line in pe_findings([scores], [evaluated("x", pe="ape")]).summary if "x is" in line]
    assert sentence.startswith(f"x is {word} beyond its 64 trained tokens than within")
    assert f"T changes from 0.200 to {beyond:.3f} at offsets below 4" in sentence
    assert f"M changes from 0.200 to {beyond:.3f} at offsets below 8" in sentence


def test_draws_that_scatter_and_a_single_draw_tell_of_no_rise() -> None:
    for rises, word in (
        ((0.2, 0.2, 0.2), "x is worse"),
        ((-0.4, 0.2, 0.8), "x is no worse"),
        ((0.2,), "One draw cannot"),
    ):
        values = np.array([[0.9, 0.5, 0.5 + rise] for rise in rises]).reshape(-1, 1, 3, 1)
        scores = Scores("x", Grid(GRID.ranges, (4,), 64), {"T": values, "M": values})
        (sentence,) = [line for line in pe_findings([scores], [evaluated("x")]).summary if "beyond" in line]
        assert sentence.startswith(word)


def test_tables_name_what_was_asked_and_have_every_head() -> None:
    models = [evaluated("one", 64, pe="ape"), evaluated("two", 128, pe="ape")]
    grids = [grid_of(model, None, None, None) for model in models]
    scores = measure(models, grids, 2, 1, 0, silent)
    table, heads = pe_findings(scores, models).tables
    assert list(table.columns)[:4] == ["model", "metric", "N", "0–N/2 <N/16"]
    assert [row[:3] for row in table.rows][1:3] == [["one", "M", 64], ["two", "T", 128]]
    assert len(heads.rows) == 2 * 2 * 3 * 3
    lowest = min(row[6] for row in heads.rows if row[0] == "one" and row[3:6] == [0, 31, 4])
    assert table.rows[0][3].mean == pytest.approx(lowest)
    alike, _ = pe_findings(scores[:1], models[:1]).tables
    assert list(alike.columns)[2:4] == ["0–31 <4", "0–31 <16"]
