"""Attention maps of a model on a piece, which a linear Transformer never computes, and their colours.

Design note: the hidden states are those of the real forward pass, whose attention uses random features. A map shows
either the softmax attention of these hidden states (`exact`, as in the paper's figures) or the attention that the
features gave (`features`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from musicgen.attention import FeatureMap, attention_map
from musicgen.attention.state import passed_steps
from musicgen.errors import UserError
from musicgen.model import PerformerLM
from musicgen.model.layers import PerformerLayer
from musicgen.model.positions import Encoder
from musicgen.spe import Draw

MapKind = Literal["exact", "features"]
Levels = NDArray[np.uint8]
BRIGHTEST = 0.02  # attention from which colours are the brightest
POWER = 0.4


class AttendingLayer:
    """A layer as it read a piece: `hidden` is what went into it, `(1, length, d_model)`.

    Its decay counts `elapsed`, `(1, length)`, or 1 per token.
    """

    def __init__(
        self,
        layer: PerformerLayer,
        hidden: Tensor,
        encoder: Encoder,
        features: FeatureMap,
        elapsed: Tensor | None = None,
    ) -> None:
        queries, keys, _, _ = layer.queries_keys_values(layer.attention_input(hidden))
        self.queries, self.keys = encoder(layer.index, queries, keys)
        """Encoded, `(1, length, heads, E)`."""
        self._features, self._elapsed = features, elapsed
        self._log_decay = hidden.new_zeros(layer.heads) if layer.decay is None else layer.decay()

    @torch.no_grad()
    def map(self, head: int, kind: MapKind = "exact") -> Tensor:
        """Attention of a head, `(queries, keys)`; rows sum to one. With ReLU features a row may be 0."""
        queries, keys, log_decay = self.queries[:, :, head], self.keys[:, :, head], self._log_decay[head]
        if kind == "exact":
            decays = None if log_decay == 0 else log_decay[None]
            return attention_map(queries.unsqueeze(2), keys.unsqueeze(2), log_decay=decays, elapsed=self._elapsed)[0, 0]
        query_features = self._features.queries(queries[0])
        key_features, key_scale = self._features.keys(keys[0])
        steps = passed_steps(len(query_features), self._elapsed, query_features).flatten()
        lags = (steps[:, None] - steps).to(query_features)
        logarithms = lags * log_decay if key_scale is None else key_scale + lags * log_decay
        later = torch.ones(len(steps), len(steps), dtype=torch.bool).triu_(1)
        logarithms = logarithms.masked_fill_(later, -torch.inf)
        # As in the model's own sums, a factor of each row is taken out: it cancels, and the rest does not underflow.
        weights = (logarithms - logarithms.amax(-1, keepdim=True)).exp_() * (query_features @ key_features.T)
        return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def check_weights(model: PerformerLM) -> None:
    """Check that a model weighs keys.

    Raises:
        UserError: It does not: the delta rule has no attention weights.
    """
    if model.config.attention == "delta":
        raise UserError("the delta rule (model.attention=delta) has no attention weights: evaluate a linear model")


@torch.no_grad()
def attending_layers(
    model: PerformerLM, tokens: Sequence[int], draw: Draw, layers: Sequence[int], times: Tensor | None = None
) -> dict[int, AttendingLayer]:
    """Run a model on a piece, and keep the inputs of some of its layers, counted from 0.

    A model that works in musical time needs `times`, `(1, length)`.

    Raises:
        UserError: The model has no attention weights.
    """
    check_weights(model)
    kept: dict[int, AttendingLayer] = {}

    def keep(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        layer = cast(PerformerLayer, module)
        hidden, encoder, features, _, _, _, elapsed = arguments
        kept[layer.index] = AttendingLayer(layer, hidden, encoder, features, elapsed)

    handles = [model.layers[number].register_forward_pre_hook(keep) for number in layers]
    try:
        model(torch.tensor([list(tokens)]), draw, times=times)
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
    """The attention of each level; the last level stands for all larger values too."""
    return [BRIGHTEST * (level / 255) ** (1 / POWER) for level in range(256)]


def pooled(levels: Levels, side: int) -> Levels:
    """A square map made smaller, to at most `side` rows. Each cell has the largest value of the cells it replaces."""
    length = len(levels)
    factor = -(-length // side)
    cells = -(-length // factor)
    whole = np.zeros((cells * factor, cells * factor), np.uint8)
    whole[:length, :length] = levels
    smaller: Levels = whole.reshape(cells, factor, cells, factor).max((1, 3))
    return smaller
