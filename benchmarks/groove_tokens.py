"""Groove tokens by sorting: against a plain loop over notes.

python benchmarks/groove_tokens.py     # about a minute

MUSICGEN_DATA names the folder that holds `grooves`; without it, random trios are measured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.harness import Row, best_time, main, measure
from benchmarks.plain_groove import encode_plainly
from musicgen.languages import Groove, quantise_trio
from musicgen.midi.read import parse_file
from musicgen.midi.score import Notes, make_notes

SAMPLE = 8
REPEATS = 150
GROOVE = Groove()


def trios() -> tuple[str, list[Notes]]:
    """What they are, and notes of trios of 64 bars."""
    folder = Path(os.environ.get("MUSICGEN_DATA", Path(__file__).parents[2] / "shared" / "data")) / "grooves"
    paths = sorted(folder.rglob("*.mid"))
    if paths:
        sample = paths[:: max(1, len(paths) // SAMPLE)][:SAMPLE]
        return "trios of real files of 64 bars", [quantise_trio(parse_file(path))[0].notes for path in sample]
    random = np.random.default_rng(0)
    start = np.sort(random.integers(0, 64 * 48, (SAMPLE, 2000)))
    end, pitch = start + random.integers(1, 24, start.shape), random.integers(36, 72, start.shape)
    track = random.integers(0, 3, start.shape)
    return "random trios of 64 bars", [
        make_notes(start[i], end[i], pitch[i], velocity=64, track=track[i]) for i in range(SAMPLE)
    ]


def time_of(encode: Callable[[Notes], object]) -> dict[str, float]:
    """Seconds a trio, the best of many calls for each: a call is short, and the machine is shared."""
    return {"seconds": float(np.mean([best_time(partial(encode, notes), REPEATS) for notes in trios()[1]]))}


def plain() -> dict[str, float]:
    """Seconds a trio of the plain loop."""
    return time_of(encode_plainly)


def sorting() -> dict[str, float]:
    """Seconds a trio of ours."""
    return time_of(GROOVE.encode_notes)


def decoding() -> dict[str, float]:
    """Seconds to decode 1,000 tokens."""
    tokens = GROOVE.encode_notes(trios()[1][0])[:1000]
    return {"seconds": best_time(lambda: GROOVE.decode(tokens), REPEATS)}


def masking() -> dict[str, float]:
    """Seconds of a mask of the grammar, the mean over the states of a piece."""
    state, times = GROOVE.grammar.start(), []
    for token in GROOVE.encode_notes(trios()[1][0])[:500].tolist():
        times.append(best_time(state.mask, 20))
        state.advance(token)
    return {"seconds": float(np.mean(times))}


def benchmark(threads: int) -> list[Row]:
    """All rows; what is compared takes turns."""
    turns = [
        (
            measure(__file__, "plain", threads=threads)["seconds"],
            measure(__file__, "sorting", threads=threads)["seconds"],
        )
        for _ in range(3)
    ]
    slow, fast = (min(turn[side] for turn in turns) for side in (0, 1))
    decoded = 1e3 * measure(__file__, "decoding", threads=threads)["seconds"]
    mask = 1e6 * measure(__file__, "masking", threads=threads)["seconds"]
    return [
        Row(
            f"{trios()[0]}: encoding against a plain loop",
            slow / fast,
            "x",
            ">= 20",
            slow >= 20 * fast,
            f"{1e3 * fast:.2f} ms against {1e3 * slow:.2f} ms",
        ),
        Row("decoding 1,000 tokens", decoded, "ms", "<= 2", decoded <= 2),
        Row("the grammar's mask of 794 tokens", mask, "µs", "<= 40", mask <= 40),
    ]


if __name__ == "__main__":
    main(
        __file__,
        {"plain": plain, "sorting": sorting, "decoding": decoding, "masking": masking},
        benchmark,
        "Groove tokens",
    )
