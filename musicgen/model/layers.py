"""One layer of the Performer: attention, then a feed-forward network, each added and then normalised.

The structure is the paper's (post-norm, ReLU, one dropout rate, none inside attention). Queries and keys come from
one projection and values from another: the values are kept for the backward pass, and would hold on to the others.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from musicgen.attention import AttentionState, Backend, Decay, FeatureMap, causal_attention
from musicgen.model.config import PerformerConfig
from musicgen.model.dropout import DropoutNoise, dropout, relu_dropout
from musicgen.model.encoding import Encoder

SITES = 3
"""Dropouts in a layer."""


class PerformerLayer(nn.Module):
    """A layer.

    Args:
        config: The model's config.
        index: Which layer this is, for its gate.
    """

    def __init__(self, config: PerformerConfig, index: int) -> None:
        super().__init__()
        self.index = index
        self.heads = config.num_heads
        self.project_queries_keys = nn.Linear(config.d_model, 2 * config.d_model)
        self.project_values = nn.Linear(config.d_model, config.d_model)
        self.project_out = nn.Linear(config.d_model, config.d_model)
        self.norm_attention = nn.LayerNorm(config.d_model)
        self.expand = nn.Linear(config.d_model, config.d_ff)
        self.contract = nn.Linear(config.d_ff, config.d_model)
        self.norm_feedforward = nn.LayerNorm(config.d_model)
        self.decay = None
        if config.decay != "none":
            self.decay = Decay(config.num_heads, config.decay_exponents, config.decay == "learnt")

    def forward(
        self,
        hidden: Tensor,
        encoder: Encoder,
        features: FeatureMap,
        state: AttentionState | None,
        backend: Backend,
        noise: DropoutNoise | None,
    ) -> tuple[Tensor, AttentionState]:
        """Run the layer.

        Args:
            hidden: `(batch, length, d_model)`.
            encoder: Encodes queries and keys at their positions.
            features: This layer's feature map.
            state: What attention remembers of earlier tokens.
            backend: How attention is computed.
            noise: Of dropout; None for none.

        Returns:
            The new hidden states and the state after them.
        """
        attended, state = self._attend(hidden, encoder, features, state, backend)
        site = SITES * self.index + 1  # the first of the model is that of the embeddings
        hidden = self.norm_attention(hidden + dropout(self.project_out(attended), noise, site))
        expanded = relu_dropout(self.expand(hidden), noise, site + 1)
        return self.norm_feedforward(hidden + dropout(self.contract(expanded), noise, site + 2)), state

    @torch.compiler.disable  # its noise is addressed by hashes, which no graph can hold; the rest can be compiled
    def _attend(
        self,
        hidden: Tensor,
        encoder: Encoder,
        features: FeatureMap,
        state: AttentionState | None,
        backend: Backend,
    ) -> tuple[Tensor, AttentionState]:
        queries, keys = self.project_queries_keys(hidden).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        values = self.project_values(hidden).unflatten(-1, (self.heads, -1))
        with full_precision(hidden):
            return self._attend_to(queries.float(), keys.float(), values.float(), encoder, features, state, backend)

    def _attend_to(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        encoder: Encoder,
        features: FeatureMap,
        state: AttentionState | None,
        backend: Backend,
    ) -> tuple[Tensor, AttentionState]:
        queries, keys = encoder(self.index, queries, keys)
        # Heads first in memory, as attention wants them, while there are E numbers a token and not yet F.
        queries, keys = (tensor.transpose(1, 2).contiguous() for tensor in (queries, keys))
        key_features, key_scale = features.keys(keys)
        output, state = causal_attention(
            features.queries(queries).transpose(1, 2),
            key_features.transpose(1, 2),
            values,
            None if key_scale is None else key_scale.transpose(1, 2),
            None if self.decay is None else self.decay(),
            state,
            backend,
        )
        return output.flatten(2), state


def full_precision(tensor: Tensor) -> torch.autocast:
    """Turn mixed precision off for a while: exponentials and long sums need all the digits there are."""
    return torch.autocast(tensor.device.type, enabled=False)
