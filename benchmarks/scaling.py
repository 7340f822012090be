"""The cost of one forward pass against length: it must be linear.

python benchmarks/scaling.py            # 1k to 32k tokens, 2 layers of the paper's width, a few minutes
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, best_time, main, measure
from musicgen.model import PerformerConfig, PerformerLM

LENGTHS = [1_024, 2_048, 4_096, 8_192, 16_384, 32_768]


def forward(length: int, pe: str) -> dict[str, float]:
    """Seconds of a forward pass."""
    config = dataclasses.replace(PerformerConfig.paper(pe), num_layers=2)  # type: ignore[arg-type]
    model = PerformerLM(config).eval()
    tokens = torch.randint(config.vocab_size, (1, length))
    with torch.no_grad():
        return {"seconds": best_time(lambda: model(tokens, model.draw(0)), repeats=3)}


def benchmark(threads: int) -> list[Row]:
    """A row for each doubling."""
    rows = []
    for pe in ("ape", "sine"):
        turns = [[measure(__file__, "forward", length=n, pe=pe, threads=threads) for n in LENGTHS] for _ in range(2)]
        seconds = [min(turn[index]["seconds"] for turn in turns) for index in range(len(LENGTHS))]
        for index, length in enumerate(LENGTHS[1:], start=1):
            ratio = seconds[index] / seconds[index - 1]
            what = f"forward of {length:,} tokens against {LENGTHS[index - 1]:,}, {pe}"
            rows.append(Row(what, ratio, "x", "<= 2.1", ratio <= 2.1, f"{seconds[index]:.2f} s"))
        whole = seconds[-1] / seconds[0]
        rows.append(Row(f"  all five doublings, {pe}", whole, "x", f"<= {2.1**5:.0f}", whole <= 2.1**5))
    return rows


if __name__ == "__main__":
    main(__file__, {"forward": forward}, benchmark, "One forward pass against length, 2 layers of the paper's width")
