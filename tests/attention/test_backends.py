"""Every form of causal linear attention is the same operation: outputs, all gradients and the final state."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musicgen.attention import (
    BACKENDS,
    AttentionState,
    Backend,
    FeatureMapName,
    causal_attention,
    feature_map,
    linear_attention,
    softmax_attention,
)
from musicgen.spe import Draw

FAST: list[Backend] = ["chunked", "recurrent"]
MAPS: list[FeatureMapName] = ["favor", "relu", "elu"]


@dataclasses.dataclass
class Case:
    """Inputs of one call: raw queries and keys, from which features are made."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    log_decay: Tensor
    memory: Tensor
    log_scale: Tensor
    features: FeatureMapName
    num_features: int = 16

    @classmethod
    def make(
        cls,
        length: int,
        features: FeatureMapName = "favor",
        scale: float = 1.0,
        batch: int = 2,
        heads: int = 3,
    ) -> Case:
        generator = torch.Generator().manual_seed(length)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        size = 16 if features == "favor" else 8
        return cls(
            normal(batch, length, heads, 8) * scale,
            normal(batch, length, heads, 8) * scale,
            normal(batch, length, heads, 5),
            -normal(heads).exp() * 0.1,
            normal(batch, heads, size, 6).abs(),
            normal(batch, heads),
            features,
        )

    def run(
        self,
        backend: Backend,
        dtype: torch.dtype = torch.float64,
        decay: bool = True,
        state: bool = True,
        elapsed: Tensor | None = None,
    ) -> list[Tensor]:
        """Output, memory after, scale after, and gradients of a random function of them."""
        inputs = [
            tensor.to(dtype).requires_grad_()
            for tensor in (self.queries, self.keys, self.values, self.log_decay, self.memory)
        ]
        queries, keys, values, log_decay, memory = inputs
        phi = feature_map(self.features, Draw(3, 8), 0, 8, self.num_features, queries)
        key_features, key_scale = phi.keys(keys)
        output, after = causal_attention(
            phi.queries(queries),
            key_features,
            values,
            key_scale,
            log_decay if decay else None,
            AttentionState(memory, self.log_scale.to(dtype)) if state else None,
            backend,
            elapsed,
        )
        generator = torch.Generator().manual_seed(1)
        loss = sum(
            (torch.randn(part.shape, generator=generator, dtype=torch.float64).to(dtype) * part).sum()
            for part in (output, after.memory)
        )
        gradients = torch.autograd.grad(loss, inputs, allow_unused=True)
        results = [output, after.memory, after.log_scale, *(g for g in gradients if g is not None)]
        return [result.detach() for result in results]


