"""Causal linear attention: feature maps, and several forms of one operation.

    features = feature_map("favor", draw, layer=0, in_features=64, num_features=128)
    key_features, key_scale = features.keys(keys)
    output, state = causal_attention(features.queries(queries), key_features, values, key_scale)

`chunked` is the default and runs anywhere; the tests compare it with `naive`; `recurrent` reads one token
at a time; `fast_transformers` is the kernel that the paper used. All read and return the same state.

`delta_rule` is another operation: a memory that replaces what it holds under a key (see delta.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from musicgen.attention.chunked import chunked
from musicgen.attention.decay import Decay
from musicgen.attention.delta import delta_rule, delta_step, recurrent_delta_rule
from musicgen.attention.exact import attention_map, softmax_attention
from musicgen.attention.fast_transformers import fast_transformers
from musicgen.attention.features import FeatureMap, FeatureMapName, favor_projection, feature_map
from musicgen.attention.naive import naive
from musicgen.attention.noncausal import linear_attention
from musicgen.attention.recurrent import recurrent
from musicgen.attention.state import AttentionState

__all__ = [
    "BACKENDS",
    "AttentionState",
    "Backend",
    "Decay",
    "FeatureMap",
    "FeatureMapName",
    "attention_map",
    "causal_attention",
    "delta_rule",
    "delta_step",
    "favor_projection",
    "feature_map",
    "linear_attention",
    "recurrent_delta_rule",
    "softmax_attention",
]

Backend = Literal["chunked", "naive", "recurrent", "fast_transformers"]

BACKENDS: dict[str, Callable[..., tuple[Tensor, AttentionState]]] = {
    "chunked": chunked,
    "naive": naive,
    "recurrent": recurrent,
    "fast_transformers": fast_transformers,
}


def causal_attention(
    query_features: Tensor,
    key_features: Tensor,
    values: Tensor,
    key_scale: Tensor | None = None,
    log_decay: Tensor | None = None,
    state: AttentionState | None = None,
    backend: Backend = "chunked",
    elapsed: Tensor | None = None,
) -> tuple[Tensor, AttentionState]:
    """Normalised causal linear attention, from a state to a state.

    output_m = Σ_{n≤m} w_mn·v_n / Σ_{n≤m} w_mn,  w_mn = φ(q_m)·φ(k_n)·exp(scale_n)·γ^(t_m−t_n),

    where t counts tokens, or adds up `elapsed`.

    Args:
        query_features: `(batch, length, heads, F)`, not negative.
        key_features: `(batch, length, heads, F)`, not negative.
        values: `(batch, length, heads, V)`.
        key_scale: `(batch, length, heads)`, log factors of the key features, constants to autograd; None means none.
        log_decay: `(heads,)`, log γ ≤ 0; None means no decay.
        state: The state before these tokens; None means an empty one.
        backend: Which implementation.
        elapsed: t_m − t_{m−1} ≥ 0, `(batch, length)`, for the first token since the state; None means 1 for each.

    Returns:
        The output `(batch, length, heads, V)` and the state after it.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    batch, length, heads, features = key_features.shape
    expected = (batch, length, heads)
    if query_features.shape != key_features.shape or values.shape[:3] != expected or values.dim() != 4:
        raise ValueError(
            "queries and keys must be (batch, length, heads, F) and values (batch, length, heads, V), not "
            f"{tuple(query_features.shape)}, {tuple(key_features.shape)} and {tuple(values.shape)}"
        )
    if key_scale is None:
        key_scale = values.new_zeros(expected)
    if log_decay is None:
        log_decay = values.new_zeros(heads)
    if state is None:
        state = AttentionState.empty(batch, heads, features, values.shape[-1], values)
    if elapsed is not None and elapsed.shape != (batch, length):
        raise ValueError(f"elapsed must be (batch, length), {(batch, length)}, not {tuple(elapsed.shape)}")
    return BACKENDS[backend](query_features, key_features, values, key_scale.detach(), log_decay, state, elapsed)
