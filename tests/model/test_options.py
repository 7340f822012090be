"""Musical time and the options of a layer: each streams as it runs, is causal, forks, and is off by default."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musicgen.cli.describe import table
from musicgen.cli.main import main
from musicgen.errors import UserError
from musicgen.evaluation.encoding.maps import attending_layers
from musicgen.evaluation.encoding.probing import Probe
from musicgen.model import PerformerConfig, PerformerLM, State, load_bundle, save_bundle
from musicgen.model.gates import gated_width
from musicgen.model.packed import Product
from musicgen.model.short_conv import ShortConvolution
from musicgen.model.size import count_parameters, state_bytes

TINY = PerformerConfig(
    vocab_size=13,
    num_layers=2,
    num_heads=2,
    d_model=20,
    d_ff=30,
    num_features=14,
    num_realizations=7,
    num_sines=2,
    kernel_size=9,
    weight_std=0.3,
    decay="fixed",
)
COPYING = {"pe": "rope", "positions": "time", "short_conv": 4}
LAYERS: list[dict[str, object]] = [
    COPYING,
    {**COPYING, "rotated": 0.4},
    {**COPYING, "norm": "pre"},
    {"short_conv": 1},
    {"short_conv": 3, "feature_map": "relu"},
    {"norm": "pre"},
    {"gated_ff": True},
    {"head_norm": True},
    {"output_gate": True},
    {"pe": "ape", "short_conv": 2, "norm": "pre", "gated_ff": True, "head_norm": True, "output_gate": True},
    {"pe": "rope", "rotated": 0.4},
    {"pe": "rope", "learn_frequencies": True},
    {"pe": "sine", "rotated": 0.4},
    {"pe": "conv", "rotated": 1.0, "learn_frequencies": True},
    {**COPYING, "attention": "delta", "head_norm": True},
    {"pe": "none", "attention": "delta", "decay": "none"},
    {"pe": "sine", "attention": "delta", "short_conv": 2, "decay": "learnt"},
    {"pe": "conv", "attention": "delta", "norm": "pre"},
]
TIMES: list[dict[str, object]] = [
    {"pe": "none"},
    {"pe": "ape"},
    {"pe": "rope"},
    {"pe": "rope", "learn_frequencies": True, "rotated": 0.6},
    {"pe": "sine"},
    {"pe": "sine", "gated": False, "shared": False, "noise": "orthogonal"},
    {"pe": "sine", "rotated": 0.4},
    {"pe": "sine", "rotated": 1.0, "noise": "exact", "num_sines": 1, "num_realizations": 30},
    {"pe": "conv"},
    {"pe": "conv", "gated": False, "shared": False},
    {"pe": "conv", "rotated": 0.6, "learn_frequencies": True},
]
IN_TIME: list[dict[str, object]] = [{"positions": "time", **case} for case in TIMES]
DECAYS: list[dict[str, object]] = [
    {"pe": "none", "decay_positions": "time"},
    {"pe": "ape", "decay_positions": "time", "decay": "learnt"},
    {**COPYING, "decay_positions": "time"},
    {"pe": "sine", "positions": "time", "decay_positions": "time", "short_conv": 3},
    {"pe": "conv", "decay_positions": "time"},
    {**COPYING, "decay_positions": "time", "attention": "delta"},
]
ALL = [*LAYERS, *IN_TIME, *DECAYS]


def make(**changes: object) -> PerformerLM:
    torch.manual_seed(0)
    model = PerformerLM(dataclasses.replace(TINY, **changes)).eval()  # type: ignore[arg-type]
    for layer in model.layers:  # what starts as the identity must matter
        for part in (layer.short_conv, layer.head_output):
            for parameter in [] if part is None else part.parameters():
                parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def tokens_for(batch: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(TINY.vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))


def times_for(batch: int, length: int, seed: int = 0, start: float = 0.0) -> Tensor:
    """Times on the grid with all that can happen: chords, rests, long jumps, and steps back."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.tensor([0, 0, 0, 1, 3, 12, 500, -4])[torch.randint(8, (batch, length), generator=generator)]
    return start + steps.cumsum(1).double() / 12


