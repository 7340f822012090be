"""Generation, token by token: against the published recipe, against position, and against batch size.

python benchmarks/streaming.py            # the paper's 24-layer gated sine model, about 10 minutes
python benchmarks/streaming.py --layers 4 # fewer layers
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, best_time, main, measure
from musicgen.model import PerformerConfig, PerformerLM, State
from musicgen.sampling.sampler import times

PREFIX = 2_048


def make(layers: int, pe: str = "sine") -> PerformerLM:
    """The paper's gated model, of some layers."""
    config = dataclasses.replace(PerformerConfig.paper(pe), num_layers=layers)  # type: ignore[arg-type]
    return PerformerLM(config).eval()


def at(model: PerformerLM, position: int, batch: int = 1) -> State:
    """A state at a position. What it remembers does not matter to the time of a step; where it is might."""
    tokens = torch.randint(model.config.vocab_size, (batch, 16))
    beats = times(model, [np.arange(tokens.shape[1]) / 8] * batch)
    _, state = model.prefill(tokens, model.init_state(model.draw(0), batch), **beats)
    return dataclasses.replace(state, positions=(position,) * batch)


def tokens_time(model: PerformerLM, state: State, count: int) -> float:
    """Seconds for each of `count` steps."""
    token = torch.zeros(len(state.positions), dtype=torch.long)
    start = time.perf_counter()
    for _ in range(count):
        _, state = model.step(token, state)
    return (time.perf_counter() - start) / count


def ours(layers: int, batch: int, pe: str = "sine") -> dict[str, float]:
    """Seconds of a step of a batch, best of several runs of 32 (whole blocks of codes, so their cost is in it)."""
    model = make(layers, pe)
    state = at(model, PREFIX, batch)
    tokens_time(model, state, 8)
    return {"seconds": min(tokens_time(model, state, 32) for _ in range(4))}


def recipe(layers: int) -> dict[str, float]:
    """Seconds for one token after a prefix of 2,047, by running the prefix again."""
    from benchmarks.recipe import RecipeLM

    config = dataclasses.replace(PerformerConfig.paper("sine"), num_layers=layers)
    model = RecipeLM(config).eval()
    tokens = torch.randint(config.vocab_size, (1, PREFIX))
    with torch.no_grad():
        return {"seconds": best_time(lambda: model(tokens), repeats=2)}


def positions(layers: int, pe: str) -> dict[str, float]:
    """Time of a step around positions 1,000 and 100,000, turn by turn; memory over 20,000 more positions' blocks."""
    model = make(layers, pe)
    near, far = at(model, 1_000), at(model, 100_000)
    count = 64  # whole blocks of codes
    tokens_time(model, near, count)
    tokens_time(model, far, 4 * count)  # until the bounded caches of codes and noise are full
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    near_times, far_times = [], []
    for turn in range(6):
        offset = turn * 4_000
        near_times.append(tokens_time(model, dataclasses.replace(near, positions=(1_000 + offset % 64,)), count))
        far_times.append(tokens_time(model, dataclasses.replace(far, positions=(100_000 + offset,)), count))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    state_growth = float(far.nbytes - near.nbytes)
    return {"near": min(near_times), "far": min(far_times), "grown_mb": grown, "state_growth": state_growth}


def benchmark(threads: int) -> list[Row]:
    """All rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=24)
    layers = parser.parse_args().layers
    # Thread count for single tokens is measured too: these products are small.
    singles = {count: measure(__file__, "ours", layers=layers, batch=1, threads=count) for count in {1, threads}}
    few = min(singles, key=lambda count: singles[count]["seconds"])
    single = singles[few]["seconds"]

    published = measure(__file__, "recipe", layers=layers, threads=threads, kept=False)["seconds"]
    gain = published / single
    note = f"{single * 1e3:.1f} ms against {published:.1f} s"
    rows = [Row("token 2,048 of a piece, gated sine: against the recipe", gain, "x", ">= 400", gain >= 400, note)]

    for pe in ("sine", "conv"):
        flat = measure(__file__, "positions", layers=layers, pe=pe, threads=few)
        ratio = flat["far"] / flat["near"]
        rows += [
            Row(f"time of a token at 100,000 against 1,000, gated {pe}", ratio, "x", "<= 1.1", ratio <= 1.1),
            Row("  growth of the state", flat["state_growth"], "B", "0", flat["state_growth"] == 0),
            Row("  growth of peak memory over later blocks", flat["grown_mb"], "MB", "0", flat["grown_mb"] < 1),
        ]

    batches = {count: measure(__file__, "ours", layers=layers, batch=16, threads=count) for count in {1, threads}}
    batch = min(result["seconds"] for result in batches.values())
    faster = 16 * single / batch
    rows.append(Row("tokens/s of batch 16 against batch 1", faster, "x", ">= 5", faster >= 5))
    return rows


if __name__ == "__main__":
    main(
        __file__,
        {"ours": ours, "recipe": recipe, "positions": positions},
        benchmark,
        "Generation, one token at a time",
    )
