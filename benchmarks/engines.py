"""The engines that run a step: onnxruntime against torch, and both against the speed of the memory.

python benchmarks/engines.py           # the built-in models and the paper's size, about 3 minutes

A row of a batch of one reads every weight for each token, so the bound is the time of reading as many bytes. Engines,
and the reading of the bound, take turns in one process with one thread. The median of the turns counts, in seconds of
the processor: a fair ratio even on a machine that has other work.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

import musicgen
from benchmarks.harness import Row, main, measure
from benchmarks.streaming import PREFIX, at
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.model.engine import EngineName, make_engine
from musicgen.sampling.sampler import times

BUILT_IN = ["pop-small", "groove-small"]
ENGINES: tuple[EngineName, ...] = ("onnx", "torch")
TURNS = 5
BATCHES = [1, 16, 64]
FASTER = {"pop-small": 3.0, "groove-small": 3.0, "paper": 1.2}  # to be reached by onnx at batch 1
SHARES = {"pop-small": 0.7, "groove-small": 0.7, "paper": 0.7}


def _turns(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median seconds of each work, in turns."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(TURNS + 1):
        for name, run in work.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def _model(name: str) -> PerformerLM:
    return musicgen.load(name).model if name in BUILT_IN else PerformerLM(PerformerConfig.paper("sine")).eval()


def steps(size: str, batch: int) -> dict[str, float]:
    """Seconds of a step by each engine, and of reading the weights once."""
    model = _model(size)
    state, token = at(model, PREFIX, batch), torch.zeros(batch, dtype=torch.long)
    beats = times(model, [PREFIX / 8] * batch)
    count = max(2, (16 if size == "paper" else 200) // batch)
    numbers = torch.ones(60_000_000)  # far more than the caches hold

    def run(engine: EngineName) -> Callable[[], object]:
        runner = make_engine(model, engine)

        def several() -> None:
            after = state
            for _ in range(count):
                _, after = runner.step(token, after, **beats)

        return several

    seconds = _turns({**{engine: run(engine) for engine in ENGINES}, "reading": numbers.sum})
    weights = 4 * model.num_parameters()
    return {
        **{engine: seconds[engine] / count for engine in ENGINES},
        "bound": seconds["reading"] * weights / numbers.nbytes,
    }


def piece(size: str) -> dict[str, float]:
    """Seconds of a token of a piece of 16 bars in Python by each engine, and how many tokens it has."""
    models = {engine: musicgen.load(size, engine) for engine in ENGINES}
    seconds: dict[str, float] = {}
    tokens = 0
    for engine, model in models.items():
        next(model.stream(bars=1))  # what is made once
        start = time.process_time()
        tokens = sum(1 for _ in model.stream(bars=16, seed=2))
        seconds[engine] = (time.process_time() - start) / tokens
    return {**seconds, "tokens": tokens}


def benchmark(threads: int) -> list[Row]:  # noqa: ARG001
    """All rows, with one thread: a small model is too little work to share."""
    rows = []
    for name in (*BUILT_IN, "paper"):
        for batch in BATCHES:
            result = measure(__file__, "steps", size=name, batch=batch, threads=1)
            ratio, note = result["torch"] / result["onnx"], f"{1000 * result['onnx']:.2f} ms a step"
            least = FASTER[name] if batch == 1 else 1.0
            what = f"{name}, batch {batch}: tokens/s of onnx against torch"
            rows.append(Row(what, ratio, "x", f">= {least}", ratio >= least, note))
            if batch == 1:
                for engine in ENGINES:
                    share = result["bound"] / result[engine]
                    what = f"  {engine}: share of the tokens/s that reading the weights allows"
                    rows.append(Row(what, share, "", f">= {SHARES[name]}", share >= SHARES[name]))
        if name in BUILT_IN:
            result = measure(__file__, "piece", size=name, threads=1)
            ratio = result["torch"] / result["onnx"]
            what, note = "  a token of a piece of 16 bars, masks and choices included", f"{result['tokens']:.0f} tokens"
            rows.append(Row(what, ratio, "x", ">= 2.5", ratio >= 2.5, note))
    return rows


if __name__ == "__main__":
    main(__file__, {"steps": steps, "piece": piece}, benchmark, "Engines: onnxruntime against torch")