def stream(model: PerformerLM, tokens: Tensor, times: Tensor, state: State) -> tuple[Tensor, State]:
    logits = []
    for token, time in zip(tokens.unbind(1), times.unbind(1), strict=True):
        step, state = model.step(token, state, time)
        logits.append(step)
    return torch.stack(logits, 1), state


def same(one: State, other: State) -> bool:
    pairs = [(a.tensors(), b.tensors()) for a, b in zip(one.layers, other.layers, strict=True)]
    equal = all(torch.equal(a[name], b[name]) for a, b in pairs for name in a)
    return equal and (one.positions, one.times) == (other.positions, other.times)


@pytest.mark.parametrize("options", ALL, ids=str)
@pytest.mark.parametrize("start", [0.0, 100_000.0])
def test_streaming_equals_chunks_equals_parallel(options: dict[str, object], start: float) -> None:
    model = make(**options)
    tokens, times, draw = tokens_for(3, 90), times_for(3, 90, start=start), model.draw(5)
    with torch.no_grad():
        parallel = model(tokens, draw, times=times)
    state = model.init_state(draw, 3)
    first, state = model.prefill(tokens[:, :2], state, times[:, :2])  # fewer than the convolution remembers
    second, state = model.prefill(tokens[:, 2:40], state, times[:, 2:40])
    third, state = stream(model, tokens[:, 40:70], times[:, 40:70], state)
    fourth, state = model.prefill(tokens[:, 70:], state, times[:, 70:])
    torch.testing.assert_close(torch.cat([first, second, third, fourth], 1), parallel, rtol=1e-3, atol=3e-4)
    assert state.positions == (90, 90, 90)
    assert state.times == (tuple(times[:, -1].tolist()) if model.config.needs_times else None)
    assert state.nbytes == 3 * state_bytes(model.config)


@pytest.mark.parametrize("options", ALL, ids=str)
def test_causality_by_gradient(options: dict[str, object]) -> None:
    model = make(**options)
    embedded: list[Tensor] = []
    model.embedding.register_forward_hook(lambda *hook: embedded.append(hook[2]) or hook[2])
    logits = model(tokens_for(1, 80), model.draw(0), times=times_for(1, 80))
    for position in (0, 63, 64, 79):
        (gradient,) = torch.autograd.grad(logits[0, position].sum(), embedded[0], retain_graph=True)
        assert (gradient[0, position + 1 :] == 0).all()
        assert (gradient[0, position].abs() > 0).any()


@pytest.mark.parametrize("options", ALL, ids=str)
def test_a_row_is_the_same_bits_in_every_batch(options: dict[str, object]) -> None:
    if not Product(torch.zeros(1, 1), torch.zeros(1)).is_packed:
        pytest.skip("without oneDNN rows may differ by rounding")
    model = make(**options)
    draw = model.draw(2)
    tokens, times = tokens_for(7, 4, seed=9), times_for(7, 4, seed=9, start=3.0)
    alone, after = [], []
    for row, length in enumerate((0, 1, 40, 3, 90, 17, 2)):
        state = model.init_state(draw)
        if length:
            _, state = model.prefill(tokens_for(1, length, row), state, times_for(1, length, row))
        alone.append(state)
        after.append(stream(model, tokens[row : row + 1], times[row : row + 1], state))
    for rows in ([0, 1], [3, 4, 5], [6, 5, 4, 3, 2, 1, 0], [2] * 16):
        logits, state = stream(model, tokens[rows], times[rows], State.join([alone[row] for row in rows]))
        for place, row in enumerate(rows):
            assert torch.equal(logits[place], after[row][0][0])
            assert same(state.rows([place]), after[row][1])


