"""Learned positional kernels, in closed form and as draws of noise approximate them.

Design note: kernels are shown before any gate, as all layers share them and as the paper shows them. The gates differ
from layer to layer; they are one number for each feature, δ, and are shown separately.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from musicgen.model import PerformerLM
from musicgen.model.layers import PerformerLayer
from musicgen.model.positions.stochastic import StochasticEncoding
from musicgen.spe import PositionalCode, SPEFilter

BLOCK = 256  # positions whose codes are in memory at a time
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Templates:
    """Some kernels P_d of a model.

    Attributes:
        picks: Head and feature of each, counted from 1.
        lags: From −N to N.
        closed: P_d at these lags, `(picks, lags)`.
        realised: The same from draws, `(draws, picks, lags)`: Q̄·k̄ for the key at position N.
        matrices: Q̄K̄ᵀ from the first draw at the first positions, `(picks, queries, keys)`.
    """

    picks: Sequence[tuple[int, int]]
    lags: NDArray[np.int64]
    closed: Floats
    realised: Floats
    matrices: Floats

    def errors(self) -> Floats:
        """How far a draw is from the closed form: root mean square over draws and lags, `(picks,)`."""
        return np.sqrt(np.square(self.realised - self.closed).mean((0, 2)))

    def expected(self) -> Floats:
        """The closed form of `matrices`."""
        size = self.matrices.shape[-1]
        lags = np.subtract.outer(np.arange(size), np.arange(size))
        return self.closed[:, lags + len(self.lags) // 2]


def choose(heads: Sequence[int], features: Sequence[int], many: int, seed: int) -> list[tuple[int, int]]:
    """At most `many` pairs of heads and features, in order; picked at random if there are more."""
    pairs = list(itertools.product(heads, features))
    if len(pairs) <= many:
        return pairs
    chosen = np.random.default_rng(seed).choice(len(pairs), many, replace=False)
    return [pairs[number] for number in sorted(chosen.tolist())]


@torch.no_grad()
def templates(
    model: PerformerLM, picks: Sequence[tuple[int, int]], reach: int, side: int, draws: int, seed: int
) -> Templates:
    """Kernels of a model with SPE; those of its first layer if each layer has its own.

    Picks are heads and features, counted from 1. Lags go from −`reach` to `reach`, matrices have `side` queries and
    keys, and the first draw has the seed `seed`, each further one the next.
    """
    code = cast(PositionalCode, model.encoding.codes[0])
    rows = [head - 1 for head, _ in picks], [feature - 1 for _, feature in picks]
    lags = torch.arange(-reach, reach + 1)
    realised, matrices = [], []
    for number in range(draws):
        queries, keys = _codes(model, code, rows, 2 * reach + 1, seed + number)
        realised.append(torch.einsum("mpr,pr->pm", queries, keys[reach]).numpy())
        if number == 0:
            matrices = list(torch.einsum("mpr,npr->pmn", queries[:side], keys[:side]).numpy())
    closed = code.kernel(lags)[rows].double().numpy()
    return Templates(picks, lags.numpy(), closed, np.stack(realised), np.stack(matrices))


def _codes(
    model: PerformerLM, code: PositionalCode, rows: tuple[list[int], list[int]], length: int, seed: int
) -> tuple[Tensor, Tensor]:
    """q̄ and k̄ of some heads and features, `(length, picks, R)`, scaled so that the mean of their products is P_d."""
    draw = cast(StochasticEncoding, model.encoding).draws(model.draw(seed))[0]
    prepared = code.prepare(draw)
    parts = [
        [side[:, rows[0], rows[1]].double() for side in code.codes_from(prepared, draw, block)]
        for block in torch.arange(length).split(BLOCK)
    ]
    scale = (code.in_features / draw.num_realizations) ** 0.25
    queries, keys = (torch.cat(blocks) * scale for blocks in zip(*parts, strict=True))
    return queries, keys


def gates(model: PerformerLM) -> Floats | None:
    """δ of each layer, head and feature, `(layers, heads, features)`; None if there are no gates."""
    filters = (cast(SPEFilter, layer_filter) for layer_filter in model.encoding.filters)
    deltas = [layer_filter.delta for layer_filter in filters]
    known = [delta.detach().double() for delta in deltas if delta is not None]
    return torch.stack(known).numpy() if known else None


def decays(model: PerformerLM) -> Floats | None:
    """γ of each layer and head, `(layers, heads)`; None if there is no decay."""
    layers = (cast(PerformerLayer, layer) for layer in model.layers)
    rates = [layer.decay().detach().double().exp() for layer in layers if layer.decay is not None]
    return torch.stack(rates).numpy() if rates else None
