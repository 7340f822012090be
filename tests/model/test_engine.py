"""The engine onnx: the same model as torch, with the same promises."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musicgen.errors import UserError
from musicgen.model import PerformerConfig, PerformerLM, State
from musicgen.model.engine import Engine, make_engine
from musicgen.model.graph.export import graph_files
from musicgen.model.graph.step import step_graph
from musicgen.model.places import find_places, find_row_places

TINY = PerformerConfig(
    vocab_size=13, num_layers=2, num_heads=2, d_model=44, d_ff=70, num_features=18, num_realizations=9, num_sines=2
)
TINY = dataclasses.replace(TINY, kernel_size=9, weight_std=0.3)
TIME = {"positions": "time", "decay": "fixed", "decay_positions": "time"}
MODELS: list[dict[str, Any]] = [
    {"pe": "none", "decay": "fixed"},
    {"pe": "none", "feature_map": "relu"},
    {"pe": "ape", "feature_map": "elu", "decay": "learnt"},
    {"pe": "ape", **TIME},
    {"pe": "rope"},
    {"pe": "rope", "rotated": 0.5, "learn_frequencies": True, **TIME},
    {"pe": "sine", "decay": "fixed"},
    {"pe": "sine", "gated": False, "feature_map": "relu"},
    {"pe": "sine", "shared": False, "noise": "orthogonal", "norm": "pre", "gated_ff": True},
    {"pe": "sine", "noise": "exact", "num_realizations": 110},
    {"pe": "sine", "rotated": 0.5, **TIME},
    {"pe": "conv", "decay": "learnt", "short_conv": 4},
    {"pe": "conv", "gated": False, "shared": False, **TIME},
    {"pe": "conv", "rotated": 1.0},
    {"pe": "none", "attention": "delta"},
    {"pe": "sine", "attention": "delta", "short_conv": 3, "head_norm": True, **TIME},
    {"pe": "rope", "attention": "delta", "decay": "learnt", "output_gate": True},
    {"pe": "sine", "short_conv": 1, "head_norm": True},
    {"pe": "sine", "norm": "pre", "short_conv": 3, "head_norm": True, "output_gate": True, "gated_ff": True, **TIME},
]


def make(**changes: Any) -> PerformerLM:
    torch.manual_seed(0)
    model = PerformerLM(dataclasses.replace(TINY, **changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # what starts as the identity must matter
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def sequence(batch: int, length: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens, and times with rests, chords, steps back and long jumps."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(TINY.vocab_size, (batch, length), generator=generator)
    steps = torch.tensor([0, 0, 1, 3, 12, 500, -4])[torch.randint(7, (batch, length), generator=generator)]
    return tokens, steps.cumsum(1).double().clamp_min(0) / 12


def times(engine: Engine, beats: Tensor) -> dict[str, Tensor]:
    return {"times": beats} if engine.config.needs_times else {}


def stepped(engine: Engine, tokens: Tensor, beats: Tensor, state: State) -> tuple[Tensor, State]:
    logits = []
    for token, beat in zip(tokens.unbind(1), beats.unbind(1), strict=True):
        step, state = engine.step(token, state, **times(engine, beat))
        logits.append(step)
    return torch.stack(logits, 1), state


def equal(one: State, other: State) -> bool:
    pairs = [(a.tensors(), b.tensors()) for a, b in zip(one.layers, other.layers, strict=True)]
    same = all(torch.equal(a[name], b[name]) for a, b in pairs for name in a)
    return same and (one.positions, one.times) == (other.positions, other.times)


@pytest.mark.parametrize("changes", MODELS, ids=str)
def test_streaming_equals_parallel_and_states_move_between_engines(changes: dict[str, Any]) -> None:
    model = make(**changes)
    engine, draw = make_engine(model, "onnx"), model.draw(3)
    tokens, beats = sequence(2, 75)
    with torch.no_grad():
        expected = model(tokens, draw, **times(model, beats))
    logits, after = stepped(engine, tokens, beats, model.init_state(draw, 2))
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    _, ours = model.prefill(tokens[:, :60], model.init_state(draw, 2), **times(model, beats[:, :60]))
    for first, second in ((model, engine), (engine, model)):
        _, middle = stepped(first, tokens[:, 60:64], beats[:, 60:64], ours)
        continued, end = stepped(second, tokens[:, 64:], beats[:, 64:], middle)
        torch.testing.assert_close(continued, expected[:, 64:], rtol=1e-4, atol=1e-4)
        assert (end.positions, end.times) == (after.positions, after.times)


@pytest.mark.parametrize("changes", MODELS, ids=str)
def test_a_row_is_the_same_bits_in_every_batch(changes: dict[str, Any]) -> None:
    model = make(**changes)
    engine, draw = make_engine(model, "onnx"), model.draw(5)
    alone = []
    for row, length in enumerate([0, 1, 70, 33, 5, 16, 17, 90, 2]):
        tokens, beats = sequence(1, length + 2, seed=row)
        state = model.init_state(draw)
        if length:
            _, state = model.prefill(tokens[:, :-2], state, **times(model, beats[:, :-2]))
        alone.append((state, tokens[:, -2:], beats[:, -2:], stepped(engine, tokens[:, -2:], beats[:, -2:], state)))
    for rows in ([0, 1], [2, 3, 4], list(range(9)), [8, 0, 7, 7], [1] * 17):
        tokens, beats = (torch.cat([alone[row][part] for row in rows]) for part in (1, 2))
        logits, after = stepped(engine, tokens, beats, State.join([alone[row][0] for row in rows]))
        for place, row in enumerate(rows):
            assert torch.equal(logits[place], alone[row][3][0][0]), f"row {place} of {rows}"
            assert equal(after.rows([place]), alone[row][3][1]), f"row {place} of {rows}"


@settings(max_examples=20, deadline=None)
@given(
    heads=st.integers(1, 4),
    width=st.integers(1, 33),
    features=st.integers(1, 35),
    realizations=st.integers(2, 66),
    pe=st.sampled_from(["none", "ape", "rope", "sine", "conv"]),
    feature_map=st.sampled_from(["favor", "relu", "elu", "delta"]),
    batch=st.integers(2, 9),
)
def test_a_row_is_the_same_bits_whatever_the_sizes(
    heads: int, width: int, features: int, realizations: int, pe: str, feature_map: str, batch: int
) -> None:
    sizes = {"num_heads": heads, "d_model": 2 * width * heads, "num_features": 2 * features}
    kind = {"attention": "delta"} if feature_map == "delta" else {"feature_map": feature_map}
    model = make(pe=pe, num_realizations=realizations, **kind, **sizes)
    engine, draw = make_engine(model, "onnx"), model.draw(0)
    tokens, beats = sequence(batch, 3)
    together, _ = stepped(engine, tokens, beats, model.init_state(draw, batch))
    for row in range(batch):
        own = stepped(engine, tokens[row : row + 1], beats[row : row + 1], model.init_state(draw))[0]
        assert torch.equal(own[0], together[row])


@given(
    times=st.lists(st.tuples(st.floats(0, 1e4), st.integers(0, 10**6)), min_size=1, max_size=4),
    before=st.one_of(st.none(), st.floats(0, 1e4)),
    positions=st.sampled_from(["time", "token"]),
)
def test_places_of_single_tokens_are_those_of_sequences(
    times: list[tuple[float, int]], before: float | None, positions: str
) -> None:
    config = dataclasses.replace(TINY, **TIME | {"pe": "rope", "positions": positions})
    for beats in ([free for free, _ in times], [number / 12 for _, number in times]):
        tokens, indices = torch.zeros(len(beats), 1, dtype=torch.long), list(range(len(beats)))
        last = None if before is None else [before] * len(beats)
        column = torch.tensor(beats, dtype=torch.float64).unsqueeze(1)
        expected = find_places(config, tokens, torch.tensor(indices).unsqueeze(1), column, last)
        assert expected.elapsed is not None
        found = find_row_places(config, indices, beats, last)
        assert (list(found[0]), found[1]) == (expected.positions[:, 0].tolist(), expected.elapsed[:, 0].tolist())
    with pytest.raises(ValueError, match="musical time"):
        find_row_places(config, [0], None, None)
    with pytest.raises(ValueError, match="do not match"):
        find_row_places(config, [0], [0.0, 1.0], None)


def test_far_positions_are_as_exact_as_near_ones() -> None:
    for changes in ({"pe": "sine"}, {"pe": "rope"}, {"pe": "ape"}):
        model = make(**changes)
        engine, far = make_engine(model, "onnx"), 10_000_003
        state = dataclasses.replace(model.init_state(model.draw(0)), positions=(far,))
        tokens, beats = sequence(1, 5)
        torch.testing.assert_close(
            stepped(engine, tokens, beats, state)[0], stepped(model, tokens, beats, state)[0], rtol=1e-4, atol=1e-4
        )


def test_an_old_state_stays_as_it_was_and_can_be_forked() -> None:
    model = make(pe="sine", short_conv=3)
    engine, (tokens, beats) = make_engine(model, "onnx"), sequence(2, 20)
    _, old = stepped(engine, tokens[:, :5], beats[:, :5], model.init_state(model.draw(0), 2))
    first = stepped(engine, tokens[:, 5:], beats[:, 5:], old)
    again = stepped(engine, tokens[:, 5:], beats[:, 5:], old)
    assert torch.equal(first[0], again[0])
    assert equal(first[1], again[1])
    fork, _ = stepped(engine, tokens[[1, 1], 5:], beats[[1, 1], 5:], old.rows([1, 1]))
    assert torch.equal(fork[0], first[0][1])
    assert torch.equal(fork[1], first[0][1])


def test_the_noise_is_that_of_the_state_and_the_weights_are_as_they_are() -> None:
    model = make(pe="sine")
    engine, (tokens, beats) = make_engine(model, "onnx"), sequence(1, 6)
    for seed in (0, 1, 2, 3, 4, 0):
        state = model.init_state(model.draw(seed))
        expected, _ = stepped(model, tokens, beats, state)
        torch.testing.assert_close(stepped(engine, tokens, beats, state)[0], expected, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        model.output.bias += 1
    torch.testing.assert_close(stepped(engine, tokens, beats, state)[0], expected + 1, rtol=1e-4, atol=1e-4)


def test_a_state_of_another_model_is_refused() -> None:
    model, other = make(pe="sine"), make(pe="sine", num_layers=1)
    with pytest.raises(ValueError, match="layers"):
        make_engine(model, "onnx").step(torch.tensor([0]), other.init_state(other.draw(0)))


@pytest.mark.parametrize("half", [False, True])
def test_the_graph_is_plain_onnx_of_fixed_size(half: bool) -> None:
    model = make(pe="sine", decay="fixed")
    proto = step_graph(model, model.draw(0), half).model()
    onnx.checker.check_model(proto, full_check=True)
    assert [(opset.domain, len(proto.functions)) for opset in proto.opset_import] == [("", 0)]
    assert {node.domain for node in proto.graph.node} == {""}
    assert not any(tensor.external_data for tensor in proto.graph.initializer)
    axes = [value.type.tensor_type.shape.dim for value in (*proto.graph.input, *proto.graph.output)]
    assert all(dims[0].dim_param in ("batch", "places") and all(dim.dim_value for dim in dims[1:]) for dims in axes)


def test_auto_takes_what_can_run_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(pe="sine")
    assert make_engine(model).engine_name == "onnx"
    assert make_engine(model, "torch") is model
    doubled = make(pe="sine").double()
    assert make_engine(doubled) is doubled
    with pytest.raises(UserError, match="engine=onnx: the model is on cpu in float64"):
        make_engine(doubled, "onnx")
    monkeypatch.setattr(type(model.encoding), "has_graph", False)
    assert make_engine(model) is model
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match="engine=onnx: the Python package 'onnx' is not installed; give engine=torch"):
        make_engine(model, "onnx")


@pytest.mark.parametrize("half", [False, True])
def test_an_exported_graph_and_its_description_are_all_that_a_host_needs(half: bool) -> None:
    model = make(pe="sine", short_conv=3, **TIME)
    files = graph_files(model, seed=7, half=half)
    about, session = json.loads(files["step.json"]), onnxruntime.InferenceSession(files["step.onnx"])
    state = {
        name: np.full([2, *value["shape"][1:]], about["start"][name.rsplit("_", 1)[0]], value["type"])
        for name, value in about["inputs"].items()
        if f"next_{name}" in about["outputs"]
    }
    if half:
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
                    module.weight.copy_(module.weight.half())
    tokens, beats = sequence(2, 12)
    expected, _ = stepped(model, tokens, beats, model.init_state(model.draw(7), 2))
    before = beats[:, 0]
    for place in range(12):
        inputs = {
            "token": tokens[:, place].numpy(),
            "position": beats[:, place].numpy() * 12,
            "elapsed": (beats[:, place] - before).clamp_min(0).mul(12).float().unsqueeze(1).numpy(),
        }
        before = beats[:, place]
        results = dict(zip(about["outputs"], session.run(list(about["outputs"]), inputs | state), strict=True))
        state = {name: results[f"next_{name}"] for name in state}
        torch.testing.assert_close(torch.from_numpy(results["logits"]), expected[:, place], rtol=1e-4, atol=1e-4)