@pytest.mark.parametrize(
    "options", [COPYING, {**COPYING, "norm": "pre", "head_norm": True, "learn_frequencies": True}], ids=str
)
def test_forks_rewinds_and_saved_states_reproduce_bit_for_bit(options: dict[str, object], tmp_path: Path) -> None:
    model = make(**options)
    tokens, times = tokens_for(2, 50), times_for(2, 50)
    _, state = model.prefill(tokens[:, :40], model.init_state(model.draw(9), 2), times[:, :40])
    save_bundle(model, tmp_path / "model")
    model = load_bundle(tmp_path / "model")
    state.save(tmp_path / "piece.safetensors")
    loaded = State.load(tmp_path / "piece.safetensors")
    assert same(loaded, state)
    rest = tokens[:, 40:], times[:, 40:]
    first = stream(model, *rest, state)
    assert torch.equal(first[0], stream(model, *rest, loaded)[0])
    assert torch.equal(first[0], stream(model, *rest, state)[0]), "a state is not changed by stepping from it"
    forked = stream(model, rest[0][[1, 0, 1]], rest[1][[1, 0, 1]], state.rows([1, 0, 1]))
    assert torch.equal(forked[0], first[0][[1, 0, 1]])
    assert same(forked[1], first[1].rows([1, 0, 1]))


@settings(max_examples=30, deadline=None)
@given(
    options=st.sampled_from(ALL),
    steps=st.lists(st.integers(-20, 400), min_size=2, max_size=70),
    cut=st.floats(0, 1),
    resolution=st.sampled_from([1, 4, 12, 24]),
)
def test_any_times_stream_as_they_run(
    options: dict[str, object], steps: list[int], cut: float, resolution: int
) -> None:
    model = make(**{**options, "time_resolution": resolution})
    times = torch.tensor([steps]).cumsum(1).double() / resolution
    length = len(steps)
    tokens, draw = tokens_for(1, length), model.draw(length)
    with torch.no_grad():
        parallel = model(tokens, draw, times=times)
    state, edge = model.init_state(draw), int(cut * length)
    if edge:
        _, state = model.prefill(tokens[:, :edge], state, times[:, :edge])
    if edge < length:
        last, _ = stream(model, tokens[:, edge:], times[:, edge:], state)
        torch.testing.assert_close(last, parallel[:, edge:], rtol=2e-3, atol=5e-4)


@pytest.mark.parametrize("options", IN_TIME[1:], ids=str)
def test_times_and_not_indices_decide(options: dict[str, object]) -> None:
    model = make(**{**options, "decay": "none"})
    tokens, times, draw = tokens_for(1, 30), times_for(1, 30), model.draw(0)
    with torch.no_grad():
        here = model(tokens, draw, times=times)
        assert torch.equal(here, model(tokens, draw, torch.arange(30) + 7, times=times))
        assert not torch.allclose(here, model(tokens, draw, times=2 * times), atol=1e-3)


@pytest.mark.parametrize("learnt", [False, True])
def test_rotation_by_time_knows_distances_alone(learnt: bool) -> None:
    model = make(**{**COPYING, "learn_frequencies": learnt})
    queries, keys = torch.randn(2, 2, 60, 2, 10)
    products = []
    for shift in (0.0, 800.0):
        encode = model.encoding.encoder(model.draw(0), 12 * (times_for(2, 60) + shift), model.embedding.weight)
        products.append(torch.einsum("bmhd,bnhd->bhmn", *encode(1, queries, keys)))
    torch.testing.assert_close(*products, rtol=1e-3, atol=1e-4)


