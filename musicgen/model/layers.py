"""One layer of the Performer: attention, then a feed-forward network, each added to what it read.

The defaults are the paper's (normalised after adding, ReLU, one dropout rate, none inside attention). Queries and keys
come from one projection and values from another: values are kept for the backward pass, and in one tensor they would
keep the others in memory.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musicgen.attention import Backend, Decay, FeatureMap, causal_attention, delta_rule, recurrent_delta_rule
from musicgen.model.config import PerformerConfig
from musicgen.model.dropout import DropoutNoise, dropout, relu_dropout
from musicgen.model.gates import DeltaGates, HeadOutput, gated_width, swiglu, unit
from musicgen.model.positions import Encoder
from musicgen.model.short_conv import ShortConvolution
from musicgen.model.state import LayerState

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
        self.pre_norm = config.norm == "pre"
        self.gated_ff = config.gated_ff
        width, inner = config.d_model, gated_width(config.d_ff) if config.gated_ff else config.d_ff
        self.project_queries_keys = nn.Linear(width, 2 * width)
        self.project_values = nn.Linear(width, width)
        self.project_out = nn.Linear(width, width)
        self.norm_attention = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 2 * inner if config.gated_ff else inner)
        self.contract = nn.Linear(inner, width)
        self.norm_feedforward = nn.LayerNorm(width)
        self.decay = None
        if config.decay != "none":
            self.decay = Decay(config.num_heads, config.decay_exponents, config.decay == "learnt")
        self.delta = None
        if config.attention == "delta":
            self.delta = DeltaGates(width, config.num_heads, config.decay != "none")
        self.short_conv = ShortConvolution(3 * width, config.short_conv) if config.short_conv else None
        self.head_output = None
        if config.head_norm or config.output_gate:
            self.head_output = HeadOutput(width, config.num_heads, config.head_norm, config.output_gate)

    def forward(
        self,
        hidden: Tensor,
        encoder: Encoder,
        features: FeatureMap | None,
        state: LayerState | None,
        backend: Backend,
        noise: DropoutNoise | None,
        elapsed: Tensor | None = None,
    ) -> tuple[Tensor, LayerState]:
        """Run the layer.

        Args:
            hidden: `(batch, length, d_model)`.
            encoder: Encodes queries and keys at their positions.
            features: This layer's feature map; None with the delta rule.
            state: What the layer remembers of earlier tokens.
            backend: How attention is computed.
            noise: The masks of dropout; None means no dropout.
            elapsed: How far each token is from the one before it, `(batch, length)`, for the decay; None means 1.

        Returns:
            The new hidden states and the state after them.
        """
        site = SITES * self.index + 1  # the first site of the model is that of the embeddings
        source = self.attention_input(hidden)
        attended, state = self._attend(source, encoder, features, state, backend, elapsed)
        if self.head_output is not None:
            attended = self.head_output(attended, source)
        hidden = hidden + dropout(self.project_out(attended), noise, site)
        if not self.pre_norm:
            hidden = self.norm_attention(hidden)
        source = self.norm_feedforward(hidden) if self.pre_norm else hidden
        hidden = hidden + dropout(self.contract(self._inner(source, noise, site + 1)), noise, site + 2)
        return hidden if self.pre_norm else self.norm_feedforward(hidden), state

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the layer, except what is noise."""
        _never_compile_noise()
        super().compile(*args, **kwargs)

    def attention_input(self, hidden: Tensor) -> Tensor:
        """What attention reads of hidden states."""
        return self.norm_attention(hidden) if self.pre_norm else hidden

    def _inner(self, source: Tensor, noise: DropoutNoise | None, site: int) -> Tensor:
        """The inside of the feed-forward network."""
        if self.gated_ff:
            return dropout(swiglu(self.expand(source)), noise, site)
        return relu_dropout(self.expand(source), noise, site)

    def queries_keys_values(
        self, source: Tensor, recent: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """What attention works on, before positions are encoded.

        Args:
            source: What the layer reads, `(batch, length, d_model)`.
            recent: What the convolution remembers; None at the beginning of a piece.

        Returns:
            Queries, keys and values, `(batch, length, heads, D)`, and what the convolution remembers now.
        """
        queries_keys, values = self.project_queries_keys(source), self.project_values(source)
        with full_precision(source):
            queries_keys, values = queries_keys.float(), values.float()
            if self.short_conv is not None:
                middle = queries_keys.shape[-1]
                parts = (slice(None, middle), slice(middle, None))
                before = (None, None) if recent is None else (recent[..., part] for part in parts)
                (queries_keys, first), (values, second) = (
                    self.short_conv(tensor, part, past)
                    for tensor, part, past in zip((queries_keys, values), parts, before, strict=True)
                )
                recent = torch.cat([first, second], -1)
        queries, keys = queries_keys.unflatten(-1, (2, self.heads, -1)).unbind(-3)
        return queries, keys, values.unflatten(-1, (self.heads, -1)), recent

    def _attend(
        self,
        source: Tensor,
        encoder: Encoder,
        features: FeatureMap | None,
        state: LayerState | None,
        backend: Backend,
        elapsed: Tensor | None,
    ) -> tuple[Tensor, LayerState]:
        queries, keys, values, recent = self.queries_keys_values(source, None if state is None else state.recent)
        decay = None if self.decay is None else self.decay()
        with full_precision(source):
            if self.delta is not None:
                queries, keys = encoder(self.index, F.silu(queries), F.silu(keys))
                gates = self.delta(source.float(), decay, elapsed)
                memory = None if state is None else state.memory
                return _replace(unit(queries), unit(keys), values, gates, memory, backend, recent)
            features = cast(FeatureMap, features)
            queries, keys = encoder(self.index, queries, keys)
            # Move heads first in memory, as attention needs it, while each token has E numbers and not yet F.
            queries, keys = (tensor.transpose(1, 2).contiguous() for tensor in (queries, keys))
            key_features, key_scale = features.keys(keys)
            output, after = causal_attention(
                features.queries(queries).transpose(1, 2),
                key_features.transpose(1, 2),
                values,
                None if key_scale is None else key_scale.transpose(1, 2),
                decay,
                state,
                backend,
                elapsed,
            )
        return output.flatten(2), LayerState(after.memory, after.log_scale, recent)


def _replace(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    gates: tuple[Tensor, Tensor],
    memory: Tensor | None,
    backend: Backend,
    recent: Tensor | None,
) -> tuple[Tensor, LayerState]:
    """Attention by the delta rule, with gates β and log γ. Shapes: see `musicgen.attention.delta_rule`."""
    batch, _, heads, features = keys.shape
    if memory is None:
        memory = values.new_zeros(batch, heads, features, values.shape[-1])
    rule = delta_rule if backend == "chunked" else recurrent_delta_rule
    output, memory = rule(queries, keys, values, *gates, memory)
    return output.flatten(2), LayerState(memory, values.new_zeros(batch, heads), recent)


def full_precision(tensor: Tensor) -> AbstractContextManager[object]:
    """Turn mixed precision off for a while: exponentials and long sums need full precision."""
    if tensor.is_meta:
        return nullcontext()  # has no mixed precision
    return torch.autocast(tensor.device.type, enabled=False)


@functools.cache
def _never_compile_noise() -> None:
    """Keep the compiler from functions whose noise is addressed by hashes.

    Not a decorator of these functions: it would load the compiler, which takes as long as the rest of torch.
    """
    for owner, name in ((PerformerLayer, "_attend"), (DropoutNoise, "chances")):
        setattr(owner, name, torch.compiler.disable(getattr(owner, name)))
