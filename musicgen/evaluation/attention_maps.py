"""Attention maps of a model on a piece, which a linear Transformer never forms, and how they are coloured.

The hard choice: hidden states are those of the real forward pass, whose attention is that of random features. What a
map shows is the attention that such hidden states stand for (`exact`, as the paper's figures have it) or the attention
that the features really gave (`features`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from musicgen.attention import FeatureMap, attention_map
from musicgen.model import PerformerLM
from musicgen.model.encoding import Encoder
from musicgen.model.layers import PerformerLayer
from musicgen.spe import Draw

MapKind = Literal["exact", "features"]
Levels = NDArray[np.uint8]
BRIGHTEST = 0.02  # attention from which colours are the brightest
POWER = 0.4


class AttendingLayer:
    """A layer as it read a piece.

    Args:
        layer: The layer.
        hidden: What went into it, `(1, length, d_model)`.
        encoder: Encodes its queries and keys.
        features: Its feature map.
    """

    def __init__(self, layer: PerformerLayer, hidden: Tensor, encoder: Encoder, features: FeatureMap) -> None:
        queries, keys = layer.project_queries_keys(hidden).unflatten(-1, (2, layer.heads, -1)).unbind(-3)
        self.queries, self.keys = encoder(layer.index, queries, keys)
        """Encoded, `(1, length, heads, E)`."""
        self._features = features
        self._log_decay = hidden.new_zeros(layer.heads) if layer.decay is None else layer.decay()

    @torch.no_grad()
    def map(self, head: int, kind: MapKind = "exact") -> Tensor:
        """Attention of a head, `(queries, keys)`; rows sum to one. With ReLU features a row may be 0."""
        queries, keys, log_decay = self.queries[:, :, head], self.keys[:, :, head], self._log_decay[head]
        if kind == "exact":
            decays = None if log_decay == 0 else log_decay[None]
            return attention_map(queries.unsqueeze(2), keys.unsqueeze(2), log_decay=decays)[0, 0]
        query_features = self._features.queries(queries[0])
        key_features, key_scale = self._features.keys(keys[0])
        steps = torch.arange(len(query_features))
        lags = steps[:, None] - steps
        logarithms = lags * log_decay if key_scale is None else key_scale + lags * log_decay
        logarithms = logarithms.masked_fill_(lags < 0, -torch.inf)
        # As in the model's own sums, a factor of each row is taken out: it cancels, and the rest does not underflow.
        weights = (logarithms - logarithms.amax(-1, keepdim=True)).exp_() * (query_features @ key_features.T)
        return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


@torch.no_grad()
def attending_layers(
    model: PerformerLM, tokens: Sequence[int], draw: Draw, layers: Sequence[int]
) -> dict[int, AttendingLayer]:
    """Let a model read a piece, and keep how some of its layers, counted from 0, did."""
    kept: dict[int, AttendingLayer] = {}

    def keep(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        layer = cast(PerformerLayer, module)
        kept[layer.index] = AttendingLayer(layer, *arguments[:3])

    handles = [model.layers[number].register_forward_pre_hook(keep) for number in layers]
    try:
        model(torch.tensor([list(tokens)]), draw)
    finally:
        for handle in handles:
            handle.remove()
    return kept


def shade(attention: float) -> float:
    """The paper's colour of an attention value, min(1, a^0.4 / 0.02^0.4), from 0 to 255."""
    return 255 * min(1.0, (attention / BRIGHTEST) ** POWER)


def to_levels(attention: Tensor) -> Levels:
    """The `shade` of each value, as a whole number."""
    shades = attention.div(BRIGHTEST).pow_(POWER).clamp_max_(1).mul_(255).round_()
    levels: Levels = shades.to(torch.uint8).numpy()
    return levels


def level_values() -> list[float]:
    """The attention that each level stands for; the last one for all from there on."""
    return [BRIGHTEST * (level / 255) ** (1 / POWER) for level in range(256)]


def pooled(levels: Levels, side: int) -> Levels:
    """A square map made smaller, to at most `side` rows, of which each cell has the largest of those it stands for."""
    length = len(levels)
    factor = -(-length // side)
    cells = -(-length // factor)
    whole = np.zeros((cells * factor, cells * factor), np.uint8)
    whole[:length, :length] = levels
    smaller: Levels = whole.reshape(cells, factor, cells, factor).max((1, 3))
    return smaller
