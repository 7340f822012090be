"""Causal linear attention as its definition says, quadratic: the oracle all other backends are held to."""

from __future__ import annotations

import torch
from torch import Tensor

from musicgen.attention.state import AttentionState, normalise, with_ones


def naive(
    query_features: Tensor,
    key_features: Tensor,
    values: Tensor,
    key_scale: Tensor,
    log_decay: Tensor,
    state: AttentionState,
) -> tuple[Tensor, AttentionState]:
    """Every pair of positions, weighed and summed. Shapes: see `musicgen.attention.causal_attention`."""
    queries, keys, extended = (tensor.transpose(1, 2) for tensor in (query_features, key_features, with_ones(values)))
    length = queries.shape[2]
    steps = torch.arange(length, device=queries.device)
    lags = steps[:, None] - steps[None, :]
    decay = log_decay[:, None, None]

    # Log weight of key n at query m, and of the memory at query m.
    pairs = key_scale.transpose(1, 2).unsqueeze(-2) + lags * decay
    pairs = pairs.masked_fill(lags < 0, -torch.inf)
    past = state.log_scale.unsqueeze(-1) + (steps + 1) * log_decay[:, None]
    log_scale = torch.maximum(pairs.amax(-1), past).detach()

    scores = queries @ keys.transpose(-1, -2) * (pairs - log_scale.unsqueeze(-1)).exp()
    past_weight = (past - log_scale).exp().unsqueeze(-1)
    sums = scores @ extended + past_weight * (queries @ state.memory)

    last_weight = (pairs[..., -1, :] - log_scale[..., -1:]).exp().unsqueeze(-1)
    memory = (keys * last_weight).transpose(-1, -2) @ extended + past_weight[..., -1:, :] * state.memory
    return normalise(sums).transpose(1, 2), AttentionState(memory, log_scale[..., -1])
