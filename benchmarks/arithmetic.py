"""The arithmetic speed of a training step, against bare matrix products of the same shapes.

python benchmarks/arithmetic.py   # about three minutes

One thread, in seconds of the processor, in turns: a fair ratio even on a machine that has other work. What a step
computes is counted by torch, in matrix products alone. Everything else that a step does is what keeps it from 1.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).parent.parent))

import musicgen
from benchmarks.harness import Row, main, measure
from benchmarks.training_step import training_step
from musicgen.cli.config import compose, performer_config
from musicgen.model import PerformerConfig, PerformerLM

TURNS = 5
MODELS = {  # batch and length of a step
    "pop-small": (2, 2048),
    "groove-small": (2, 2048),
    "mini": (8, 512),
    "small": (8, 512),
    "paper, 8 layers": (1, 2048),
}


def config_of(name: str) -> PerformerConfig:
    """The config that a model is trained with; sineSPE for those that are chosen by size."""
    if name in ("pop-small", "groove-small"):
        return dataclasses.replace(musicgen.load(name).model.config, dropout=0.1)
    if name.startswith("paper"):
        return dataclasses.replace(PerformerConfig.paper("ape"), num_layers=8)
    return performer_config(compose("describe", [f"model={name}", "pe=sine"]))


def bare_products(model: nn.Module, rows: int) -> tuple[Callable[[], None], int]:
    """The products of all linear layers, forwards and backwards, and how many operations they are."""
    shapes = [(module.in_features, module.out_features) for module in model.modules() if isinstance(module, nn.Linear)]
    operands = [(torch.randn(rows, i), torch.randn(o, i), torch.randn(rows, o)) for i, o in shapes]

    def run() -> None:
        for inputs, weight, gradient in operands:
            inputs @ weight.T  # forward
            gradient @ weight  # gradient of the input
            gradient.T @ inputs  # gradient of the weight

    return run, sum(6 * rows * i * o for i, o in shapes)


def share(model_name: str) -> dict[str, float]:
    """Operations a second of a step and of bare products."""
    config, (batch, length) = config_of(model_name), MODELS[model_name]
    model = PerformerLM(config)
    moves = torch.rand(batch, length, generator=torch.Generator().manual_seed(0)) < 0.3
    step = training_step(model, config, batch, moves.cumsum(1).double() / 4 if config.needs_times else None, length)
    with FlopCounterMode(display=False) as counter:
        step()  # the warm-up too
    products, operations = bare_products(model, batch * length)
    products()
    work = {"step": (step, counter.get_total_flops()), "plain": (products, operations)}
    seconds: dict[str, list[float]] = {kind: [] for kind in work}
    for _ in range(TURNS):
        for kind, (run, _) in work.items():
            start = time.process_time()
            run()
            seconds[kind].append(time.process_time() - start)
    rates = {kind: work[kind][1] / statistics.median(times) / 1e9 for kind, times in seconds.items()}
    return {**rates, "share": rates["step"] / rates["plain"]}


def benchmark(threads: int) -> list[Row]:  # noqa: ARG001
    """A row for each model, with one thread."""
    rows = []
    for name in MODELS:
        result = measure(__file__, "share", model_name=name, threads=1)
        least = 0.7 if name.startswith("paper") else 0.6
        note = f"{result['step']:.0f} of {result['plain']:.0f} GFLOP/s"
        rows.append(Row(name, result["share"], "", f">= {least}", result["share"] >= least, note))
    return rows


if __name__ == "__main__":
    main(__file__, {"share": share}, benchmark, "A training step: share of the speed of plain matrix products")
