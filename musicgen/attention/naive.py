"""Causal linear attention by its definition, in quadratic time. The tests compare all other backends with it."""

from __future__ import annotations

import torch
from torch import Tensor

from musicgen.attention.state import AttentionState, normalise, passed_steps, with_ones


def naive(
    query_features: Tensor,
    key_features: Tensor,
    values: Tensor,
    key_scale: Tensor,
    log_decay: Tensor,
    state: AttentionState,
    elapsed: Tensor | None = None,
) -> tuple[Tensor, AttentionState]:
    """Weigh and sum every pair of positions. Shapes: see `musicgen.attention.causal_attention`."""
    queries, keys, extended = (tensor.transpose(1, 2) for tensor in (query_features, key_features, with_ones(values)))
    length = queries.shape[2]
    steps = passed_steps(length, elapsed, queries)
    lags = (steps.unsqueeze(-1) - steps.unsqueeze(-2)).to(queries)
    later = torch.ones(length, length, dtype=torch.bool, device=queries.device).triu_(1)

    # Log weight of key n at query m, and of the memory at query m.
    pairs = key_scale.transpose(1, 2).unsqueeze(-2) + lags * log_decay[:, None, None]
    pairs = pairs.masked_fill(later, -torch.inf)
    past = state.log_scale.unsqueeze(-1) + steps.to(queries) * log_decay[:, None]
    log_scale = torch.maximum(pairs.amax(-1), past).detach()

    scores = queries @ keys.transpose(-1, -2) * (pairs - log_scale.unsqueeze(-1)).exp()
    past_weight = (past - log_scale).exp().unsqueeze(-1)
    sums = scores @ extended + past_weight * (queries @ state.memory)

    last_weight = (pairs[..., -1, :] - log_scale[..., -1:]).exp().unsqueeze(-1)
    memory = (keys * last_weight).transpose(-1, -2) @ extended + past_weight[..., -1:, :] * state.memory
    return normalise(sums).transpose(1, 2), AttentionState(memory, log_scale[..., -1])
