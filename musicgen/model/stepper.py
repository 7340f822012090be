"""One token of each row through the layers of a model: the whole of `PerformerLM.step` but the embedding.

At batch 1 the arithmetic of a small model takes less time than calling its modules, so a layer here is as few
operations as it can be: about thirty, most of them in the products of packed.py and the attention of recurrent.py.

The hard choice: every product is made row by row, or by oneDNN in a layout where it comes to the same. So what
a row becomes, to the bit, does not depend on the rows beside it, on how many they are or where in their pieces: a batch
of pieces is the pieces, and a piece can be told from its seed whatever it was written along with. (The number of
threads may still matter.)
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from musicgen.attention import AttentionState, FeatureMap
from musicgen.attention.recurrent import attend
from musicgen.model.encoding import StreamingEncoding
from musicgen.model.packed import PackedModel


class Stepper:
    """A model bound to a draw, for one token at a time.

    Args:
        weights: The model's.
        features: The feature map of each layer.
        encoding: How queries and keys meet their positions.
    """

    def __init__(self, weights: PackedModel, features: Sequence[FeatureMap], encoding: StreamingEncoding) -> None:
        self._weights, self._features, self._encoding = weights, features, encoding

    def __call__(
        self, hidden: Tensor, positions: Sequence[int], states: Sequence[AttentionState]
    ) -> tuple[Tensor, tuple[AttentionState, ...]]:
        """Run all layers.

        Args:
            hidden: Embedded tokens, `(batch, d_model)`.
            positions: Of each row.
            states: What each layer's attention remembers.

        Returns:
            Logits, `(batch, vocab_size)`, and what each layer's attention remembers now.
        """
        batch, width = hidden.shape
        heads = states[0].log_scale.shape[1]
        encode = self._encoding.encoder(positions)
        after = []
        for index, (layer, features, before) in enumerate(
            zip(self._weights.layers, self._features, states, strict=True)
        ):
            projected = layer.project(hidden)
            queries_keys = projected[:, : 2 * width].view(batch, 2, heads, -1)
            values = projected[:, 2 * width :].view(batch, heads, -1)
            query_features, key_features, key_scale = features.pairs(encode(index, queries_keys))
            attended, state = attend(query_features, key_features, values, key_scale, layer.log_decay, before)
            after.append(state)
            hidden = layer.norm_attention(layer.out.plus(attended.view(batch, width), hidden))
            hidden = layer.norm_feedforward(layer.contract.plus(layer.expand.relu(hidden), hidden))
        return self._weights.output(hidden), tuple(after)
