"""Rows at positions of their own: the same numbers and gradients as a code for every token would give."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musicgen.spe import ConvSPE, FactorisedSine, PositionalCode, SharedCode, SineSPE, SPEFilter
from musicgen.spe.arrange import ByRow


def make_code(kind: str, heads: int = 2, features: int = 3, realizations: int = 4) -> PositionalCode:
    return SineSPE(heads, features, realizations, 2) if kind == "sine" else ConvSPE(heads, features, realizations, 4)


def naive(spe: SPEFilter, queries: Tensor, keys: Tensor, code: PositionalCode, positions: Tensor) -> list[Tensor]:
    """A gated code for every token of the batch, which is as large as can be."""
    draw = code.draw(7)
    mix = spe.mix(code, draw)
    encoded = []
    for tensor, flat in zip((queries, keys), code.codes(draw, positions.flatten()), strict=True):
        whole = flat.unflatten(0, positions.shape)  # (batch, length, H, D, R)
        if mix is not None:
            whole = mix.weight.unsqueeze(-1) * whole + mix.noise
        encoded.append((tensor.unsqueeze(-1) * whole).sum(-2))
    return encoded


def positions_for(batch: int, length: int, seed: int, most: int) -> Tensor:
    """Repeats inside rows and between them, jumps, and any order."""
    generator = torch.Generator().manual_seed(seed)
    positions = torch.randint(most + 1, (batch, length), generator=generator).double()
    return positions.where(torch.rand(batch, length, generator=generator) > 0.1, positions + 5000)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["sine", "conv"]),
    gated=st.booleans(),
    batch=st.integers(1, 4),
    length=st.integers(1, 40),
    most=st.integers(0, 60),
    seed=st.integers(0, 1000),
)
def test_encoding_by_row_equals_a_code_for_every_token(
    kind: str, gated: bool, batch: int, length: int, most: int, seed: int
) -> None:
    code = make_code(kind)
    spe = SPEFilter(gated, code.code_shape)
    queries, keys = torch.randn(2, batch, length, 2, 3)
    positions = positions_for(batch, length, seed, most)
    with torch.no_grad():
        expected = naive(spe, queries, keys, code, positions)
        forms = [SharedCode(code, code.draw(7), positions)]
        forms += [FactorisedSine(code, code.draw(7), positions)] if isinstance(code, SineSPE) else []  # type: ignore[list-item]
        for form in forms:
            for ours, true in zip(form.apply(queries, keys, spe.mix(code, code.draw(7))), expected, strict=True):
                torch.testing.assert_close(ours, true, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("kind", ["sine", "conv"])
def test_gradients_by_row_through_several_layers_equal_plain_autograd(kind: str, gated: bool) -> None:
    code = make_code(kind).double()
    filters = [SPEFilter(gated, code.code_shape, layer).double() for layer in range(3)]
    inputs = torch.randn(3, 2, 2, 150, 2, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(3, 2, 2, 150, 2, 4, dtype=torch.float64)
    positions = positions_for(2, 150, 1, 90)
    trained = [inputs, *code.parameters(), *(p for spe in filters for p in spe.parameters())]
    built = SharedCode(code, code.draw(7), positions)

    def gradients(shared: bool) -> tuple[Tensor, ...]:
        total = torch.zeros((), dtype=torch.float64)
        for spe, (queries, keys), weight in zip(filters, inputs, weights, strict=True):
            if shared:
                encoded = list(built.apply(queries, keys, spe.mix(code, code.draw(7))))
            else:
                encoded = naive(spe, queries, keys, code, positions)
            total = total + sum((weight[side] * encoded[side] ** 2).sum() for side in (0, 1))
        return torch.autograd.grad(total, trained)

    for ours, plain in zip(gradients(shared=True), gradients(shared=False), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-8, atol=1e-8)


def test_a_code_is_built_once_for_each_distinct_position() -> None:
    code = make_code("sine")
    positions = torch.tensor([[0.0, 0.0, 1.5, 9.0], [9.0, 9.0, 9.0, 0.0]])
    assert SharedCode(code, code.draw(0), positions).query_code.shape == (3, 2, 3, 4)


@settings(max_examples=50, deadline=None)
@given(batch=st.integers(1, 5), length=st.integers(1, 60), most=st.integers(0, 40), seed=st.integers(0, 99))
def test_every_token_has_a_slot_of_its_own_and_little_is_padding(batch: int, length: int, most: int, seed: int) -> None:
    arrangement = ByRow(positions_for(batch, length, seed, most))
    tokens = torch.arange(1, batch * length + 1).float().reshape(batch, length, 1, 1)
    slots = arrangement.rows(tokens).flatten()
    assert sorted(slots[slots > 0].tolist()) == tokens.flatten().tolist()
    assert len(slots) <= 1.5 * batch * length


def test_rows_that_do_not_fit_the_positions_are_named() -> None:
    code = make_code("sine")
    shared = SharedCode(code, code.draw(0), torch.zeros(2, 5))
    with pytest.raises(ValueError, match=r"queries of shape \(3, 5, 2, 3\) do not match the code"):
        shared.apply(torch.zeros(3, 5, 2, 3), torch.zeros(2, 5, 2, 3))
