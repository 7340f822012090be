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
    elapsed: Tensor | None = None,
) -> tuple[Tensor, AttentionState]:
    """A loop over tokens. Shapes: see `musicgen.attention.causal_attention`."""
    outputs = []
    tokens = (tensor.unbind(1) for tensor in (query_features, key_features, with_ones(values), key_scale))
    for index, (query, key, extended, scale) in enumerate(zip(*tokens, strict=True)):
        decay = log_decay if elapsed is None else log_decay * elapsed[:, index, None].to(log_decay)
        output, state = attend(query, key, extended, scale, decay, state)
        outputs.append(output)
    return torch.stack(outputs, 1), state


def attend(
    query_features: Tensor,
    key_features: Tensor,
    extended: Tensor,
    key_scale: Tensor,
    log_decay: Tensor,
    state: AttentionState,
) -> tuple[Tensor, AttentionState]:
    """Write one key, then read with one query. No row's bits depend on the other rows.

    Args:
        query_features: `(batch, heads, F)`.
        key_features: `(batch, heads, F)`.
        extended: Values with a one after them, `(batch, heads, V+1)`.
        key_scale: `(batch, heads)`.
        log_decay: `(heads,)`, or `(batch, heads)` where rows differ.
        state: The state before the token.

    Returns:
        The output `(batch, heads, V)` and the state after it.
    """
    past = state.log_scale + log_decay
    log_scale = torch.maximum(past, key_scale).detach()
    past_weight = (past - log_scale).exp()[..., None, None]
    weighted_key = key_features * (key_scale - log_scale).exp().unsqueeze(-1)
    memory = (state.memory * past_weight).addcmul_(weighted_key.unsqueeze(-1), extended.unsqueeze(-2))
    # Not a matrix product: its rounding depends on where a matrix begins in memory, which differs between rows.
    sums = (memory * query_features.unsqueeze(-1)).sum(-2)
    return normalise(sums), AttentionState(memory, log_scale)
