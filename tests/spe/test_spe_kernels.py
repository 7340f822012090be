"""Kernels in closed form and in expectation: the closed forms a re-implementation can be held to."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from musicgen.spe import ConvSPE, NoiseKind, PositionalCode, SineSPE, SPEFilter

REALIZATIONS = 20_000
TOLERANCE = 0.06  # six standard errors of a mean of 20 000 products of unit variance, and a little


def products(code: PositionalCode, positions: Tensor, noise: NoiseKind = "gaussian", seed: int = 0) -> Tensor:
    """Σ_r q̄_r(m)·k̄_r(n) with the published scale divided out, (H, D, m, n): an estimate of P_d(m−n)."""
    draw = code.draw(seed, REALIZATIONS, noise)
    query, key = (part.detach() for part in code.codes(draw, positions))
    return torch.einsum("mhdr,nhdr->hdmn", query, key) / math.sqrt(REALIZATIONS / code.in_features)


def expected(code: PositionalCode, positions: Tensor) -> Tensor:
    lags = positions[:, None] - positions[None, :]
    return code.kernel(lags.flatten()).unflatten(-1, lags.shape).detach()


@pytest.mark.parametrize("offset", [0, 5_000])
@pytest.mark.parametrize("code", [SineSPE(2, 3, 4, 5), SineSPE(1, 4, 4, 1), ConvSPE(2, 3, 4, 6)])
def test_codes_meet_their_kernel_in_expectation_at_any_offset(code: PositionalCode, offset: int) -> None:
    positions = torch.arange(10) + offset
    torch.testing.assert_close(products(code, positions), expected(code, positions), rtol=0, atol=TOLERANCE)


def test_orthogonal_noise_meets_the_kernel_too() -> None:
    code = ConvSPE(1, 2, 4, 3)
    positions = torch.arange(5)
    draws = [code.codes(code.draw(seed, 16, "orthogonal"), positions) for seed in range(1_500)]
    query, key = (torch.cat(parts, -1).detach() for parts in zip(*draws, strict=True))
    estimate = torch.einsum("mhdr,nhdr->hdmn", query, key) / 1_500 / math.sqrt(16 / 2)
    torch.testing.assert_close(estimate, expected(code, positions), rtol=0, atol=TOLERANCE)


def test_the_sine_kernel_is_the_mean_of_cosines_with_the_one_over_two_k() -> None:
    code = SineSPE(1, 1, 4, 2).requires_grad_(False)
    for lag in (0.0, 1.0, -3.0, 100.0):
        by_hand = sum(
            float(amplitude) ** 2 * math.cos(2 * math.pi * float(frequency) * lag + float(offset)) / 4
            for amplitude, frequency, offset in zip(
                code.amplitudes[0, 0], code.frequencies[0, 0], code.offsets[0, 0], strict=True
            )
        )
        assert code.kernel(torch.tensor([lag])).item() == pytest.approx(by_hand, abs=1e-5)


def test_the_conv_kernel_is_the_correlation_of_its_filters_and_vanishes_beyond_them() -> None:
    code = ConvSPE(1, 1, 4, 5).requires_grad_(False)
    query, key = code.query_filter[0, 0], code.key_filter[0, 0]
    for lag in range(-8, 9):
        by_hand = sum(float(key[p] * query[p + lag]) for p in range(5) if 0 <= p + lag < 5)
        value = code.kernel(torch.tensor([lag])).item()
        assert value == pytest.approx(by_hand, abs=1e-6)
        if abs(lag) >= 5:
            assert value == 0


@pytest.mark.parametrize("kernel_size", [3, (2, 4)])
def test_two_dimensional_conv_meets_its_kernel(kernel_size: int | tuple[int, int]) -> None:
    code = ConvSPE(1, 2, 4, kernel_size, ndim=2)
    grid = (torch.arange(4) + 6, torch.arange(5))
    query, key = (part.detach().flatten(0, 1) for part in code.codes(code.draw(1, REALIZATIONS), grid))
    estimate = torch.einsum("mhdr,nhdr->hdmn", query, key) / math.sqrt(REALIZATIONS / 2)
    kernel = code.kernel((torch.arange(-3, 4), torch.arange(-4, 5))).detach()
    points = list(itertools.product(range(4), range(5)))
    for (m, first), (n, second) in itertools.product(enumerate(points), repeat=2):
        lag = kernel[:, :, first[0] - second[0] + 3, first[1] - second[1] + 4]
        torch.testing.assert_close(estimate[:, :, m, n], lag, rtol=0, atol=TOLERANCE)


def test_three_dimensional_conv_has_its_variance_and_its_window_is_consistent() -> None:
    code = ConvSPE(1, 2, 4, 2, ndim=3)
    draw = code.draw(0, REALIZATIONS)
    axes = (torch.arange(3), torch.arange(2) - 4, torch.arange(2))
    query, key = code.codes(draw, axes)
    assert query.shape == (3, 2, 2, 1, 2, REALIZATIONS)
    variance = (query * key).sum(-1).detach() / math.sqrt(REALIZATIONS / 2)
    zero = torch.zeros(1, dtype=torch.long)
    torch.testing.assert_close(
        variance,
        code.kernel((zero, zero, zero)).detach().reshape(1, 2).expand_as(variance),
        rtol=0,
        atol=TOLERANCE,
    )
    part = code.codes(draw, (axes[0][1:], axes[1][:1], axes[2]))[0]
    torch.testing.assert_close(part, query[1:, :1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [1, 40, 700])
def test_fft_toeplitz_and_grouped_convolution_agree(length: int) -> None:
    from musicgen.spe import conv

    code = ConvSPE(1, 2, 3, 17)
    noise = torch.randn(length + 16, 1, 2, 3)
    prepared = code.prepare(code.draw(0))
    fft = conv._fft_convolutions(noise, prepared[:2])
    for weights, matrices, transformed in zip(prepared[:2], prepared[2:], fft, strict=True):
        direct = conv._direct_convolution(noise, weights)
        torch.testing.assert_close(conv._toeplitz_convolution(noise, matrices), direct, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(transformed, direct, rtol=1e-4, atol=1e-5)


def test_long_filters_go_by_fft_and_short_ones_do_not() -> None:
    from musicgen.spe.conv import fft_is_cheaper

    assert not fft_is_cheaper((2048 + 127,), (128,))
    assert fft_is_cheaper((2048 + 2047,), (2048,))


@pytest.mark.parametrize(("gate", "share"), [(-40.0, 0.0), (0.0, 0.5), (40.0, 1.0)])
def test_a_gate_mixes_the_kernel_with_one(gate: float, share: float) -> None:
    code = SineSPE(2, 3, 4, 2)
    spe = SPEFilter(gated=True, code_shape=code.code_shape)
    assert spe.gate is not None
    torch.nn.init.constant_(spe.gate, gate)
    lags = torch.arange(-4, 5)
    mixed = share + (1 - share) * code.kernel(lags)
    torch.testing.assert_close(code.kernel(lags, gate=spe), mixed)

    # ... and encoded unit queries and keys meet the mixed kernel in expectation: Σ_d P_d/√D·√R.
    draw = code.draw(0, REALIZATIONS)
    basis = torch.eye(3).repeat(2, 1, 1)  # one feature at a time: (H, batch = D, D)
    queries = basis.permute(1, 0, 2).unsqueeze(1).expand(3, 9, 2, 3)
    encoded_queries, encoded_keys = spe(queries, queries, code, draw, torch.arange(9))
    estimate = torch.einsum("dnhr,dhr->hdn", encoded_queries, encoded_keys[:, 4]) / math.sqrt(REALIZATIONS / 3)
    torch.testing.assert_close(estimate.detach(), mixed.detach(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("gated", [True, False])
def test_exact_noise_has_no_error_at_all(gated: bool) -> None:
    code = SineSPE(2, 3, 4, 2)
    spe = SPEFilter(gated, code.code_shape)
    rows = code.noise_rows + (3 if gated else 0)
    draw = code.draw(0, rows + 2, "exact")
    queries, keys = torch.randn(2, 1, 9, 2, 3)
    encoded_queries, encoded_keys = spe(queries, keys, code, draw, torch.arange(9))
    logits = torch.einsum("bmhr,bnhr->bhmn", encoded_queries, encoded_keys) / math.sqrt(rows + 2)
    positions = torch.arange(9)
    lags = positions[:, None] - positions[None, :]
    kernel = code.kernel(lags.flatten(), gate=spe).unflatten(-1, (9, 9))
    true = torch.einsum("bmhd,hdmn,bnhd->bhmn", queries, kernel, keys) / math.sqrt(3)
    torch.testing.assert_close(logits, true, rtol=1e-4, atol=1e-5)


def test_exact_noise_with_too_few_realizations_says_how_many_it_needs() -> None:
    code = SineSPE(1, 3, 4, 2)
    with pytest.raises(ValueError, match="num_realizations >= 12"):
        code.codes(code.draw(0, 11, "exact"), torch.arange(2))
    with pytest.raises(ValueError, match="num_realizations >= 15"):
        SPEFilter(True, (1, 3)).mix(code, code.draw(0, 14, "exact"))
    conv = ConvSPE(1, 3, 4, 2)
    with pytest.raises(ValueError, match="no exact noise"):
        SPEFilter(True, (1, 3)).mix(conv, conv.draw(0, 99, "exact"))


def test_initial_statistics_are_the_published_ones() -> None:
    sine = SineSPE(16, 512, 4, 5)
    assert sine.frequencies.median().item() == pytest.approx(0.009, abs=0.0003)
    assert sine.amplitudes.mean().item() == pytest.approx(0.88, abs=0.01)
    assert sine.kernel(torch.tensor([0])).mean().item() == pytest.approx(0.375, abs=0.01)
    conv = ConvSPE(16, 64, 4, 128)
    assert conv.kernel(torch.tensor([0])).mean().item() == pytest.approx(0.5, abs=0.01)
    assert SPEFilter(True, (64, 64)).delta.mean().item() == pytest.approx(0.5, abs=0.01)  # type: ignore[union-attr]
