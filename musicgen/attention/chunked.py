"""Causal linear attention in chunks: all matrix products, on any device. The default.

Inside a chunk every query meets every earlier key (quadratic in the chunk, which is short); between chunks it
meets the memory as it stood when the chunk began.

Design note: the backward pass is our own. Autograd would keep the weights, scores and memories of every chunk. We keep
only the inputs and the output; the rest is cheap to compute again. The gradient of the decay
needs no weights: a query's time enters as γ^t_m times its features and a key's as γ^(−t_n) times its own,
so ∂L/∂log γ = Σ_m t_m·(φ(q_m)·∂φ(q_m) − φ(k_m)·∂φ(k_m)), plus the final memory's share, where t_m is the time since the
state: m+1 tokens, or the time that has really passed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from musicgen.attention.state import AttentionState, inverse_weight, passed_steps, with_ones

CHUNK = 64


def chunked(
    query_features: Tensor,
    key_features: Tensor,
    values: Tensor,
    key_scale: Tensor,
    log_decay: Tensor,
    state: AttentionState,
    elapsed: Tensor | None = None,
) -> tuple[Tensor, AttentionState]:
    """Whole chunks first, then the rest as one shorter chunk. Shapes: see `causal_attention`."""
    inputs = [tensor.transpose(1, 2) for tensor in (query_features, key_features, values, key_scale)]
    length = values.shape[1]
    whole = length - length % CHUNK
    outputs = []
    for start, end in ((0, whole), (whole, length)):
        if start < end:
            pieces = (tensor[:, :, start:end] for tensor in inputs)
            chunk = min(CHUNK, end - start)
            steps = _Steps.of(end - start, chunk, None if elapsed is None else elapsed[:, start:end], values)
            output, *carried = _Chunked.apply(*pieces, log_decay, state.memory, state.log_scale, steps)
            outputs.append(output)
            state = AttentionState(*carried)
    output = outputs[0] if len(outputs) == 1 else torch.cat(outputs, 2)
    return output.transpose(1, 2), state


class _Steps(NamedTuple):
    """The times of tokens, for the decay. The first axes, (B, 1, c), are absent if all chunks have equal times."""

    chunk: int
    inside: Tensor  # (..., C): since the first token of the chunk
    first: Tensor  # (..., 1): of that token, since the one before it
    passed: Tensor  # (N,) or (B, 1, N): since the state, in float64

    @classmethod
    def of(cls, length: int, chunk: int, elapsed: Tensor | None, like: Tensor) -> _Steps:
        """The times of whole chunks of tokens."""
        passed = passed_steps(length, elapsed, like)
        if elapsed is None:
            inside = torch.arange(chunk, device=like.device)
            return cls(chunk, inside, torch.ones_like(inside[:1]), passed)
        chunks = passed.unflatten(-1, (-1, chunk))
        inside = (chunks - chunks[..., :1]).to(like.dtype)
        first = elapsed.to(like).unflatten(-1, (-1, chunk))[:, None, :, :1]
        return cls(chunk, inside, first, passed)


class _Weights(NamedTuple):
    """What multiplies features in each chunk, relative to each query's running maximum.

    B batch, H heads, c chunks, C tokens in a chunk.
    """

    pairs: Tensor  # (B, H, c, C, C): a key of the chunk, at a query of the chunk
    past: Tensor  # (B, H, c, C, 1): the memory before the chunk, at a query of the chunk
    written: Tensor  # (B, H, c, C, 1): a key of the chunk, in the memory after it
    kept: Tensor  # (B, H, c, 1, 1): the memory before the chunk, in the memory after it
    log_scale: Tensor  # (B, H): of the last memory


def _weights(key_scale: Tensor, log_decay: Tensor, log_scale: Tensor, steps: _Steps) -> _Weights:
    """From `(B, H, c, C)` log factors of keys and the `(B, H)` scale of the memory before them."""
    chunks, inside = key_scale.shape[-2], steps.inside
    decay = log_decay[:, None, None]
    # Running maximum inside each chunk, in coordinates that do not decay; then over chunks, one by one.
    # Jumps in time may decay by thousands of nats, of which single precision would keep too few digits.
    wide = key_scale.dtype if inside.dim() == 1 else torch.float64
    decays = inside * decay.to(wide)
    local = ((key_scale - decays).cummax(-1).values + decays).to(key_scale)
    since = (inside + steps.first) * decay  # (1 or B, H, 1 or c, C): decay of the memory before the chunk
    whole = since[..., -1].expand(*key_scale.shape[:2], chunks)
    before = []
    for index in range(chunks):
        before.append(log_scale)
        log_scale = torch.maximum(log_scale + whole[..., index], local[:, :, index, -1])
    past = torch.stack(before, -1).unsqueeze(-1) + since
    running = torch.maximum(local, past)

    lags = inside.unsqueeze(-1) - inside.unsqueeze(-2)
    pairs = key_scale.unsqueeze(-2) - running.unsqueeze(-1) + lags * decay.unsqueeze(-1)
    later = torch.ones(steps.chunk, steps.chunk, dtype=torch.bool, device=key_scale.device).triu_(1)
    last = running[..., -1:]
    return _Weights(
        pairs.masked_fill_(later, -torch.inf).exp_(),
        (past - running).exp_().unsqueeze(-1),
        (key_scale + (inside[..., -1:] - inside) * decay - last).exp_().unsqueeze(-1),
        (past[..., -1:] - last).exp_().unsqueeze(-1),
        log_scale,
    )


def _memories(keys: Tensor, written: Tensor, weights: _Weights, memory: Tensor) -> tuple[Tensor, Tensor]:
    """The memory before each chunk, `(B, H, c, F, V+1)`, and after the last one; `written` are weighted values."""
    written = keys.transpose(-1, -2) @ written
    before = torch.empty_like(written)
    for index in range(keys.shape[2]):
        before[:, :, index] = memory
        memory = torch.addcmul(written[:, :, index], memory, weights.kept[:, :, index])
    return before, memory


class _Chunked(torch.autograd.Function):
    """Attention over c whole chunks of C tokens. Inputs are `(B, H, N, ...)`; outputs too, and the memory."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        key_scale: Tensor,
        log_decay: Tensor,
        memory: Tensor,
        log_scale: Tensor,
        steps: _Steps,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.steps, chunk = steps, steps.chunk
        queries, keys = queries.contiguous(), keys.contiguous()
        inputs = (queries, keys, with_ones(values))
        q, k, extended = (tensor.unflatten(2, (-1, chunk)) for tensor in inputs)
        weights = _weights(key_scale.unflatten(2, (-1, chunk)), log_decay, log_scale, steps)
        before, after = _memories(k, extended * weights.written, weights, memory)
        scores = (q @ k.transpose(-1, -2)).mul_(weights.pairs)
        sums = (q @ before).mul_(weights.past).add_(scores @ extended)
        inverse = inverse_weight(sums)
        output = (sums[..., :-1] * inverse).flatten(2, 3)
        ctx.save_for_backward(queries, keys, values, key_scale, log_decay, memory, log_scale, output, inverse, after)
        ctx.mark_non_differentiable(weights.log_scale)
        return output, after, weights.log_scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor, grad_after: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, key_scale, log_decay, memory, log_scale, output, inverse, after = ctx.saved_tensors
        chunk = ctx.steps.chunk
        inputs = (queries, keys, with_ones(values), grad_output, output)
        q, k, extended, grad, out = (tensor.unflatten(2, (-1, chunk)) for tensor in inputs)
        weights = _weights(key_scale.unflatten(2, (-1, chunk)), log_decay, log_scale, ctx.steps)
        written = extended * weights.written
        before, _after = _memories(k, written, weights, memory)

        # Through the normalisation: sums = [numerator, denominator].
        grad_sums = torch.cat([grad, -(grad * out).sum(-1, keepdim=True)], -1).mul_(inverse)

        # The memory after each chunk is read by all later ones: accumulate backwards.
        grad_past = grad_sums * weights.past
        grad_before = q.transpose(-1, -2) @ grad_past
        grad_memory = torch.empty_like(grad_before)
        carried = grad_after
        for index in reversed(range(q.shape[2])):
            grad_memory[:, :, index] = carried
            carried = torch.addcmul(grad_before[:, :, index], carried, weights.kept[:, :, index])

        grad_scores = (grad_sums @ extended.transpose(-1, -2)).mul_(weights.pairs)
        scores = (q @ k.transpose(-1, -2)).mul_(weights.pairs)
        grad_q = (grad_scores @ k).add_(grad_past @ before.transpose(-1, -2))
        grad_k = (grad_scores.transpose(-1, -2) @ q).add_(written @ grad_memory.transpose(-1, -2))
        values_memory = grad_memory[..., :-1]  # the ones have no gradient
        grad_v = scores.transpose(-1, -2) @ grad_sums[..., :-1]
        grad_v.add_((k @ values_memory).mul_(weights.written))

        grad_q, grad_k, grad_v = (tensor.flatten(2, 3) for tensor in (grad_q, grad_k, grad_v))
        grad_decay = None
        if ctx.needs_input_grad[4]:
            passed = ctx.steps.passed
            shares = (queries * grad_q).sum(-1) - (keys * grad_k).sum(-1)
            last = (after * grad_after).sum((2, 3)) * passed[..., -1]
            grad_decay = ((shares * passed).sum((0, 2)) + last.sum(0)).to(log_decay.dtype)
        grad_start = carried if ctx.needs_input_grad[5] else None
        return grad_q, grad_k, grad_v, None, grad_decay, grad_start, None, None
