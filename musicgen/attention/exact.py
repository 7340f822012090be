"""Softmax attention, exact and quadratic: the baseline linear attention approximates, and what a map shows."""

from __future__ import annotations

import torch
from torch import Tensor


def softmax_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    causal: bool = True,
    mask: Tensor | None = None,
    log_decay: Tensor | None = None,
) -> Tensor:
    """Attention output `(batch, length, heads, V)`: values averaged by `attention_map`, whose arguments it takes."""
    weights = attention_map(queries, keys, causal=causal, mask=mask, log_decay=log_decay)
    return torch.einsum("bhmn,bnhv->bmhv", weights, values)


def attention_map(
    queries: Tensor,
    keys: Tensor,
    *,
    causal: bool = True,
    mask: Tensor | None = None,
    log_decay: Tensor | None = None,
) -> Tensor:
    """softmax(q·k/√E) as a matrix, for drawing.

    Args:
        queries: `(batch, length, heads, E)`.
        keys: `(batch, length, heads, E)`.
        causal: Whether a query sees only keys up to its own position.
        mask: `(batch, length)`, True where a key is real.
        log_decay: `(heads,)`, log γ: adds (m−n)·log γ to the logits (causal attention only).

    Returns:
        `(batch, heads, queries, keys)`; rows sum to one.
    """
    logits = torch.einsum("bmhe,bnhe->bhmn", queries, keys) * queries.shape[-1] ** -0.5
    steps = torch.arange(queries.shape[1], device=queries.device)
    lags = steps[:, None] - steps[None, :]
    if log_decay is not None:
        logits = logits + lags * log_decay[:, None, None]
    if causal:
        logits = logits.masked_fill(lags < 0, -torch.inf)
    if mask is not None:
        logits = logits.masked_fill(~mask[:, None, None, :], -torch.inf)
    return logits.softmax(-1)
