"""Softmax attention, exact and quadratic: what linear attention approximates, and what attention maps show."""

from __future__ import annotations

import torch
from torch import Tensor

from musicgen.attention.state import passed_steps


def softmax_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    causal: bool = True,
    mask: Tensor | None = None,
    log_decay: Tensor | None = None,
    elapsed: Tensor | None = None,
) -> Tensor:
    """Attention output `(batch, length, heads, V)`: values averaged by `attention_map`; the arguments are the same."""
    weights = attention_map(queries, keys, causal=causal, mask=mask, log_decay=log_decay, elapsed=elapsed)
    return torch.einsum("bhmn,bnhv->bmhv", weights, values)


def attention_map(
    queries: Tensor,
    keys: Tensor,
    *,
    causal: bool = True,
    mask: Tensor | None = None,
    log_decay: Tensor | None = None,
    elapsed: Tensor | None = None,
) -> Tensor:
    """softmax(q·k/√E) as a matrix, for drawing.

    Args:
        queries: `(batch, length, heads, E)`.
        keys: `(batch, length, heads, E)`.
        causal: Whether a query sees only keys up to its own position.
        mask: `(batch, length)`, True where a key is real.
        log_decay: `(heads,)`, log γ: adds (t_m−t_n)·log γ to the logits (causal attention only).
        elapsed: t_m − t_{m−1}, `(batch, length)`; None means 1 for each.

    Returns:
        `(batch, heads, queries, keys)`; rows sum to one.
    """
    logits = torch.einsum("bmhe,bnhe->bhmn", queries, keys) * queries.shape[-1] ** -0.5
    length = queries.shape[1]
    if log_decay is not None:
        steps = passed_steps(length, elapsed, queries)
        lags = (steps.unsqueeze(-1) - steps.unsqueeze(-2)).to(logits)
        logits = logits + lags * log_decay[:, None, None]
    if causal:
        later = torch.ones(length, length, dtype=torch.bool, device=logits.device).triu_(1)
        logits = logits.masked_fill(later, -torch.inf)
    if mask is not None:
        logits = logits.masked_fill(~mask[:, None, None, :], -torch.inf)
    return logits.softmax(-1)