def test_periods_go_from_the_shortest_to_the_longest_and_turn_the_share_alone() -> None:
    model = make(pe="rope", positions="time", rotated=0.6, shortest_beats=0.5, longest_bars=2, d_model=40)
    encode = model.encoding.encoder(model.draw(0), torch.tensor([[0.0, 6.0, 96.0]]), model.embedding.weight)
    queries = torch.randn(1, 3, 2, 20)
    turned, _ = encode(0, queries, queries)
    torch.testing.assert_close(turned[:, 0], queries[:, 0])
    assert torch.equal(turned[..., 12:], queries[..., 12:])  # 60 % of 20 features
    torch.testing.assert_close(turned[:, 1, :, [0, 6]], queries[:, 1, :, [0, 6]])  # half a beat: a whole turn
    torch.testing.assert_close(turned[:, 2, :, [5, 11]], queries[:, 2, :, [5, 11]])  # two bars: a whole turn
    assert not torch.allclose(turned[:, 1, :, 5], queries[:, 1, :, 5], atol=0.1)


def test_gradients_of_learnt_frequencies_and_of_the_convolution_are_those_of_differences() -> None:
    model = make(**{**COPYING, "learn_frequencies": True, "num_layers": 1}).double()
    tokens, times = tokens_for(2, 6), times_for(2, 6) / 50
    names = [name for name, _ in model.named_parameters() if "frequencies" in name or "short_conv" in name]
    assert len(names) == 2
    parameters = dict(model.named_parameters())

    def loss(*values: Tensor) -> Tensor:
        named = dict(zip(names, values, strict=True))
        arguments = (tokens, model.draw(0))
        result: Tensor = torch.func.functional_call(model, named, arguments, {"times": times})
        return result

    assert torch.autograd.gradcheck(loss, [parameters[name] for name in names], atol=1e-4, rtol=1e-3, eps=1e-5)


@pytest.mark.parametrize("recent", [False, True])
def test_the_convolution_is_torchs(recent: bool) -> None:
    convolution = ShortConvolution(6, 4).double()
    convolution.weight.data = torch.randn_like(convolution.weight)
    inputs = torch.randn(2, 9, 6, dtype=torch.float64, requires_grad=True)
    past = torch.randn(2, 3, 6, dtype=torch.float64) if recent else torch.zeros(2, 3, 6, dtype=torch.float64)
    outputs, last = convolution(inputs, slice(None), past if recent else None)
    channels = torch.cat([past, inputs], 1).transpose(1, 2)
    expected = torch.nn.functional.conv1d(channels, convolution.weight.flip(0).T.unsqueeze(1), groups=6).transpose(1, 2)
    torch.testing.assert_close(outputs, expected)
    assert torch.equal(last, inputs[:, -3:])
    gradient = torch.randn_like(outputs)
    trained = [inputs, convolution.weight]
    for ours, true in zip(
        torch.autograd.grad(outputs, trained, gradient, retain_graph=True),
        torch.autograd.grad(expected, trained, gradient),
        strict=True,
    ):
        torch.testing.assert_close(ours, true)


def test_a_fresh_convolution_changes_nothing() -> None:
    torch.manual_seed(0)
    plain = PerformerLM(TINY).eval()
    other = PerformerLM(dataclasses.replace(TINY, short_conv=4)).eval()
    other.load_state_dict(plain.state_dict(), strict=False)
    tokens = tokens_for(2, 30)
    with torch.no_grad():
        assert torch.equal(plain(tokens, plain.draw(0)), other(tokens, other.draw(0)))


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({}, 0),
        ({"short_conv": 4}, 2 * 4 * 3 * 20),
        ({"norm": "pre"}, 2 * 20),
        ({"head_norm": True}, 2 * 20),
        ({"output_gate": True}, 2 * (20 * 20 + 20)),
        ({"gated_ff": True}, 2 * (2 * gated_width(30) - 30)),  # matrices are as large as before, biases differ
        ({"pe": "rope", "learn_frequencies": True}, 2 * 5),
    ],
    ids=str,
)
def test_parameters_are_counted_and_named_in_the_table(options: dict[str, object], more: int) -> None:
    base = PerformerLM(dataclasses.replace(TINY, pe="none")).num_parameters()
    config = dataclasses.replace(TINY, **{"pe": "none", **options})  # type: ignore[arg-type]
    assert PerformerLM(config).num_parameters() == base + more == sum(count_parameters(config).values())
    plain = table(dataclasses.replace(TINY, pe="none"))
    assert (table(config) == plain) == (not options)


