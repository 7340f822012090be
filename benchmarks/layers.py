"""What the options of a layer cost: a training step and a streamed token of small models, against the plain layer.

python benchmarks/layers.py   # about two minutes
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, main, measure
from benchmarks.training_step import training_step
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.model.size import state_bytes

BATCH, LENGTH, TURNS = 8, 512, 7
PLAIN = PerformerConfig(
    vocab_size=361, num_layers=3, num_heads=4, d_model=128, d_ff=512, num_features=64, pe="none", decay="fixed"
)
ROTATED: dict[str, Any] = {"pe": "rope", "positions": "time"}
GATES: dict[str, Any] = {"gated_ff": True, "head_norm": True, "output_gate": True}
OPTIONS: dict[str, dict[str, Any]] = {
    "a short convolution of 4": {"short_conv": 4},
    "normalised before": {"norm": "pre"},
    "a gated feed-forward": {"gated_ff": True},
    "normalised heads": {"head_norm": True},
    "an output gate": {"output_gate": True},
    "rotation by musical time": ROTATED,
    "a decay by musical time": {"decay_positions": "time"},
    "the delta rule, 2 heads": {"attention": "delta", "num_heads": 2},
    "all of the best layer": {**ROTATED, **GATES, "short_conv": 4, "attention": "delta", "num_heads": 2},
}


def model_of(name: str) -> PerformerLM:
    """The plain layer, or one with an option."""
    return PerformerLM(dataclasses.replace(PLAIN, **OPTIONS.get(name, {})))


def beats(length: int) -> torch.Tensor:
    """Times as in pop piano: three tokens in ten begin a later sixteenth. `(batch, length)`."""
    moves = torch.rand(BATCH, length, generator=torch.Generator().manual_seed(0)) < 0.3
    return moves.cumsum(1).double() / 4


def turns(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The best seconds of each function. Calls alternate, so that a busy neighbour slows all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(TURNS + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn:  # the first is a warm-up
                seconds[name].append(time.perf_counter() - start)
    return {name: min(times) for name, times in seconds.items()}


def training() -> dict[str, float]:
    """Seconds of a training step of each layer."""
    steps: dict[str, Callable[[], object]] = {}
    for name in ("plain", *OPTIONS):
        model = model_of(name)
        times = beats(LENGTH) if model.config.needs_times else None
        steps[name] = training_step(model, model.config, BATCH, times, LENGTH)
    return turns(steps)


def streaming(tokens: int = 50) -> dict[str, float]:
    """Seconds of some streamed tokens of each layer, at batch 1."""

    def stream(model: PerformerLM) -> Callable[[], object]:
        start = model.init_state(model.draw(0))
        times = beats(tokens)[:1] if model.config.needs_times else None

        def run() -> None:
            state = start
            for index in range(tokens):
                own = None if times is None else times[:, index]
                _, state = model.step(torch.tensor([index]), state, own)

        return run

    return turns({name: stream(model_of(name).eval()) for name in ("plain", *OPTIONS)})


def benchmark(threads: int) -> list[Row]:
    """A row for each option."""
    steps = measure(__file__, "training", threads=threads)
    stream = measure(__file__, "streaming", threads=threads)
    plain = state_bytes(PLAIN)
    rows = []
    for name in OPTIONS:
        speed = steps["plain"] / steps[name]
        is_best = name == "all of the best layer"
        own = state_bytes(dataclasses.replace(PLAIN, **OPTIONS[name]))
        note = f"a streamed token takes {stream[name] / stream['plain']:.2f} ×, the state is {own / plain:.2f} ×"
        what = f"training speed with {name}, against the plain layer"
        rows.append(Row(what, speed, "x", ">= 0.8" if is_best else "", speed >= 0.8 or not is_best, note))
    return rows


if __name__ == "__main__":
    main(
        __file__,
        {"training": training, "streaming": streaming},
        benchmark,
        "The options of a layer: 3 layers of width 128 with a decay, batches of 8 windows of 512 tokens",
    )
