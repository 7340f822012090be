"""Applying codes: the gate's identity, the forms that must agree, and the deferred gradient."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
import torch.utils.checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musicgen.spe import ConvSPE, FactorisedSine, PositionalCode, SharedCode, SineSPE, SPEFilter


def published(spe: SPEFilter, queries: Tensor, keys: Tensor, code: PositionalCode, seed: int) -> tuple[Tensor, Tensor]:
    """Gate the codes, then broadcast, multiply and sum: the published form, which stores it all."""
    draw = code.draw(seed)
    both = code.codes(draw, torch.arange(queries.shape[1]))
    if spe.delta is not None:
        noise = spe.mix(code, draw).noise  # type: ignore[union-attr]
        both = tuple((1 - spe.delta).sqrt().unsqueeze(-1) * part + noise for part in both)  # type: ignore[assignment]
    query_code, key_code = both
    return (queries.unsqueeze(-1) * query_code).sum(-2), (keys.unsqueeze(-1) * key_code).sum(-2)


def make_code(kind: str, heads: int, features: int, realizations: int) -> PositionalCode:
    return SineSPE(heads, features, realizations, 2) if kind == "sine" else ConvSPE(heads, features, realizations, 4)


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(["sine", "conv"]),
    gated=st.booleans(),
    batch=st.integers(1, 3),
    length=st.integers(1, 70),
    heads=st.integers(1, 3),
    features=st.integers(1, 5),
    realizations=st.integers(1, 6),
)
def test_gating_queries_equals_gating_codes(
    kind: str, gated: bool, batch: int, length: int, heads: int, features: int, realizations: int
) -> None:
    code = make_code(kind, heads, features, realizations)
    spe = SPEFilter(gated, code.code_shape)
    queries, keys = torch.randn(2, batch, length, heads, features)
    encoded = spe(queries, keys, code, code.draw(7), torch.arange(length))
    for ours, theirs in zip(encoded, published(spe, queries, keys, code, 7), strict=True):
        assert ours.shape == (batch, length, heads, realizations)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("kind", ["sine", "conv"])
def test_gradients_through_several_layers_equal_plain_autograd(kind: str, gated: bool) -> None:
    code = make_code(kind, 2, 3, 4).double()
    filters = [SPEFilter(gated, code.code_shape, layer).double() for layer in range(3)]
    inputs = torch.randn(3, 2, 2, 150, 2, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(3, 2, 2, 150, 2, 4, dtype=torch.float64)
    draw = code.draw(0)
    trained = [inputs, *code.parameters(), *(p for spe in filters for p in spe.parameters())]

    def gradients(shared: bool) -> tuple[Tensor, ...]:
        built = SharedCode(code, draw, torch.arange(150))
        total = torch.zeros((), dtype=torch.float64)
        for spe, (queries, keys), weight in zip(filters, inputs, weights, strict=True):
            if shared:
                encoded = built.apply(queries, keys, spe.mix(code, draw))
            else:
                encoded = published(spe, queries, keys, code, 0)
            total = total + sum((weight[side] * encoded[side] ** 2).sum() for side in (0, 1))
        return torch.autograd.grad(total, trained)

    for ours, plain in zip(gradients(shared=True), gradients(shared=False), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["sine", "conv"])
def test_gradients_pass_gradcheck(kind: str) -> None:
    code = make_code(kind, 1, 2, 3).double()
    spe = SPEFilter(True, code.code_shape).double()
    queries, keys = torch.randn(2, 1, 5, 1, 2, dtype=torch.float64, requires_grad=True)
    names, values = zip(*[*code.named_parameters(), *spe.named_parameters()], strict=True)

    def encode(queries: Tensor, keys: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        state = dict(zip(names, parameters, strict=True))
        gate = state.pop("gate")
        modules = torch.nn.ModuleDict({"code": code, "spe": spe})

        class Both(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.parts = modules

            def forward(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
                result: tuple[Tensor, Tensor] = spe(queries, keys, code, code.draw(0), torch.arange(5))
                return result

        named = {f"parts.code.{name}": value for name, value in state.items()} | {"parts.spe.gate": gate}
        result: tuple[Tensor, Tensor] = torch.func.functional_call(Both(), named, (queries, keys))
        return result

    assert torch.autograd.gradcheck(encode, (queries, keys, *values))


def test_a_second_backward_gives_the_same_gradients() -> None:
    code = SineSPE(1, 2, 3, 1)
    shared = SharedCode(code, code.draw(0), torch.arange(4))
    queries, keys = torch.randn(2, 1, 4, 1, 2)
    loss = sum(part.square().sum() for part in shared.apply(queries, keys))
    first = torch.autograd.grad(loss, list(code.parameters()), retain_graph=True)
    second = torch.autograd.grad(loss, list(code.parameters()))
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other)


def test_parameters_changed_before_the_backward_pass_are_refused() -> None:
    code = SineSPE(1, 2, 3, 1)
    loss = SharedCode(code, code.draw(0), torch.arange(4)).apply(*torch.randn(2, 1, 4, 1, 2))[0].sum()
    with torch.no_grad():
        code.freqs.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_backward_that_stops_at_the_inputs_leaves_later_gradients_alone() -> None:
    code = ConvSPE(1, 2, 3, 2)
    queries, keys = torch.randn(2, 1, 4, 1, 2, requires_grad=True)

    def gradients(stops_first: bool) -> tuple[Tensor, ...]:
        encoded = SharedCode(code, code.draw(0), torch.arange(4)).apply(queries, keys)
        loss = sum((part.square().sum() for part in encoded), torch.zeros(()))
        if stops_first:
            torch.autograd.grad(loss, [queries, keys], retain_graph=True)
        return torch.autograd.grad(loss, list(code.parameters()))

    for one, other in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_survive_activation_checkpointing(reentrant: bool) -> None:
    code = SineSPE(1, 2, 3, 1)
    inputs = torch.randn(2, 1, 4, 1, 2, requires_grad=True)

    def gradients(checkpointed: bool) -> list[Tensor]:
        code.zero_grad()
        shared = SharedCode(code, code.draw(0), torch.arange(4))
        total = shared.apply(*inputs)[0].square().sum()
        for _ in range(2):
            if checkpointed:
                encoded = torch.utils.checkpoint.checkpoint(shared.apply, *inputs, use_reentrant=reentrant)
            else:
                encoded = shared.apply(*inputs)
            total = total + sum(part.square().sum() for part in encoded)
        total.backward()
        return [parameter.grad.clone() for parameter in code.parameters() if parameter.grad is not None]

    for one, other in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(one, other)


def test_a_built_code_is_let_go_with_its_layers() -> None:
    code = SineSPE(1, 2, 3, 1)
    gc.disable()
    try:
        shared = SharedCode(code, code.draw(0), torch.arange(4))
        built = weakref.ref(shared.query_code)
        loss = shared.apply(*torch.randn(2, 1, 4, 1, 2))[0].sum()
        loss.backward()
        del shared, loss
        assert built() is None, "hundreds of megabytes at the paper's size would wait for the garbage collector"
    finally:
        gc.enable()


@settings(max_examples=20, deadline=None)
@given(length=st.integers(1, 300), start=st.integers(0, 10**6), batch=st.integers(1, 2), gated=st.booleans())
def test_the_factorised_form_agrees_with_the_built_code(length: int, start: int, batch: int, gated: bool) -> None:
    code = SineSPE(2, 3, 4, 5)
    positions = torch.arange(start, start + length)
    queries, keys = torch.randn(2, batch, length, 2, 3)
    draw = code.draw(1)
    mix = SPEFilter(True, code.code_shape).mix(code, draw) if gated else None
    built = SharedCode(code, draw, positions).apply(queries, keys, mix)
    for factorised, expected in zip(
        FactorisedSine(code, draw, positions).apply(queries, keys, mix), built, strict=True
    ):
        torch.testing.assert_close(factorised, expected, rtol=1e-4, atol=1e-5)


def test_encoding_never_builds_a_product_over_batch_length_features_and_realizations() -> None:
    code = SineSPE(2, 8, 16, 1)
    spe = SPEFilter(True, code.code_shape)
    queries, keys = torch.randn(2, 6, 10, 2, 8)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                largest = max(largest, result.numel())
            return result

    with Watch():
        spe(queries, keys, code, code.draw(0), torch.arange(10))
    assert largest <= 10 * 2 * 8 * 16, "larger than one code"


def test_images_are_encoded_on_a_grid() -> None:
    code = ConvSPE(2, 3, 4, 3, ndim=2)
    spe = SPEFilter(True, code.code_shape)
    queries, keys = torch.randn(2, 2, 5, 6, 2, 3, requires_grad=True)
    encoded = spe(queries, keys, code, code.draw(0), (torch.arange(5), torch.arange(6)))
    assert [part.shape for part in encoded] == [(2, 5, 6, 2, 4)] * 2
    (encoded[0] * encoded[1]).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in code.parameters())


def test_shapes_that_do_not_fit_are_named() -> None:
    code = SineSPE(2, 3, 4, 1)
    spe = SPEFilter(True, code.code_shape)
    with pytest.raises(ValueError, match="expected"):
        spe(torch.randn(1, 5, 2, 3), torch.randn(1, 5, 2, 3), code, code.draw(0), torch.arange(4))
    with pytest.raises(ValueError, match="does not fit a code"):
        SPEFilter(True, (2, 9)).mix(code, code.draw(0))
    with pytest.raises(ValueError, match="code_shape"):
        SPEFilter(True)


def test_realizations_may_differ_from_the_default() -> None:
    code = ConvSPE(2, 3, 4, 2)
    assert code.codes(code.draw(0, num_realizations=7), torch.arange(5))[0].shape == (5, 2, 3, 7)