def test_missing_and_misshapen_times_are_named() -> None:
    model = make(**COPYING)
    tokens, draw = tokens_for(2, 5), model.draw(0)
    state = model.init_state(draw, 2)
    for call in (
        lambda: model(tokens, draw),
        lambda: model.prefill(tokens, state),
        lambda: model.step(tokens[:, 0], state),
    ):
        with pytest.raises(ValueError, match="musical time"):
            call()
    with pytest.raises(ValueError, match="do not match tokens"):
        model(tokens, draw, times=torch.zeros(2, 4))
    with pytest.raises(ValueError, match="another model"):
        make(pe="rope").step(tokens[:, 0], state)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"positions": "bars"}, "positions must be one of token, time"),
        ({"rotated": 1.5}, "rotated must be from 0 to 1"),
        ({"pe": "rope", "rotated": 0.01}, "less than a pair"),
        ({"pe": "rope", "rotated": 0.0}, "choose pe=none"),
        ({"pe": "ape", "rotated": 0.5}, "not pe=ape"),
        ({"pe": "rope", "shortest_beats": 9.0}, "shortest_beats"),
        ({"longest_bars": 0}, "longest_bars"),
        ({"time_resolution": 0}, "time_resolution"),
        ({"short_conv": -1}, "short_conv"),
        ({"norm": "both"}, "norm must be one of post, pre"),
        ({"gated_ff": 1}, "gated_ff"),
    ],
)
def test_a_wrong_option_is_named(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        dataclasses.replace(TINY, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [COPYING, {**COPYING, "norm": "pre"}, {"pe": "sine", "positions": "time", "decay_positions": "time"}]
)
def test_attention_maps_are_those_of_the_model(options: dict[str, object]) -> None:
    model = make(**options)
    tokens, times = tokens_for(1, 40), times_for(1, 40)
    seen: list[Tensor] = []
    model.layers[1].project_out.register_forward_pre_hook(lambda _, arguments: seen.extend(arguments))
    values: list[Tensor] = []
    original = model.layers[1].queries_keys_values
    model.layers[1].queries_keys_values = lambda *arguments: (
        values.append(original(*arguments)[2]) or original(*arguments)
    )
    layer = attending_layers(model, tokens[0].tolist(), model.draw(0), [1], times)[1]
    for head in range(2):
        outputs = layer.map(head, "features") @ values[0][0, :, head]
        torch.testing.assert_close(outputs, seen[0][0].unflatten(-1, (2, -1))[:, head], rtol=1e-3, atol=1e-4)


def test_command_line_keys_reach_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["pe=rope", "pe.positions=time", "pe.longest_bars=4", "pe.rotated=0.5", "pe.learn_frequencies=true"]
    layer = ["model.short_conv=4", "model.decay=fixed", "model.decay_positions=time", "model.norm=pre"]
    layer += ["model.gated_ff=true", "model.head_norm=true", "model.output_gate=true"]
    assert main(["describe", "model=tiny", *keys, *layer]) == 0
    text = capsys.readouterr().out
    for words in (
        "50% of the features of queries and keys rotated",
        "periods from 0.333 beats to 4 bars, frequencies learnt; in musical time, 12 positions per beat",
        "in 1/12 of a beat in the first head",
        "a convolution of 4 tokens on queries, keys and values, normalised before attention and feed-forward, "
        "a gated feed-forward, normalised heads, a gate on the output of attention",
    ):
        assert words in text


def test_a_model_of_the_delta_rule_has_no_attention_maps() -> None:
    model = make(**COPYING, attention="delta")
    with pytest.raises(UserError, match="no attention weights"):
        attending_layers(model, [1, 2], model.draw(0), [0], torch.zeros(1, 2, dtype=torch.float64))
    with pytest.raises(UserError, match="no attention weights"):
        Probe(model, model.draw(0), 4)
