"""Linear attention without order: every query meets every real key. For encoders, and for batches with padding."""

from __future__ import annotations

import torch
from torch import Tensor

from musicgen.attention.state import normalise, with_ones


def linear_attention(
    query_features: Tensor,
    key_features: Tensor,
    values: Tensor,
    key_scale: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Non-causal linear attention.

    Args:
        query_features: `(batch, queries, heads, F)`.
        key_features: `(batch, keys, heads, F)`.
        values: `(batch, keys, heads, V)`.
        key_scale: `(batch, keys, heads)`, log factors of the key features; None for none.
        mask: `(batch, keys)`, True where a key is real; None if all are.

    Returns:
        `(batch, queries, heads, V)`; 0 where there is no real key.
    """
    scale = key_features.new_zeros(key_features.shape[:3]) if key_scale is None else key_scale
    if mask is not None:
        scale = scale.masked_fill(~mask.unsqueeze(-1), -torch.inf)
    # With no order there is no future to keep out: the scale is the maximum over the real keys.
    largest = scale.amax(1, keepdim=True).detach().clamp_min(torch.finfo(scale.dtype).min)
    weighted = key_features * (scale - largest).exp().unsqueeze(-1)
    memory = torch.einsum("bnhf,bnhv->bhfv", weighted, with_ones(values))
    return normalise(torch.einsum("bmhf,bhfv->bmhv", query_features, memory))
