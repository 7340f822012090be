"""Identical-token probing: what the first layer attends to in a piece of one repeated token.

Only the encoding distinguishes the positions of such a piece, so its attention shows the encoding alone.

Design note: only the windows of a map that the metrics use are computed, in blocks of queries and in double precision.
Queries and keys are exactly the model's own, and their products add no further rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from torch import Tensor

from musicgen.evaluation.encoding.maps import check_weights
from musicgen.evaluation.encoding.metrics import Floats
from musicgen.model import PerformerLM
from musicgen.model.layers import PerformerLayer
from musicgen.spe import Draw

ROWS = 256  # queries that meet their keys in one product


class Probe:
    """The first layer of a model, at the positions 0 to `length` − 1."""

    @torch.no_grad()
    def __init__(self, model: PerformerLM, draw: Draw, length: int) -> None:
        check_weights(model)
        self._model, self._positions = model, torch.arange(length)
        self._layer = cast(PerformerLayer, model.layers[0])
        self._encoder = model.encoding.encoder(draw, self._positions, model.embedding.weight)

    @torch.no_grad()
    def queries_and_keys(self, tokens: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Encoded queries and keys of each token at all positions, `(tokens, length, heads, E)`."""
        config = self._model.config
        hidden = self._model.embedding(torch.tensor(tokens)).unsqueeze(1) * math.sqrt(config.d_model)
        hidden = self._model.encoding.add_to(hidden, self._positions)
        if self._layer.short_conv is not None:  # the first tokens have none before them
            hidden = hidden.expand(-1, len(self._positions), -1)
        projected = self._layer.queries_keys_values(self._layer.attention_input(hidden))[:2]
        queries, keys = (tensor.expand(-1, len(self._positions), -1, -1) for tensor in projected)
        return self._encoder(0, queries, keys)

    @torch.no_grad()
    def windows(self, queries: Tensor, keys: Tensor, low: int, high: int, width: int) -> Floats:
        """Logarithms of unnormalised attention, exp(q·k/√E) and, if there is a decay, times γ^lag.

        Args:
            queries: As `queries_and_keys` gives them.
            keys: As it gives them.
            low: The first query.
            high: One past the last query.
            width: Keys of each: its own position is the last, and the others come right before it.

        Returns:
            `(tokens, heads, queries, width)`; −inf where there is no key.
        """
        left, right = (tensor.double().transpose(1, 2).numpy() for tensor in (queries[:, low:high], keys[:, :high]))
        right = np.pad(right, ((0, 0), (0, 0), (width - 1, 0), (0, 0)))  # position n stands at n + width − 1
        windows = np.empty((*left.shape[:-1], width))
        for start in range(low, high, ROWS):
            stop = min(start + ROWS, high)
            rows = slice(start - low, stop - low)
            products = left[..., rows, :] @ right[..., start : stop + width - 1, :].swapaxes(-1, -2)
            *outer, row, column = products.strides
            shape = windows[..., rows, :].shape
            windows[..., rows, :] = as_strided(products, shape, (*outer, row + column, column), writeable=False)
        windows *= queries.shape[-1] ** -0.5
        if self._layer.decay is not None:
            lags = np.arange(width - 1, -1, -1)
            windows += self._layer.decay().double().numpy()[:, None, None] * lags
        keys_at = np.arange(low, high)[:, None] - np.arange(width - 1, -1, -1)
        windows[..., keys_at < 0] = -np.inf
        return windows
