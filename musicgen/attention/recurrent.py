"""Causal linear attention one token at a time: constant cost and constant memory at any position."""

from __future__ import annotations

import torch
from torch import Tensor

from musicgen.attention.state import AttentionState, normalise, with_ones


def recurrent(
    query_features: Tensor,
    key_features: Tensor,
    values: Tensor,
    key_scale: Tensor,
    log_decay: Tensor,
    state: AttentionState,
) -> tuple[Tensor, AttentionState]:
    """A loop over tokens. Shapes: see `musicgen.attention.causal_attention`."""
    outputs = []
    extended = with_ones(values)
    for step in range(values.shape[1]):
        past = state.log_scale + log_decay
        log_scale = torch.maximum(past, key_scale[:, step]).detach()
        key_weight = (key_scale[:, step] - log_scale).exp().unsqueeze(-1)
        past_weight = (past - log_scale).exp()[..., None, None]
        weighted_key = (key_features[:, step] * key_weight).unsqueeze(-1)
        memory = (state.memory * past_weight).addcmul_(weighted_key, extended[:, step].unsqueeze(-2))
        state = AttentionState(memory, log_scale)
        outputs.append(normalise((query_features[:, step].unsqueeze(-2) @ state.memory).squeeze(-2)))
    return torch.stack(outputs, 1), state
