"""`SequenceClassifier`: a bidirectional Transformer of linear complexity that gives a sequence, or a pair, a class.

Layers normalise before they read. Queries, keys, values and outputs of attention have no bias, as published. Padding
is masked in attention and in the mean, so it never changes a logit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musicgen.arena.config import ClassifierConfig
from musicgen.arena.encoding import Encode, encoding_class
from musicgen.attention import FeatureMap, feature_map, linear_attention, softmax_attention
from musicgen.model.dropout import DropoutNoise, dropout
from musicgen.model.layers import full_precision
from musicgen.spe import Draw

SITES = 3
"""Dropouts in a layer."""
PUBLISHED_RELU = 1e-3
"""What the published ReLU features are lifted by."""


class EncoderLayer(nn.Module):
    """Attention, then a feed-forward network, each added to what it read."""

    def __init__(self, config: ClassifierConfig, index: int) -> None:
        super().__init__()
        self.config, self.index = config, index
        width, inner = config.d_model, config.d_qkv
        self.norm_attention = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * inner, bias=False)
        self.project_out = nn.Linear(inner, width, bias=False)
        self.norm_feedforward = nn.LayerNorm(width)
        self.expand = nn.Linear(width, config.d_ff)
        self.contract = nn.Linear(config.d_ff, width)

    def forward(
        self,
        hidden: Tensor,
        encode: Encode,
        features: FeatureMap | None,
        mask: Tensor | None,
        noise: DropoutNoise | None,
    ) -> Tensor:
        """Run the layer on `(batch, length, d_model)`.

        Args:
            hidden: What the layer reads.
            encode: Encodes queries and keys at their positions.
            features: This layer's feature map; None for softmax attention.
            mask: `(batch, length)`, True where a token is real; None if all are.
            noise: The masks of dropout; None means no dropout.
        """
        site = SITES * self.index + 1
        projected = self.project(self.norm_attention(hidden))
        with full_precision(hidden):
            queries, keys, values = projected.float().unflatten(-1, (3, self.config.num_heads, -1)).unbind(-3)
            attended = self._attend(*encode(self.index, queries, keys), values, features, mask)
        hidden = hidden + dropout(self.project_out(attended.flatten(2)), noise, site)
        inner = dropout(F.gelu(self.expand(self.norm_feedforward(hidden))), noise, site + 1)
        return hidden + dropout(self.contract(inner), noise, site + 2)

    def _attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, features: FeatureMap | None, mask: Tensor | None
    ) -> Tensor:
        if features is None:
            return softmax_attention(queries, keys, values, causal=False, mask=mask)
        query_features = features.queries(queries)
        key_features, key_scale = features.keys(keys)
        if self.config.published and self.config.attention == "relu":
            query_features, key_features = query_features + PUBLISHED_RELU, key_features + PUBLISHED_RELU
        return linear_attention(query_features, key_features, values, key_scale, mask)


class SequenceClassifier(nn.Module):
    """The classifier of a config."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config
        width = config.d_model
        self.embedding = nn.Embedding(config.vocab_size, width)
        self.cls = nn.Parameter(torch.zeros(width)) if config.pooling == "cls" else None
        self.encoding = encoding_class(config.pe)(config)
        self.layers = nn.ModuleList(EncoderLayer(config, index) for index in range(config.num_layers))
        self.norm = nn.LayerNorm(width)
        sizes = [width, config.d_ff, config.about.classes]
        if config.is_paired:
            sizes = [2 * width, config.d_ff, config.d_ff // 2, config.about.classes]
        self.head = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def num_parameters(self) -> int:
        """Number of trained numbers."""
        return sum(parameter.numel() for parameter in self.parameters())

    def draw(self, seed: int, feature_seed: int | None = None) -> Draw:
        """The noise of a step or of an evaluation."""
        config = self.config
        return Draw(seed, config.encoded_features, config.noise if config.is_stochastic else "gaussian", feature_seed)

    def forward(self, tokens: Tensor, lengths: Tensor, draw: Draw, first_row: int = 0) -> Tensor:
        """Logits `(batch, classes)`.

        Args:
            tokens: Token ids `(batch, sequences, length)`: one sequence for each example, or two.
            lengths: How many of them are real, `(batch, sequences)`.
            draw: The noise.
            first_row: Which row of the whole batch the first row here is, for dropout.
        """
        batch, sequences, _ = tokens.shape
        noise = None
        if self.training and self.config.dropout:
            noise = DropoutNoise(self.config.dropout, draw, first_row * sequences)
        pooled = self.encode(tokens.flatten(0, 1), lengths.flatten(), draw, noise)
        hidden = pooled.unflatten(0, (batch, sequences)).flatten(1)
        *inner, last = cast(Sequence[nn.Linear], self.head)
        for layer in inner:
            hidden = F.relu(layer(hidden))
        return last(hidden)

    def encode(self, tokens: Tensor, lengths: Tensor, draw: Draw, noise: DropoutNoise | None = None) -> Tensor:
        """A vector for each sequence, `(rows, d_model)`, from `(rows, length)` tokens."""
        config = self.config
        mask = self._mask(tokens, lengths)
        hidden = self.embedding(tokens)
        if self.cls is not None:
            hidden = torch.cat([self.cls.expand(len(hidden), 1, -1), hidden], 1)
            if mask is not None:
                mask = F.pad(mask, (1, 0), value=True)
        hidden = dropout(self.encoding.add_to(hidden), noise, 0)
        encode = self.encoding.encoder(draw, hidden.shape[1], hidden)
        for index, layer in enumerate(self.layers):
            features = None
            if config.attention != "softmax":
                sizes = (config.encoded_features, config.num_features)
                features = feature_map(config.attention, draw, index, *sizes, hidden)
            hidden = layer(hidden, encode, features, mask, noise)
        hidden = self.norm(hidden)
        if config.pooling != "mean":
            return hidden[:, 0]
        if mask is None:
            return hidden.mean(1)
        return (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp_min(1)

    def _mask(self, tokens: Tensor, lengths: Tensor) -> Tensor | None:
        """Where tokens are real, `(rows, length)`; None if attention may read all."""
        if self.config.published:
            return None if self.config.side is None else tokens > 0
        return torch.arange(tokens.shape[1], device=tokens.device) < lengths.unsqueeze(-1)
