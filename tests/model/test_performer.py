"""The model: streaming equals parallel for every encoding, causality, states, and the paper's sizes."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.errors import UserError
from musicgen.model import PerformerConfig, PerformerLM, State
from musicgen.model.dropout import DropoutNoise, dropout, relu_dropout
from musicgen.runtime import bfloat16_works
from musicgen.spe import Draw

TINY = PerformerConfig(
    vocab_size=13,
    num_layers=2,
    num_heads=2,
    d_model=16,
    d_ff=24,
    num_features=12,
    num_realizations=6,
    num_sines=2,
    kernel_size=9,
    weight_std=0.3,  # large enough for position and content to matter
)


def make(**changes: object) -> PerformerLM:
    torch.manual_seed(0)
    return PerformerLM(dataclasses.replace(TINY, **changes)).eval()  # type: ignore[arg-type]


def tokens_for(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(TINY.vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))


ENCODINGS = [
    {"pe": "none"},
    {"pe": "ape"},
    {"pe": "rope"},
    {"pe": "sine", "gated": True},
    {"pe": "sine", "gated": False},
    {"pe": "sine", "gated": True, "shared": False},
    {"pe": "sine", "noise": "orthogonal"},
    {"pe": "conv", "gated": True},
    {"pe": "conv", "gated": False},
    {"pe": "conv", "gated": True, "shared": False},
]
ALL = list(itertools.product(ENCODINGS, ["none", "fixed", "learnt"], ["favor", "relu", "elu"]))


@pytest.mark.parametrize(("encoding", "decay", "features"), ALL, ids=lambda value: str(value))
def test_streaming_equals_chunks_equals_parallel(encoding: dict[str, object], decay: str, features: str) -> None:
    model = make(decay=decay, feature_map=features, **encoding)
    tokens = tokens_for(2, 90)
    draw = model.draw(5)
    with torch.no_grad():
        parallel = model(tokens, draw)
    pieces = []
    state = model.init_state(draw, 2)
    logits, state = model.prefill(tokens[:, :30], state)
    pieces.append(logits)
    for position in range(30, 70):
        logits, state = model.step(tokens[:, position], state)
        pieces.append(logits.unsqueeze(1))
    logits, state = model.prefill(tokens[:, 70:], state)
    pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, 1), parallel, rtol=1e-3, atol=2e-4)
    assert state.positions == (90, 90)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
def test_streaming_equals_parallel_far_past_any_trained_length(encoding: dict[str, object]) -> None:
    model = make(decay="fixed", **encoding)
    start = 1_000_000
    tokens = tokens_for(1, 40)
    draw = model.draw(1)
    with torch.no_grad():
        parallel = model(tokens, draw, torch.arange(start, start + 40))
    state = dataclasses.replace(model.init_state(draw), positions=(start,))
    for position in range(40):
        logits, state = model.step(tokens[:, position], state)
        torch.testing.assert_close(logits, parallel[:, position], rtol=1e-3, atol=2e-4)


def test_prefill_in_several_chunks_equals_parallel() -> None:
    model = make(pe="conv", decay="fixed")
    tokens = tokens_for(1, 700)
    draw = model.draw(3)
    with torch.no_grad():
        parallel = model(tokens, draw)
    logits, _ = model.prefill(tokens, model.init_state(draw))
    torch.testing.assert_close(logits, parallel, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("backend", ["naive", "recurrent", "fast_transformers"])
def test_every_backend_gives_the_same_logits_and_gradients(backend: str, request: pytest.FixtureRequest) -> None:
    if backend == "fast_transformers":
        request.getfixturevalue("fast_transformers")
    model = make(pe="sine", decay="learnt")
    tokens = tokens_for(2, 70)
    results = []
    for name in ("chunked", backend):
        model.backend = name  # type: ignore[assignment]
        model.zero_grad()
        logits = model(tokens, model.draw(2))
        logits.square().sum().backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        results.append([logits.detach(), *(gradient.clone() for gradient in gradients)])
    assert len(results[0]) == 1 + len(list(model.parameters()))
    for ours, theirs in zip(*results, strict=True):
        scale = float(theirs.abs().max())
        torch.testing.assert_close(ours / scale, theirs / scale, rtol=0, atol=1e-4)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
def test_causality_by_gradient_with_weights_scaled_up(encoding: dict[str, object]) -> None:
    model = make(decay="fixed", **encoding)
    for parameter in model.layers[0].project_queries_keys.parameters():
        parameter.data *= 4  # leaks that hide at initialisation show once keys have grown
    embedded: list[torch.Tensor] = []
    model.embedding.register_forward_hook(lambda *hook: embedded.append(hook[2]) or hook[2])
    logits = model(tokens_for(1, 100), model.draw(0))
    for position in (0, 63, 64, 99):
        (gradient,) = torch.autograd.grad(logits[0, position].sum(), embedded[0], retain_graph=True)
        assert (gradient[0, position + 1 :] == 0).all()
        assert (gradient[0, : position + 1].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("encoding", ENCODINGS[1:4], ids=str)
def test_later_tokens_leave_earlier_logits_alone(encoding: dict[str, object]) -> None:
    model = make(**encoding)
    first, second = tokens_for(1, 80), tokens_for(1, 80, seed=1)
    second[:, :50] = first[:, :50]
    draw = model.draw(0)
    with torch.no_grad():
        torch.testing.assert_close(model(first, draw)[:, :50], model(second, draw)[:, :50], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("encoding", [ENCODINGS[2], ENCODINGS[3], ENCODINGS[7]], ids=str)
def test_rows_at_different_positions_share_a_batch(encoding: dict[str, object]) -> None:
    model = make(**encoding)
    draw = model.draw(4)
    lengths = (5, 90, 41)  # further apart than any block of codes
    alone = []
    for row, length in enumerate(lengths):
        _, state = model.prefill(tokens_for(1, length, seed=row), model.init_state(draw))
        alone.append(state)
    batch = State.join(alone)
    assert batch.positions == lengths
    for token in (3, 7):
        logits, batch = model.step(torch.full((3,), token), batch)
        for row in range(3):
            expected, alone[row] = model.step(torch.tensor([token]), alone[row])
            torch.testing.assert_close(logits[row : row + 1], expected, rtol=1e-3, atol=1e-4)


def test_a_sample_does_not_depend_on_its_batch() -> None:
    model = make(pe="sine")
    draw = model.draw(0)
    tokens = tokens_for(5, 60)
    with torch.no_grad():
        together = model(tokens, draw)
        for row in range(5):
            torch.testing.assert_close(model(tokens[row : row + 1], draw)[0], together[row], rtol=1e-4, atol=1e-5)


def test_forks_rewinds_and_saved_states_reproduce_bit_for_bit(tmp_path: Path) -> None:
    model = make(pe="conv", decay="fixed")
    _, state = model.prefill(tokens_for(2, 40), model.init_state(model.draw(9), 2))
    state.save(tmp_path / "piece.safetensors")
    loaded = State.load(tmp_path / "piece.safetensors")
    assert loaded.draw == state.draw
    assert loaded.positions == state.positions

    def continuation(state: State) -> torch.Tensor:
        outputs = []
        for token in (1, 2, 3):
            logits, state = model.step(torch.full((2,), token), state)
            outputs.append(logits)
        return torch.stack(outputs)

    first = continuation(state)
    assert torch.equal(first, continuation(state)), "a state is not changed by stepping from it"
    assert torch.equal(first, continuation(loaded))
    assert torch.equal(first.flip(1), continuation(state.rows([1, 0])))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["piece.safetensors"]


def test_a_state_is_of_constant_small_size() -> None:
    model = make(pe="conv")
    state = model.init_state(model.draw(0), 1)
    _, later = model.prefill(tokens_for(1, 600), state)
    assert later.nbytes == state.nbytes == 2 * 2 * (12 * 9 + 1) * 4


def test_the_papers_state_is_about_six_mebibytes() -> None:
    config = PerformerConfig.paper("conv")
    head = config.num_features * (config.head_features + 1) + 1
    assert config.num_layers * config.num_heads * head * 4 / 2**20 == pytest.approx(6.1, abs=0.05)


@pytest.mark.parametrize(
    ("pe", "gated", "more"),
    [
        ("ape", True, 0),
        ("sine", True, 19_968),
        ("sine", False, 7_680),
        ("conv", True, 143_360),
        ("conv", False, 524_288),
    ],
)
def test_the_papers_models_have_their_parameters(pe: str, gated: bool, more: int) -> None:
    with torch.device("meta"):
        model = PerformerLM(PerformerConfig.paper(pe, gated, vocab_size=333))  # type: ignore[arg-type]
    assert model.num_parameters() == 75_998_541 + more


def test_realizations_may_differ_between_training_and_testing() -> None:
    model = make(pe="sine")
    tokens = tokens_for(1, 20)
    draw = model.draw(0, num_realizations=40)
    with torch.no_grad():
        parallel = model(tokens, draw)
    logits, _ = model.prefill(tokens, model.init_state(draw))
    torch.testing.assert_close(logits, parallel, rtol=1e-3, atol=1e-4)


def test_the_same_features_can_be_held_while_codes_are_drawn_anew() -> None:
    model = make(pe="none")  # no codes: only the features are random
    tokens = tokens_for(1, 20)
    with torch.no_grad():
        held = [model(tokens, model.draw(seed, feature_seed=7)) for seed in (0, 1)]
        other = model(tokens, model.draw(0, feature_seed=8))
    assert torch.equal(*held)
    assert not torch.allclose(held[0], other)


@settings(max_examples=15, deadline=None)
@given(
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    features=st.integers(1, 4),
    realizations=st.integers(1, 7),
    batch=st.integers(1, 3),
    length=st.integers(1, 140),
    pe=st.sampled_from(["none", "ape", "sine", "conv", "rope"]),
)
def test_any_shape_streams_as_it_runs(
    layers: int, heads: int, features: int, realizations: int, batch: int, length: int, pe: str
) -> None:
    model = make(num_layers=layers, num_heads=heads, d_model=2 * heads * features, num_realizations=realizations, pe=pe)
    tokens = tokens_for(batch, length)
    draw = model.draw(length)
    with torch.no_grad():
        parallel = model(tokens, draw)
    state = model.init_state(draw, batch)
    if length > 1:
        _, state = model.prefill(tokens[:, :-1], state)
    last, _ = model.step(tokens[:, -1], state)
    torch.testing.assert_close(last, parallel[:, -1], rtol=2e-3, atol=5e-4)


def test_dropout_meets_its_rate_keeps_the_mean_and_trains_what_it_kept() -> None:
    noise = DropoutNoise(0.1, Draw(0, 1))
    tensor = torch.ones(3, 333_331, requires_grad=True)  # not a multiple of four
    for function in (dropout, relu_dropout):
        output = function(tensor, noise, 0)
        (gradient,) = torch.autograd.grad(output.sum(), tensor)
        assert torch.equal(gradient, output)
        assert (output == 0).float().mean().item() == pytest.approx(0.1, abs=0.002)
        assert output.mean().item() == pytest.approx(1.0, abs=0.002)
        assert torch.equal(function(tensor, None, 0), tensor)
    negative = relu_dropout(-tensor, noise, 0)
    assert (negative == 0).all()


def test_dropout_is_that_of_the_draw_the_site_and_the_row() -> None:
    noise, like = DropoutNoise(0.5, Draw(3, 1)), torch.empty(4, 5, 7)
    masks = noise.chances(2, like)
    assert torch.equal(DropoutNoise(0.5, Draw(3, 1), first_row=1).chances(2, like[1:]), masks[1:])
    others = [noise.chances(1, like), DropoutNoise(0.5, Draw(4, 1)).chances(2, like), masks.roll(1, 0)]
    assert not any(torch.equal(other, masks) for other in others)


@pytest.mark.parametrize("pe", ["ape", "sine"])
def test_a_batch_in_parts_is_trained_as_the_whole(pe: str) -> None:
    model = make(pe=pe, dropout=0.3).train()
    tokens, draw = tokens_for(5, 20), model.draw(0)
    whole = model(tokens, draw)
    parts = [model(tokens[rows], draw, first_row=rows.start) for rows in (slice(0, 2), slice(2, 5))]
    torch.testing.assert_close(torch.cat(parts), whole)


@pytest.mark.parametrize("pe", ["none", "ape", "sine", "conv", "rope"])
def test_mixed_precision_trains_nearly_the_same(pe: str) -> None:
    if not bfloat16_works("cpu"):
        pytest.skip("this processor cannot multiply in bfloat16")
    model = make(pe=pe, weight_std=0.1, dropout=0.2, decay="learnt").train()
    tokens, draw = tokens_for(3, 60), model.draw(0)
    gradients = []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            logits = model(tokens, draw)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten()).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert gradients[1].dtype == torch.float32
    assert (gradients[0] - gradients[1]).norm() < 0.05 * gradients[0].norm()


def test_dropout_is_on_in_training_and_never_in_streaming() -> None:
    model = make(pe="sine").train()
    tokens = tokens_for(1, 20)
    draw = model.draw(0)
    with torch.no_grad():
        noisy = model(tokens, draw)
        assert torch.equal(model(tokens, draw), noisy)
        quiet = model.eval()(tokens, draw)
    assert not torch.allclose(noisy, quiet)
    model.train()
    torch.testing.assert_close(model.prefill(tokens, model.init_state(draw))[0], quiet, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_heads": 3}, "d_model"),
        ({"pe": "alibi"}, "pe must be one of ape, conv, none, rope, sine"),
        ({"num_layers": 0}, "num_layers"),
        ({"num_layers": 2.5}, "num_layers"),
        ({"dropout": 1.0}, "dropout"),
        ({"gated": "yes"}, "gated"),
        ({"num_features": 7}, "num_features"),
        ({"noise": "exact"}, "num_realizations"),
        ({"decay_exponents": (1.0,)}, "decay_exponents"),
        ({"embedding_std": -1.0}, "embedding_std"),
        ({"vocab_size": 10**12}, "vocab_size"),
    ],
)
def test_a_wrong_config_is_named(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        dataclasses.replace(TINY, **changes)  # type: ignore[arg-type]


def test_states_of_other_models_and_draws_are_refused() -> None:
    model = make()
    one, other = model.init_state(model.draw(0)), model.init_state(model.draw(1))
    with pytest.raises(ValueError, match="same draw"):
        State.join([one, other])
    with pytest.raises(ValueError, match="layers"):
        make(num_layers=3).step(torch.tensor([0]), one)
    with pytest.raises(ValueError, match="rows"):
        model.step(torch.tensor([0, 1]), one)
    apart = State.join([one, model.step(torch.tensor([0]), one)[1]])
    with pytest.raises(ValueError, match="same position"):
        model.prefill(torch.zeros(2, 4, dtype=torch.long), apart)


def test_a_damaged_state_file_gives_one_sentence(tmp_path: Path) -> None:
    model = make()
    path = tmp_path / "piece.safetensors"
    with pytest.raises(UserError, match="no such state file"):
        State.load(path)
    model.init_state(model.draw(0)).save(path)
    content = path.read_bytes()
    for damaged in (b"", content[:40], content[:-8], b"x" * 100, content.replace(b"seed", b"need")):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"piece\.safetensors: not a state file, or a damaged one"):
            State.load(path)
