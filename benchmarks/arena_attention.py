"""Where linear attention begins to pay: against softmax attention, which is quadratic, at 1k to 16k tokens.

python benchmarks/arena_attention.py            # one thread, half a minute of the processor

Attention is measured alone, forwards and backwards, for one head of the shape that the paper's Text models have. The
rivals are torch's fused softmax attention, which never has the whole matrix in memory, and plain softmax attention,
which has. Seconds are those of the processor: a fair ratio even on a machine that has other work.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, main, measure
from musicgen.attention import feature_map, linear_attention, softmax_attention
from musicgen.runtime import peak_memory
from musicgen.spe import Draw

LENGTHS = [1_024, 2_048, 4_096, 8_192, 16_384]
KINDS = {"linear": 16_384, "fused": 16_384, "plain": 8_192}
"""Kinds of attention, and the longest sequence for each: the matrices of plain attention soon need gigabytes."""
HEADS, FEATURES, RANDOM_FEATURES = 1, 64, 256


def attention(kind: str, longest: int) -> dict[str, float]:
    """Seconds of attention, forwards and backwards, at each length, and the peak memory until then in GB."""
    short = (torch.randn(1, 32, HEADS, FEATURES, requires_grad=True) for _ in range(3))
    _attended(kind, *short).sum().backward()  # so that nothing is loaded for the first time in what counts
    found = {}
    for length in (length for length in LENGTHS if length <= longest):
        queries, keys, values = (torch.randn(1, length, HEADS, FEATURES, requires_grad=True) for _ in range(3))
        start = time.process_time()
        _attended(kind, queries, keys, values).sum().backward()
        found[f"seconds {length}"] = time.process_time() - start
        found[f"gb {length}"] = peak_memory()
    return found


def _attended(kind: str, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    if kind == "plain":
        return softmax_attention(queries, keys, values, causal=False)
    if kind == "fused":
        by_head = queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        return F.scaled_dot_product_attention(*by_head).transpose(1, 2)
    features = feature_map("favor", Draw(0, FEATURES), 0, FEATURES, RANDOM_FEATURES)
    key_features, key_scale = features.keys(keys)
    return linear_attention(features.queries(queries), key_features, values, key_scale, None)


def benchmark(threads: int) -> list[Row]:  # noqa: ARG001
    """A row for each length and rival, with one thread."""
    found = {kind: measure(__file__, "attention", kind=kind, longest=KINDS[kind], threads=1) for kind in KINDS}
    linear, rows = found.pop("linear"), []
    for length in LENGTHS:
        for kind in (kind for kind in found if length <= KINDS[kind]):
            own, its = linear[f"seconds {length}"], found[kind][f"seconds {length}"]
            memory = linear[f"gb {length}"], found[kind][f"gb {length}"]
            note = f"{1000 * own:.0f} ms against {1000 * its:.0f} ms; {memory[0]:.2f} GB against {memory[1]:.2f} GB"
            what = f"{length:,} tokens: speed of linear against {kind} softmax attention"
            rows.append(Row(what, its / own, "x", ">= 1", its >= own, note))
    return rows


if __name__ == "__main__":
    main(__file__, {"attention": attention}, benchmark, "Linear against softmax attention")
