"""Where FFT convolution of code noise becomes cheaper than the direct form, against the rule in musicgen/spe/conv.py.

python benchmarks/convolution.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, best_time, main, measure
from musicgen.spe import ConvSPE
from musicgen.spe import conv as implementation

HEADS, FEATURES, REALIZATIONS = 4, 32, 32


def both(taps: int, outputs: int) -> dict[str, float]:
    """Seconds of both codes by either form."""
    code = ConvSPE(HEADS, FEATURES, REALIZATIONS, taps).requires_grad_(False)
    noise = torch.randn(outputs + taps - 1, HEADS, FEATURES, REALIZATIONS)
    prepared = code.prepare(code.draw(0))
    direct = best_time(lambda: [implementation._toeplitz_convolution(noise, m) for m in prepared[2:]], repeats=3)
    fft = best_time(lambda: [c.contiguous() for c in implementation._fft_convolutions(noise, prepared[:2])], repeats=3)
    return {"direct": direct, "fft": fft}


def benchmark(threads: int) -> list[Row]:
    """How much slower the rule's choice is than the better one, for each size."""
    rows = []
    for taps in (32, 128, 512, 1_024, 2_048):
        for outputs in (64, 512, 2_048):
            result = measure(__file__, "both", taps=taps, outputs=outputs, threads=threads)
            chosen = "fft" if implementation.fft_is_cheaper((outputs + taps - 1,), (taps,)) else "direct"
            loss = result[chosen] / min(result.values())
            what = f"filter {taps:,}, {outputs:,} positions: the rule takes {chosen}; against the better"
            rows.append(Row(what, loss, "x", "<= 2", loss <= 2))
    return rows


if __name__ == "__main__":
    main(__file__, {"both": both}, benchmark, "Direct against FFT convolution of code noise")
