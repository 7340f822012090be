"""What encodings cost a training step: SPE against added sinusoids, and musical time against token indices.

python benchmarks/encodings.py            # 24 layers, about 10 minutes, up to 20 GB
python benchmarks/encodings.py --layers 6 # fewer layers: quicker, and the fixed cost of a code weighs more
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, main, measure
from benchmarks.training_step import LENGTH, training_step
from musicgen.model import PerformerConfig, PerformerLM

ENCODINGS = ("ape", "sine", "conv")
IN_TIME = ("ape", "rope", "sine", "conv")
BATCH = 4


def make(name: str, layers: int) -> PerformerLM:
    """The paper's gated model, of some layers: `sine` by token, `sine-time` by time."""
    pe, _, time = name.partition("-")
    config = PerformerConfig.paper("ape")
    if pe in ENCODINGS:
        config = PerformerConfig.paper(pe)  # type: ignore[arg-type]
    return PerformerLM(dataclasses.replace(config, pe=pe, num_layers=layers, positions=time or "token"))  # type: ignore[arg-type]


def step_of(model: PerformerLM) -> Callable[[], float]:
    """A training step. Times are as in pop piano: three tokens in ten begin a later sixteenth."""
    generator = torch.Generator().manual_seed(0)
    moves = torch.rand(BATCH, LENGTH, generator=generator) < 0.3
    sixteenths = torch.randint(1, 4, (BATCH, LENGTH), generator=generator)
    return training_step(model, model.config, BATCH, (moves * sixteenths).cumsum(1).double() / 4)


def memory(pe: str, layers: int) -> dict[str, float]:
    """One step, in a process of its own: its peak memory is what is asked for."""
    return {"loss": step_of(make(pe, layers))()}


def turns(names: list[str], layers: int, count: int) -> dict[str, float]:
    """Seconds of a step of each model. Steps alternate in one process, so that a busy neighbour slows all alike."""
    steps = {name: step_of(make(name, layers)) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(count + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if turn:  # the first is a warm-up
                seconds[name].append(time.perf_counter() - start)
    return {name: min(times) for name, times in seconds.items()}


def benchmark(threads: int) -> list[Row]:
    """All rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=24)
    layers = parser.parse_args().layers
    shared = {"layers": layers, "threads": threads}
    seconds = measure(__file__, "turns", names=ENCODINGS, count=2, **shared)
    peaks = {pe: measure(__file__, "memory", pe=pe, **shared)["peak_gb"] for pe in ENCODINGS}
    rows = []
    for pe, most_time, most_memory in (("sine", 1.25, 1.2), ("conv", 1.5, 1.3)):
        slower, larger = seconds[pe] / seconds["ape"], peaks[pe] / peaks["ape"]
        what = f"gated {pe} against ape, {layers} layers, batch {BATCH}: time"
        note = f"{seconds[pe]:.1f} s against {seconds['ape']:.1f} s"
        rows.append(Row(what, slower, "x", f"<= {most_time}", slower <= most_time, note))
        note = f"{peaks[pe]:.1f} GB against {peaks['ape']:.1f} GB"
        rows.append(Row("  peak memory", larger, "x", f"<= {most_memory}", larger <= most_memory, note))
    for pe in IN_TIME:  # pair by pair: four models of 24 layers do not fit a laptop's memory
        names = (pe, f"{pe}-time")
        pair = measure(__file__, "turns", names=names, count=2, **shared)
        peaks = {name: measure(__file__, "memory", pe=name, **shared)["peak_gb"] for name in names}
        slower, larger = (values[names[1]] / values[pe] for values in (pair, peaks))
        note = f"{pair[names[1]]:.1f} s against {pair[pe]:.1f} s; memory {larger:.2f} x"
        what = f"{pe} by musical time against by token: time"
        rows.append(Row(what, slower, "x", "<= 1.25", slower <= 1.25, note))
    return rows


if __name__ == "__main__":
    main(
        __file__,
        {"turns": turns, "memory": memory},
        benchmark,
        "Training step of the paper's models, 2,048 tokens: SPE against added sinusoids",
    )
