"""Costs are those of the model that was asked for, measured apart, and compared token by token."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from musicgen.errors import UserError
from musicgen.evaluation import resources
from musicgen.evaluation.resources import Cost, Subject, findings, measure_all, training_step
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.runtime import peak_memory

SMALL = PerformerConfig(vocab_size=20, num_layers=1, num_heads=2, d_model=16, d_ff=32, num_features=8, pe="none")


def test_a_step_trains_every_parameter() -> None:
    torch.manual_seed(0)
    model = PerformerLM(dataclasses.replace(SMALL, pe="sine", num_realizations=8))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    training_step(model, length=12, batch=2)()
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_the_best_of_all_turns_counts_and_each_turn_is_of_its_own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Child:
        def __init__(self, *_: object) -> None:
            pass

        def __call__(self, config: dict[str, int], length: int, batch: int, *_: int) -> Cost:
            asked.append((config["num_layers"], length, batch))
            return Cost(10.0 - len(asked), float(len(asked)), 1.0)

        def close(self) -> None:
            pass

    monkeypatch.setattr(resources, "SubprocessCall", Child)
    subjects = [Subject("a", SMALL, 8, 2), Subject("b", dataclasses.replace(SMALL, num_layers=2), 16, 3)]
    costs = measure_all(subjects, 1, 2, 1, lambda items, *_: items)
    assert asked == [(1, 8, 2), (2, 16, 3)] * 2  # they take turns
    assert costs == [Cost(7.0, 1.0, 1.0), Cost(6.0, 2.0, 1.0)]


def test_models_are_compared_by_token_and_counted_as_they_are() -> None:
    subjects = [Subject("small", SMALL, 100, 1), Subject("wide", dataclasses.replace(SMALL, d_ff=64), 50, 4)]
    found = findings(subjects, [Cost(1.0, 0.5, 0.001), Cost(6.0, 0.7, 0.002)], rounds=2, threads=1)
    assert "relative to small = 1: 3.00 for wide" in found.summary[1]  # 6 s for 200 tokens against 1 s for 100
    rows = [dict(zip(found.tables[0].columns, row, strict=True)) for row in found.tables[0].rows]
    for row, subject in zip(rows, subjects, strict=True):
        model = PerformerLM(subject.config)
        assert row["parameters"] == model.num_parameters()
        assert row["state of a piece (MB)"] == model.init_state(model.draw(0)).nbytes / 1e6
    assert [row["tokens/s in training"] for row in rows] == [100, 33]
    assert [row["generated token (ms)"] for row in rows] == [1.0, 2.0]
    alone = findings(subjects[:1], [Cost(1.0, 0.5, 0.001)], rounds=2, threads=1)
    assert len(alone.summary) == 1


def test_a_child_measures_and_what_it_cannot_do_is_said() -> None:
    (cost,) = measure_all([Subject("small", SMALL, 8, 1)], 1, 1, 1, lambda items, *_: items)
    assert cost.step > 0
    assert cost.token > 0
    assert 0.05 < cost.memory < 20  # Python and torch alone take more than the one
    impossible = Subject("vast", dataclasses.replace(SMALL, vocab_size=1 << 20), 1 << 20, 1 << 20)
    with pytest.raises(UserError, match=r"vast could not be measured: .*batch="):
        measure_all([impossible], 1, 1, 1, lambda items, *_: items)


def test_a_token_is_a_token_and_memory_is_the_child_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([3.0, 2.0, 9.0, 8.0])  # of two training steps, then of generating twice
    monkeypatch.setattr(resources, "_times", lambda _, repeats: [next(times) for _ in range(repeats)])
    cost = resources.measure(dataclasses.asdict(SMALL), 8, 1, 2, torch.get_num_threads())
    assert (cost.step, cost.token) == (2.0, 8.0 / resources.TOKENS)
    held = np.ones(80_000_000)  # 0.64 GB that this process has, and its child has not
    (cost,) = measure_all([Subject("small", SMALL, 8, 1)], 1, 1, 1, lambda items, *_: items)
    assert held.nbytes / 1e9 + 0.1 < peak_memory()
    assert cost.memory < held.nbytes / 1e9