def assert_same(results: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for result, true in zip(results, expected, strict=True):
        assert result.isfinite().all()
        error = (result.double() - true).abs().max() / true.abs().max().clamp_min(0.05)
        assert error < tolerance


@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("backend", FAST)
def test_outputs_gradients_and_state_equal_the_oracle(backend: Backend, length: int, features: FeatureMapName) -> None:
    case = Case.make(length, features)
    for decay in (True, False):
        for state in (True, False):
            options = {"decay": decay, "state": state}
            assert_same(case.run(backend, **options), case.run("naive", **options), 1e-10)  # type: ignore[arg-type]


def uneven(length: int, batch: int = 2) -> Tensor:
    """Elapsed times of rows: chords, rests and long jumps."""
    generator = torch.Generator().manual_seed(length)
    return torch.tensor([0.0, 0.0, 1.0, 2.5, 30.0, 4000.0])[torch.randint(6, (batch, length), generator=generator)]


@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("backend", FAST)
def test_decay_by_elapsed_time_equals_the_oracle(backend: Backend, length: int, features: FeatureMapName) -> None:
    case = Case.make(length, features)
    for state in (True, False):
        # A ReLU query may match far keys alone, whose weight would vanish after such jumps.
        long = uneven(length) / (100 if features == "relu" else 1)
        for elapsed in (long, uneven(length) / 100, torch.zeros(2, length)):
            options = {"state": state, "elapsed": elapsed}
            assert_same(case.run(backend, **options), case.run("naive", **options), 1e-9)  # type: ignore[arg-type]
    by_token = case.run("naive")
    for form in ("naive", backend):
        assert_same(case.run(form, elapsed=torch.ones(2, length)), by_token, 1e-10)  # type: ignore[arg-type]


def test_decay_by_elapsed_time_is_a_power_of_the_time_between() -> None:
    case = Case.make(20, "elu")
    elapsed = uneven(20) / 50
    times = elapsed.double().cumsum(1)
    weights = torch.einsum("bmhe,bnhe->bhmn", *(torch.nn.functional.elu(t) + 1 for t in (case.queries, case.keys)))
    lags = times[:, None, :, None] - times[:, None, None, :]
    weights = (weights * (lags * case.log_decay[:, None, None]).exp()).tril()
    expected = torch.einsum("bhmn,bnhv->bmhv", weights / weights.sum(-1, keepdim=True), case.values)
    torch.testing.assert_close(case.run("naive", state=False, elapsed=elapsed)[0], expected)


@pytest.mark.parametrize("backend", ["naive", *FAST])
def test_decay_by_elapsed_time_is_stable_in_single_precision(backend: Backend) -> None:
    case = Case.make(150, scale=4.0)
    for elapsed in (uneven(150), torch.full((2, 150), 1e6), torch.zeros(2, 150)):
        truth = case.run("naive", elapsed=elapsed)
        for result, true in zip(case.run(backend, torch.float32, elapsed=elapsed)[:2], truth[:2], strict=True):
            assert result.isfinite().all()
            torch.testing.assert_close(result.double(), true, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("fast_transformers")
@pytest.mark.parametrize("length", [1, 65, 200])
def test_the_fast_transformers_kernel_decays_by_elapsed_time(length: int) -> None:
    case, elapsed = Case.make(length), uneven(length)
    options = {"elapsed": elapsed / 100}
    assert_same(case.run("fast_transformers", torch.float32, **options), case.run("naive", **options), 1e-4)


@pytest.mark.usefixtures("fast_transformers")
@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("length", [1, 65, 200])
def test_the_fast_transformers_kernel_equals_the_oracle(length: int, features: FeatureMapName) -> None:
    case = Case.make(length, features)
    for options in ({}, {"decay": False}, {"state": False}, {"decay": False, "state": False}):
        assert_same(case.run("fast_transformers", torch.float32, **options), case.run("naive", **options), 1e-4)


def in_log_space(case: Case, by: float) -> Tensor:
    """The output from logarithms alone, where nothing can overflow or vanish: truth for large keys."""
    phi = feature_map("favor", Draw(3, 8), 0, 8, case.num_features, case.queries)
    projection = phi._projection  # type: ignore[attr-defined]

    def logs(tensor: Tensor) -> Tensor:
        projected = tensor @ projection
        energy = tensor.square().sum(-1, keepdim=True) / (2 * 8**0.5)
        return torch.cat([projected, -projected], -1) - energy

    pairs = torch.logsumexp(logs(case.queries * by).unsqueeze(2) + logs(case.keys * by).unsqueeze(1), -1)
    steps = torch.arange(pairs.shape[1])
    lags = steps[:, None] - steps[None, :]
    pairs = pairs + lags[..., None] * case.log_decay
    weights = pairs.masked_fill((lags < 0)[..., None], -torch.inf).softmax(2)
    return torch.einsum("bmnh,bnhv->bmhv", weights, case.values)


@pytest.mark.parametrize("by", [1, 2, 4, 8])
@pytest.mark.parametrize("backend", ["naive", "chunked", "recurrent", "fast_transformers"])
def test_scaled_up_queries_and_keys_stay_finite_and_exact(
    backend: Backend, by: int, request: pytest.FixtureRequest
) -> None:
    if backend == "fast_transformers":
        request.getfixturevalue("fast_transformers")
    case = Case.make(150, scale=1.0)
    scaled = dataclasses.replace(case, queries=case.queries * by, keys=case.keys * by)
    results = scaled.run(backend, torch.float32, state=False)
    assert_same(results, scaled.run("naive", state=False), 2e-4)
    assert (results[0].double() - in_log_space(case, by)).abs().max() < 2e-4


@pytest.mark.parametrize("backend", FAST)
def test_a_huge_last_key_leaves_the_past_bit_for_bit(backend: Backend) -> None:
    case = Case.make(40, scale=3.0)
    plain = case.run(backend, torch.float32)[0]
    keys = case.keys.clone()
    keys[:, -1] *= 30  # within the same chunk, hundreds of nats away
    changed = dataclasses.replace(case, keys=keys).run(backend, torch.float32)[0]
    assert torch.equal(plain[:, :-1], changed[:, :-1])
    assert changed.isfinite().all()


@pytest.mark.parametrize("backend", ["naive", *FAST])
def test_causality_by_gradient(backend: Backend) -> None:
    case = Case.make(130)
    queries, keys, values = (t.clone().requires_grad_() for t in (case.queries, case.keys, case.values))
    phi = feature_map("favor", Draw(3, 8), 0, 8, 16, queries)
    key_features, key_scale = phi.keys(keys)
    output, _ = causal_attention(phi.queries(queries), key_features, values, key_scale, case.log_decay, backend=backend)
    for position in (0, 70, 129):
        gradients = torch.autograd.grad(output[:, position].sum(), [queries, keys, values], retain_graph=True)
        for gradient in gradients:
            assert (gradient[:, position + 1 :] == 0).all()
        assert (gradients[2][:, : position + 1] != 0).any(-1).all()  # and all of the past is seen


@pytest.mark.parametrize("chunk", [1, 3])
def test_chunked_passes_gradcheck(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["musicgen.attention.chunked"], "CHUNK", chunk)
    shapes = [(1, 5, 2, 3), (1, 5, 2, 3), (1, 5, 2, 2), (2,), (1, 2, 3, 3)]
    inputs = [torch.rand(*shape, dtype=torch.float64) + 0.1 for shape in shapes]
    scale, start = torch.randn(1, 5, 2, dtype=torch.float64), torch.randn(1, 2, dtype=torch.float64)

    def attend(queries: Tensor, keys: Tensor, values: Tensor, decay: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        output, state = causal_attention(queries, keys, values, scale, -decay, AttentionState(memory, start), "chunked")
        # The true memory: the scale it is kept at is a constant to autograd, but not to finite differences.
        return output, state.memory * state.log_scale.exp()[..., None, None]

    assert torch.autograd.gradcheck(attend, [tensor.requires_grad_() for tensor in inputs])

    def attend_in_time(decay: Tensor) -> Tensor:
        queries, keys, values = inputs[:3]
        elapsed = torch.tensor([[0.5, 0.0, 2.0, 0.0, 1.5]])
        state = AttentionState(inputs[4], start)
        return causal_attention(queries, keys, values, scale, -decay, state, "chunked", elapsed)[0]

    assert torch.autograd.gradcheck(attend_in_time, [inputs[3]])


@settings(max_examples=30, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 150), max_size=3),
    backends=st.lists(st.sampled_from(["naive", *FAST]), min_size=4, max_size=4),
    features=st.sampled_from(MAPS),
)
def test_any_cutting_of_a_sequence_by_any_backends_gives_the_same(
    cuts: list[int], backends: list[Backend], features: FeatureMapName
) -> None:
    case = Case.make(150, features)
    phi = feature_map(features, Draw(3, 8), 0, 8, 16, case.queries)
    key_features, key_scale = phi.keys(case.keys)
    query_features = phi.queries(case.queries)
    whole, last = causal_attention(query_features, key_features, case.values, key_scale, case.log_decay)
    outputs = []
    state = None
    edges = [0, *sorted(cuts), 150]
    for start, end, backend in zip(edges, edges[1:], backends, strict=False):
        if start == end:
            continue
        output, state = causal_attention(
            query_features[:, start:end],
            key_features[:, start:end],
            case.values[:, start:end],
            None if key_scale is None else key_scale[:, start:end],
            case.log_decay,
            state,
            backend,
        )
        outputs.append(output)
    assert state is not None
    torch.testing.assert_close(torch.cat(outputs, 1), whole, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(state.memory, last.memory, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(state.log_scale, last.log_scale)


def test_a_sample_does_not_depend_on_its_batch() -> None:
    case = Case.make(100)
    together = case.run("chunked", torch.float32, state=False)[0]
    alone = dataclasses.replace(
        case, queries=case.queries[1:], keys=case.keys[1:], values=case.values[1:], memory=case.memory[1:]
    ).run("chunked", torch.float32, state=False)[0]
    torch.testing.assert_close(together[1:], alone, rtol=1e-5, atol=1e-6)


def test_relu_queries_that_match_no_key_give_zero_not_nan() -> None:
    queries = torch.tensor([1.0, 0.0]).reshape(1, 1, 1, 2)
    keys = torch.tensor([0.0, 1.0]).reshape(1, 1, 1, 2)
    for backend in ("naive", *FAST):
        output, _ = causal_attention(queries, keys, torch.ones(1, 1, 1, 3), backend=backend)  # type: ignore[arg-type]
        assert torch.equal(output, torch.zeros(1, 1, 1, 3))


@pytest.mark.parametrize("features", MAPS)
def test_the_noncausal_form_equals_its_definition_and_ignores_padding(features: FeatureMapName) -> None:
    case = Case.make(12, features, scale=2.0)
    phi = feature_map(features, Draw(3, 8), 0, 8, 16, case.queries)
    key_features, key_scale = phi.keys(case.keys)
    query_features = phi.queries(case.queries)
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[1, 7:] = False
    output = linear_attention(query_features, key_features, case.values, key_scale, mask)
    true_keys = key_features if key_scale is None else key_features * key_scale.exp().unsqueeze(-1)
    for row, length in ((0, 12), (1, 7)):
        weights = torch.einsum("mhf,nhf->hmn", query_features[row], true_keys[row, :length])
        weights = (weights / weights.sum(-1, keepdim=True)).nan_to_num()  # no match: nothing
        definition = torch.einsum("hmn,nhv->mhv", weights, case.values[row, :length])
        torch.testing.assert_close(output[row], definition)
    nothing = linear_attention(query_features, key_features, case.values, key_scale, torch.zeros_like(mask))
    assert torch.equal(nothing, torch.zeros_like(nothing))


def test_favor_tends_to_softmax_attention_as_features_grow() -> None:
    case = Case.make(30, scale=0.7)
    exact = softmax_attention(case.queries, case.keys, case.values, log_decay=case.log_decay)

    def error(num_features: int) -> float:
        errors = []
        for seed in range(6):
            phi = feature_map("favor", Draw(seed, 8), 0, 8, num_features, case.queries)
            key_features, key_scale = phi.keys(case.keys)
            linear, _ = causal_attention(
                phi.queries(case.queries), key_features, case.values, key_scale, case.log_decay
            )
            errors.append((linear - exact).square().mean())
        return float(torch.stack(errors).mean().sqrt())

    coarse, fine = error(16), error(4096)
    assert fine < 0.05
    assert fine < coarse / 4  # the coarse error is bounded by the spread of the values, so less than the root of 256


def test_softmax_attention_equals_torch() -> None:
    case = Case.make(20)
    heads_first = [t.transpose(1, 2) for t in (case.queries, case.keys, case.values)]
    expected = torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=True).transpose(1, 2)
    torch.testing.assert_close(softmax_attention(case.queries, case.keys, case.values), expected)


def test_bad_calls_are_named() -> None:
    features = torch.rand(1, 4, 2, 3)
    with pytest.raises(ValueError, match="backend must be one of chunked, naive, recurrent, fast_transformers"):
        causal_attention(features, features, features, backend="magic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="values"):
        causal_attention(features, features, torch.rand(1, 5, 2, 3))
    with pytest.raises(ValueError, match="elapsed"):
        causal_attention(features, features, features, elapsed=torch.ones(1, 5))
    with pytest.raises(ValueError, match="favor, relu or elu"):
        feature_map("cosine", Draw(0, 4), 0, 4, 8)  # type: ignore[arg-type]


def test_the_oracle_is_not_tested_against_itself() -> None:
    forms: set[Callable[..., object]] = set(BACKENDS.values())
    assert len(forms) == len(BACKENDS) == 4
