"""Causal linear attention with the kernel of `pytorch-fast-transformers`, the package that the paper used.

Its kernel is a plain scan in float32: no decay, no log factors, no state. All three are folded into the keys
around it: a key at time t_n is scaled by exp(c_n − t_n·log γ), relative to the memory's scale. Since such factors would
overflow sooner or later, the sequence is cut wherever their running maximum has grown by RANGE nats, and the
memory is carried, rescaled, from one segment to the next. Factors that cancel in the output are never applied.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from musicgen.attention.state import AttentionState, normalise, passed_steps, with_ones

RANGE = 40.0  # nats: exp(RANGE) times a long sum still fits float32


def available() -> bool:
    """Whether the package is installed and its compiled kernel loads."""
    try:
        _kernel()
    except ImportError:
        return False
    return True


def fast_transformers(
    query_features: Tensor,
    key_features: Tensor,
    values: Tensor,
    key_scale: Tensor,
    log_decay: Tensor,
    state: AttentionState,
    elapsed: Tensor | None = None,
) -> tuple[Tensor, AttentionState]:
    """Segments of safe range, each by the package's kernel. Shapes: see `causal_attention`."""
    try:
        kernel = _kernel()
    except ImportError as error:
        raise ImportError(
            "the fast_transformers backend needs the package pytorch-fast-transformers: run `make fast-transformers`"
        ) from error
    queries, keys, extended, scale = (
        tensor.transpose(1, 2) for tensor in (query_features, key_features, with_ones(values), key_scale)
    )
    outputs = []
    start = 0
    while start < queries.shape[2]:
        rest = None if elapsed is None else elapsed[:, start:]
        undecayed, decays = _undecayed(scale[:, :, start:], log_decay, rest)
        length, reference, log_scale = _segment(undecayed, decays, state.log_scale)
        window = slice(start, start + length)
        factors = undecayed[..., :length] - reference.unsqueeze(-1)
        segment_queries = queries[:, :, window].contiguous()
        segment_keys = keys[:, :, window] * factors.exp().unsqueeze(-1)
        segment_values = extended[:, :, window].contiguous()
        memory = state.memory * (state.log_scale - reference).exp()[..., None, None]
        outputs.append(normalise(kernel(segment_queries, segment_keys, segment_values) + segment_queries @ memory))
        memory = memory + segment_keys.transpose(-1, -2) @ segment_values
        rescaled = memory * (reference + decays[..., length - 1] - log_scale).exp()[..., None, None]
        state = AttentionState(rescaled, log_scale)
        start += length
    return torch.cat(outputs, 2).transpose(1, 2), state


def _undecayed(scale: Tensor, log_decay: Tensor, elapsed: Tensor | None) -> tuple[Tensor, Tensor]:
    """c_n − t_n·log γ, what a key's factor is before later steps decay it, `(B, H, N)`; and t_n·log γ."""
    decays = passed_steps(scale.shape[-1], elapsed, scale).to(scale) * log_decay[:, None]
    return scale - decays, decays


@torch.no_grad()
def _segment(undecayed: Tensor, decays: Tensor, before: Tensor) -> tuple[int, Tensor, Tensor]:
    """How many tokens fit the range, the `(B, H)` factor to hold them relative to, and the scale after them."""
    running = torch.maximum(undecayed.cummax(-1).values, before.unsqueeze(-1))
    reference = running[..., 0]
    grown = (running - reference.unsqueeze(-1)).amax((0, 1))
    length = int((grown <= RANGE).sum())
    return length, reference, running[..., length - 1] + decays[..., length - 1]


def _kernel() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    from fast_transformers.causal_product import causal_dot_product

    return causal_dot_product
