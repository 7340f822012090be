"""One token of each row through the layers of a model: all of `PerformerLM.step` except the embedding.

At batch 1 the arithmetic of a small model takes less time than calling its modules. So a layer here has as few
operations as possible: about thirty, most of them in the products of packed.py and the attention of recurrent.py.

Design note: every product is computed row by row, or by oneDNN in a layout with the same result. So the bits of a row
do not depend on the other rows of a batch, and a seed gives the same piece in any batch. (The number of threads may
still matter.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from musicgen.attention import AttentionState, FeatureMap, delta_step
from musicgen.attention.recurrent import attend
from musicgen.model.gates import silu_step, unit
from musicgen.model.packed import PackedModel
from musicgen.model.positions import Stream
from musicgen.model.state import LayerState


class Stepper:
    """A model bound to a draw, for one token at a time.

    Args:
        weights: The model's weights.
        features: The feature map of each layer; None with the delta rule.
        encoding: Encodes queries and keys at their positions.
    """

    def __init__(self, weights: PackedModel, features: Sequence[FeatureMap | None], encoding: Stream) -> None:
        self._weights, self._features, self._encoding = weights, features, encoding

    def __call__(
        self, hidden: Tensor, positions: Sequence[float], states: Sequence[LayerState], elapsed: Tensor | None = None
    ) -> tuple[Tensor, tuple[LayerState, ...]]:
        """Run all layers.

        Args:
            hidden: Embedded tokens, `(batch, d_model)`.
            positions: The position of each row.
            states: What each layer remembers.
            elapsed: How far each token is from the one before it, `(batch, 1)`, for the decay; None means 1.

        Returns:
            Logits, `(batch, vocab_size)`, and what each layer remembers now.
        """
        encode = self._encoding(positions)
        elapsed = None if elapsed is None else elapsed.to(hidden)
        after = []
        for index, (layer, features, before) in enumerate(
            zip(self._weights.layers, self._features, states, strict=True)
        ):
            source = layer.norm_attention(hidden) if layer.pre_norm else hidden
            queries_keys, values, recent = layer.project(source, before.recent)
            state: AttentionState
            if layer.delta is not None:
                queries, keys = unit(encode(index, silu_step(queries_keys))).unbind(1)
                gates = layer.delta_gates(layer.delta(source), elapsed)
                attended, memory = delta_step(queries, keys, values, *gates, before.memory)
                state = AttentionState(memory, before.log_scale)
            else:
                features = cast(FeatureMap, features)
                query_features, key_features, key_scale = features.pairs(encode(index, queries_keys))
                decay = layer.log_decay if elapsed is None else layer.log_decay * elapsed
                attended, state = attend(query_features, key_features, values, key_scale, decay, before)
            after.append(LayerState(state.memory, state.log_scale, recent))
            hidden = layer.out.plus(layer.finish(attended.flatten(1), source), hidden)
            hidden = hidden if layer.pre_norm else layer.norm_attention(hidden)
            source = layer.norm_feedforward(hidden) if layer.pre_norm else hidden
            hidden = layer.contract.plus(layer.inner(source), hidden)
            hidden = hidden if layer.pre_norm else layer.norm_feedforward(hidden)
        return self._weights.output(self._weights.last_norm(hidden)), tuple(after)
