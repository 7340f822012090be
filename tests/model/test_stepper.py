"""Streaming: a row is the same bits in any batch, states stay valid, and weights may change."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.model import PerformerConfig, PerformerLM, State
from musicgen.model.bundle import load_bundle, save_bundle
from musicgen.model.packed import Product, packed

ENCODINGS = [
    {"pe": "none"},
    {"pe": "ape"},
    {"pe": "rope"},
    {"pe": "sine"},
    {"pe": "sine", "gated": False},
    {"pe": "sine", "shared": False, "noise": "orthogonal"},
    {"pe": "conv"},
    {"pe": "conv", "gated": False},
]
CASES = [
    *itertools.product([1], ENCODINGS, ["fixed"], ["favor"]),
    *itertools.product([1], ENCODINGS[2:4], ["none", "learnt"], ["relu", "elu"]),
    *itertools.product([2], ENCODINGS[2:4], ["learnt"], ["favor"]),
    *itertools.product([2], ENCODINGS[6:7], ["none"], ["elu"]),
]
BATCHES = {1: [1, 2, 3, 4, 5, 7, 16, 33], 2: [1, 2, 5, 8]}  # by threads: two of them may wait for each other for long
LENGTHS = [0, 1, 5, 90, 41, 90, 17, 64]  # of the prefixes of rows, in turn: further apart than blocks of codes


def make(**changes: object) -> PerformerLM:
    """A model whose sizes are no multiples of those of vectors."""
    sizes = {"vocab_size": 13, "num_layers": 2, "num_heads": 2, "d_model": 44, "d_ff": 70, "num_features": 18}
    noise = {"num_realizations": 9, "num_sines": 2, "kernel_size": 9, "weight_std": 0.3}
    torch.manual_seed(0)
    return PerformerLM(PerformerConfig(**{**sizes, **noise, **changes})).eval()  # type: ignore[arg-type]


def tokens_for(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(13, (batch, length), generator=torch.Generator().manual_seed(seed))


def stepped(model: PerformerLM, tokens: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
    """Logits of `(batch, length)` tokens, one by one, and the state after."""
    logits = []
    for column in tokens.unbind(1):
        step_logits, state = model.step(column, state)
        logits.append(step_logits)
    return torch.stack(logits, 1), state


def same(one: State, other: State) -> bool:
    layers = zip(one.layers, other.layers, strict=True)
    return one.positions == other.positions and all(
        torch.equal(a.memory, b.memory) and torch.equal(a.log_scale, b.log_scale) for a, b in layers
    )


@pytest.fixture(autouse=True)
def _restored_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def needs_packing() -> None:
    if not Product(torch.zeros(1, 1), torch.zeros(1)).is_packed:
        pytest.skip("without oneDNN rows may differ by rounding")


@pytest.mark.parametrize(("threads", "encoding", "decay", "features"), CASES, ids=str)
def test_a_row_is_the_same_bits_in_every_batch(
    threads: int, encoding: dict[str, object], decay: str, features: str
) -> None:
    needs_packing()
    torch.set_num_threads(threads)
    model = make(decay=decay, feature_map=features, **encoding)
    draw = model.draw(5)
    batches = BATCHES[threads]
    tokens = tokens_for(max(batches), 3)
    alone, after = [], []
    for row in range(max(batches)):
        state = model.init_state(draw)
        length = LENGTHS[row % len(LENGTHS)]
        if length:
            _, state = model.prefill(tokens_for(1, length, seed=row), state)
        alone.append(state)
        after.append(stepped(model, tokens[row : row + 1], state))
    for batch in batches:
        for rows in (list(range(batch)), list(range(len(alone) - batch, len(alone))), [3] * batch):
            logits, state = stepped(model, tokens[rows], State.join([alone[row] for row in rows]))
            for place, row in enumerate(rows):
                assert torch.equal(logits[place], after[row][0][0]), f"row {place} of {batch}"
                assert same(state.rows([place]), after[row][1]), f"row {place} of {batch}"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("outputs", "inputs"), [(1544, 512), (512, 2048), (361, 256), (13, 7), (1, 1)])
def test_packed_products_are_those_of_torch_and_the_same_in_every_batch(
    threads: int, outputs: int, inputs: int
) -> None:
    needs_packing()
    torch.set_num_threads(threads)
    weight, bias, rows = torch.randn(outputs, inputs), torch.randn(outputs), torch.randn(70, inputs)
    others = torch.randn(70, outputs)
    product = Product(weight, bias)
    expected = torch.nn.functional.linear(rows, weight, bias)
    results = [product(rows), product.relu(rows), product.plus(rows, others)]
    for result, truth in zip(results, [expected, expected.relu(), expected + others], strict=True):
        torch.testing.assert_close(result, truth, rtol=1e-4, atol=1e-3)
    for first, last in [(0, 1), (69, 70), (0, 2), (1, 4), (7, 11), (3, 8), (0, 16), (20, 53), (5, 69)]:
        part = rows[first:last]
        parts = [product(part), product.relu(part), product.plus(part, others[first:last])]
        assert all(torch.equal(own, result[first:last]) for own, result in zip(parts, results, strict=True))


def test_without_packing_the_products_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("musicgen.model.packed._pack", lambda _: None)
    weight, bias, rows, others = torch.randn(5, 3), torch.randn(5), torch.randn(2, 3), torch.randn(2, 5)
    product, expected = Product(weight, bias), torch.nn.functional.linear(rows, weight, bias)
    assert torch.equal(product(rows), expected)
    assert torch.equal(product.relu(rows), expected.relu())
    assert torch.equal(product.plus(rows, others), expected + others)


def test_what_cannot_be_packed_is_not() -> None:
    weight = torch.ones(3, 2, dtype=torch.float64)
    product = Product(weight, torch.zeros(3, dtype=torch.float64))
    assert torch.equal(product(torch.ones(1, 2, dtype=torch.float64)), torch.full((1, 3), 2.0, dtype=torch.float64))


@settings(max_examples=25, deadline=None)
@given(
    heads=st.integers(1, 4),
    width=st.integers(1, 33),
    features=st.integers(1, 35),
    realizations=st.integers(1, 66),
    pe=st.sampled_from(["none", "ape", "rope", "sine", "conv"]),
    feature_map=st.sampled_from(["favor", "relu", "elu"]),
    batch=st.integers(2, 9),
)
def test_a_row_is_the_same_bits_whatever_the_sizes(
    heads: int, width: int, features: int, realizations: int, pe: str, feature_map: str, batch: int
) -> None:
    needs_packing()
    torch.set_num_threads(1)
    sizes = {"num_heads": heads, "d_model": 2 * width * heads, "num_features": 2 * features}
    model = make(pe=pe, feature_map=feature_map, num_realizations=realizations, **sizes)
    draw, tokens = model.draw(0), tokens_for(batch, 3)
    together, _ = stepped(model, tokens, model.init_state(draw, batch))
    for row in range(batch):
        assert torch.equal(stepped(model, tokens[row : row + 1], model.init_state(draw))[0][0], together[row])


@pytest.mark.parametrize("encoding", [ENCODINGS[2], ENCODINGS[3], ENCODINGS[6]], ids=str)
def test_an_old_state_gives_the_same_bits_after_newer_ones(encoding: dict[str, object]) -> None:
    model = make(**encoding)
    _, old = model.prefill(tokens_for(2, 7), model.init_state(model.draw(0), 2))
    kept = copy.deepcopy(old.layers)
    tokens = tokens_for(2, 200, seed=1)
    first = stepped(model, tokens, old)
    again = stepped(model, tokens, old)
    assert torch.equal(first[0], again[0])
    assert same(first[1], again[1])
    assert same(old, State(old.draw, old.positions, kept))


@pytest.mark.parametrize("encoding", [ENCODINGS[1], ENCODINGS[3]], ids=str)
def test_a_step_is_that_of_the_weights_as_they_are(encoding: dict[str, object]) -> None:
    model = make(decay="learnt", **encoding)
    tokens, draw = tokens_for(1, 12), model.draw(0)
    _, state = stepped(model, tokens[:, :4], model.init_state(draw))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.nn.functional.cross_entropy(model(tokens, draw).flatten(0, 1), tokens.flatten()).backward()
    optimiser.step()
    fresh = copy.deepcopy(model)
    continued, _ = model.step(tokens[:, 4], state)
    assert torch.equal(continued, fresh.step(tokens[:, 4], state)[0])
    with torch.no_grad():
        expected = model(tokens, draw)
    torch.testing.assert_close(stepped(model, tokens, model.init_state(draw))[0], expected, rtol=1e-3, atol=2e-4)


def test_a_model_that_has_stepped_is_saved_copied_and_let_go_as_before(tmp_path: Path) -> None:
    model = make()
    names = list(model.state_dict())
    logits, state = model.step(torch.tensor([3]), model.init_state(model.draw(0)))
    assert list(model.state_dict()) == names
    save_bundle(model, tmp_path / "model")
    for other in (load_bundle(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):  # noqa: S301
        assert torch.equal(other.step(torch.tensor([3]), other.init_state(other.draw(0)))[0], logits)
    assert packed(model) is packed(model)
    del other, state
    assert packed(make()) is not packed(model)


def test_steps_of_any_draw_share_one_packing() -> None:
    model = make()
    first = packed(model)
    for seed in range(3):
        model.step(torch.tensor([3]), model.init_state(model.draw(seed)))
    assert packed(model) is first


@pytest.mark.parametrize("context", [torch.inference_mode, torch.enable_grad], ids=lambda context: context.__name__)
def test_a_step_is_the_same_in_every_mode_and_its_logits_are_free_to_change(context: type[torch.enable_grad]) -> None:
    model = make()
    draw = model.draw(0)
    with context():
        logits, state = model.step(torch.tensor([3]), model.init_state(draw))
        logits, state = model.step(torch.tensor([4]), state)
        assert not logits.requires_grad
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(model.step(torch.tensor([5]), state)[0], model.step(torch.tensor([5]), state)[0])
    expected, _ = stepped(model, torch.tensor([[3, 4]]), model.init_state(draw))
    assert torch.equal(logits, expected[:, -1])
