"""Generation by torch: tokens a second by batch, against the memory's speed, the position and the recipe.

engines.py compares torch with onnxruntime.

python benchmarks/generation.py           # the paper's model and the small one, about 10 minutes

A row of a batch of one reads every weight for each token, so the bound is the time of reading as many bytes, measured
in the same process with the same threads. Steps are of `PerformerLM.step` alone; "the command" is what
`musicgen generate` does, with masks, choices and bars.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, best_time, main, measure
from benchmarks.streaming import PREFIX, at, recipe, tokens_time
from musicgen.languages import Remi
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.sampling import MusicModel, Request, Session

BATCHES = {4: 2.0, 16: 4.0, 64: 6.0}  # beyond one, and how many times the tokens/s of one are to be reached
POSITIONS = [100, 1_000, 10_000]
SIZES = {
    "paper": PerformerConfig.paper("sine"),
    "small": PerformerConfig(333, num_layers=6, num_heads=4, d_model=256, d_ff=1024),
}
SHARES = {"paper": 0.7, "small": 0.7}  # of what the memory allows, to be reached
RUN = 16  # steps timed at a time: a whole block of codes, so that their cost is in it


def make(size: str) -> PerformerLM:
    """A model of a size."""
    return PerformerLM(SIZES[size]).eval()


def bandwidth() -> float:
    """Bytes a second that a sum reads."""
    numbers = torch.ones(60_000_000)
    return numbers.nbytes / best_time(numbers.sum, repeats=8)


def steps(size: str, batch: int) -> dict[str, float]:
    """Tokens a second of a batch, and how many reading every weight once for each step would allow."""
    model = make(size)
    state = at(model, PREFIX, batch)
    tokens_time(model, state, RUN)
    seconds = min(tokens_time(model, state, RUN) for _ in range(8))
    weights = 4 * model.num_parameters()
    return {"rate": batch / seconds, "bound": batch * bandwidth() / weights}


def command(size: str, batch: int) -> dict[str, float]:
    """Tokens a second of what `musicgen generate` does, but for writing files."""
    language = Remi()
    model = PerformerLM(dataclasses.replace(SIZES[size], vocab_size=len(language.vocabulary))).eval()
    session = Session(MusicModel(model, language, engine="torch"), Request(tokens=10_000), batch)
    steps = session.run(batch)
    for _ in range(batch * RUN):
        next(steps)
    rates = []
    for _ in range(8):
        start = time.perf_counter()
        for _ in range(batch * RUN):
            next(steps)
        rates.append(batch * RUN / (time.perf_counter() - start))
    return {"rate": max(rates)}


def places(size: str) -> dict[str, float]:
    """Seconds of a token at each position, turn by turn."""
    model = make(size)
    start = at(model, 0)
    times: dict[int, list[float]] = {position: [] for position in POSITIONS}
    for turn in range(8):
        for position in POSITIONS:
            beginning = position // RUN * RUN + turn * RUN  # of a block that has yet to be built, like any other
            state = dataclasses.replace(start, positions=(beginning,))
            times[position].append(tokens_time(model, state, RUN))
    return {str(position): min(values[1:]) for position, values in times.items()}


def fastest(size: str, batch: int) -> tuple[int, dict[str, float]]:
    """`steps` with the number of threads that is best for them, of one and of as many as there are cores."""
    counts = sorted({1, os.cpu_count() or 1})
    results = {count: measure(__file__, "steps", size=size, batch=batch, threads=count) for count in counts}
    best = max(results, key=lambda count: results[count]["rate"])
    return best, results[best]


def by_batch(size: str) -> tuple[int, float, list[Row]]:
    """The threads and the tokens a second of batch 1, and a row for each batch."""
    threads, single = fastest(size, 1)
    share, target = single["rate"] / single["bound"], SHARES[size]
    what = f"{size} size, batch 1: share of the tokens/s that reading the weights allows"
    note = f"{threads} thread(s), {1000 / single['rate']:.1f} ms a step"
    rows = [Row(what, share, "", f">= {target}", share >= target, note)]
    whole = measure(__file__, "command", size=size, batch=1, threads=threads)["rate"]
    share = whole / single["bound"]
    note = f"{whole:.0f} tokens/s"
    rows.append(Row("  the command: the same share", share, "", f">= {target}", share >= target, note))
    for batch, least in BATCHES.items():
        count, result = fastest(size, batch)
        gain = result["rate"] / single["rate"]
        note = f"{count} thread(s), {1000 * batch / result['rate']:.1f} ms a step"
        rows.append(Row(f"  batch {batch}: tokens/s against batch 1", gain, "x", f">= {least}", gain >= least, note))
    return threads, single["rate"], rows


def by_position(size: str, threads: int) -> Row:
    """The slowest of some positions against the first."""
    flat = measure(__file__, "places", size=size, threads=threads)
    seconds = [flat[str(position)] for position in POSITIONS]
    ratio = max(seconds) / seconds[0]
    note = ", ".join(f"{1000 * each:.1f} ms at {position:,}" for each, position in zip(seconds, POSITIONS, strict=True))
    return Row("  time of a token further on against the first", ratio, "x", "<= 1.1", ratio <= 1.1, note)


def against_recipe(rate: float, threads: int) -> Row:
    """The paper's model at token 2,048 against running the prefix again."""
    layers = SIZES["paper"].num_layers
    published = measure(__file__, "recipe", layers=layers, threads=threads, kept=False)["seconds"]
    note = f"{1000 / rate:.1f} ms against {published:.1f} s"
    return Row("  token 2,048 against the recipe", published * rate, "x", ">= 400", published * rate >= 400, note)


def benchmark(threads: int) -> list[Row]:
    """All rows."""
    rows = []
    for size in SIZES:
        single_threads, rate, of_size = by_batch(size)
        rows += [*of_size, by_position(size, single_threads)]
        if size == "paper":
            rows.append(against_recipe(rate, threads))
    return rows


if __name__ == "__main__":
    main(
        __file__,
        {"steps": steps, "command": command, "places": places, "recipe": recipe},
        benchmark,
        "Generation: tokens a second",
    )
