"""A draw is addressable: the same numbers however they are asked for."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.spe import ConvSPE, Draw, PositionalCode, SineSPE
from musicgen.spe.draw import Stream


def make_codes() -> list[PositionalCode]:
    torch.manual_seed(0)
    return [SineSPE(2, 3, 4, 2), ConvSPE(2, 3, 4, 5), ConvSPE(2, 3, 4, 1)]


CODES = make_codes()


@pytest.mark.parametrize("code", CODES, ids=["sine", "conv", "conv1"])
@settings(max_examples=40, deadline=None)
@given(positions=st.lists(st.integers(-50, 400), min_size=1, max_size=12), seed=st.integers(0, 2**40))
def test_a_position_has_one_code_in_any_window_order_and_chunking(
    code: PositionalCode, positions: list[int], seed: int
) -> None:
    draw = code.draw(seed)
    asked = torch.tensor(positions)
    together = code.codes(draw, asked)
    for index, position in enumerate(positions):
        window = code.codes(draw, torch.arange(position - 2, position + 3))
        for whole, part in zip(together, window, strict=True):
            torch.testing.assert_close(whole[index], part[2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("code", CODES[:2], ids=["sine", "conv"])
def test_seeds_and_codes_far_apart_differ(code: PositionalCode) -> None:
    first, second = (code.codes(code.draw(seed), torch.arange(3))[0] for seed in (0, 1))
    assert not torch.allclose(first, second)


def test_conv_codes_at_positions_far_apart_need_no_window_between_them() -> None:
    code = CODES[1]
    draw = code.draw(0)
    far = code.codes(draw, torch.tensor([10**7, 0, 10**7]))
    near = code.codes(draw, torch.tensor([10**7]))
    torch.testing.assert_close(far[0][0], near[0][0])
    torch.testing.assert_close(far[0][0], far[0][2])


def test_sine_phases_are_exact_at_position_ten_million() -> None:
    code = SineSPE(2, 3, 4, 2).requires_grad_(False)
    positions = torch.tensor([10_000_000, 10_000_001])
    draw = code.draw(0, num_realizations=12, noise="exact")
    query, key = code.codes(draw, positions)
    # Neighbours are related there as at the origin, on both sides; with float32 phases they are not.
    for m, n in ((1, 0), (0, 1), (1, 1)):
        products = torch.einsum("hdr,hdr->hd", query[m], key[n]) / (12 / 3) ** 0.5
        torch.testing.assert_close(products, code.kernel(torch.tensor([m - n]))[..., 0], rtol=1e-5, atol=1e-5)
    # ... and each code is what exact arithmetic on the same frequencies gives.
    turns = code.frequencies.double() * 10_000_000
    cosine = torch.cos(2 * math.pi * turns).float() * code.amplitudes * (12 / 4) ** 0.5 / (12 * 3) ** 0.25
    torch.testing.assert_close(key[0, 0, 0, :2], cosine[0, 0], rtol=1e-4, atol=1e-5)


def test_sine_takes_real_positions() -> None:
    code = SineSPE(1, 4, 8, 1)
    draw = code.draw(0, num_realizations=8, noise="exact")
    query, key = code.codes(draw, torch.tensor([0.25, 7.75]))
    products = torch.einsum("hdr,hdr->hd", query[1], key[0]) / (8 / 4) ** 0.5
    torch.testing.assert_close(products, code.kernel(torch.tensor([7.5]))[..., 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("code", CODES[:2], ids=["sine", "conv"])
def test_no_positions_have_no_codes(code: PositionalCode) -> None:
    query, key = code.codes(code.draw(0), torch.arange(0))
    assert query.shape == key.shape == (0, 2, 3, 4)


def test_conv_refuses_real_positions() -> None:
    with pytest.raises(ValueError, match="whole positions"):
        CODES[1].codes(CODES[1].draw(0), torch.tensor([0.5]))


@pytest.mark.parametrize("rows", [3, 8, 20])
def test_orthogonal_noise_is_orthogonal_in_blocks_and_white_on_average(rows: int) -> None:
    noise = torch.stack([Draw(seed, 8, "orthogonal").rows(Stream.CODE, (0,), 1, rows)[0] for seed in range(800)])
    gram = noise @ noise.transpose(-1, -2) / 8
    block = min(rows, 8)
    torch.testing.assert_close(gram[:, :block, :block], torch.eye(block).expand(800, -1, -1), rtol=0, atol=1e-5)
    torch.testing.assert_close(gram.mean(0), torch.eye(rows), rtol=0, atol=0.08)


def test_a_bad_draw_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="num_realizations"):
        Draw(0, 0)
    with pytest.raises(ValueError, match="noise must be one of gaussian, orthogonal, exact"):
        Draw(0, 4, "pink")  # type: ignore[arg-type]
