"""Preparing grooves and drawing training examples of them: against what training can take.

python benchmarks/grooves.py            # about 2 minutes

MUSICGEN_DATA names the folder that holds `grooves`; without it, grooves of the built-in band are measured.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from torch.nn import functional as F

from benchmarks.harness import Row, best_time, main, measure
from musicgen.cli.config import compose
from musicgen.cli.main import main as musicgen
from musicgen.data.batches import IGNORED, Batches
from musicgen.data.corpus import Corpus
from musicgen.data.prepare import synthetic_corpus
from musicgen.model import PerformerLM
from musicgen.options import build
from musicgen.training.config import TrainConfig
from musicgen.training.initial import model_size

LENGTH, BATCH = 512, 10


def real_grooves() -> Path | None:
    """The folder of real grooves, if there is one."""
    root = Path(os.environ.get("MUSICGEN_DATA", Path(__file__).parents[2] / "shared" / "data"))
    return root / "grooves" if (root / "grooves").is_dir() else None


def command(workers: int) -> dict[str, float]:
    """Seconds of `musicgen prepare`, and files a second."""
    source = real_grooves()
    words = ["source=synthetic_grooves", "songs=300", "bars=64"] if source is None else [f"input={source}"]
    with tempfile.TemporaryDirectory() as output:
        start = time.perf_counter()
        musicgen(["prepare", *words, f"out={output}/corpus", f"workers={workers}"])
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "files": len(Corpus.open(f"{output}/corpus").index)}


def loading() -> dict[str, float]:
    """Examples a second, drawn, encoded and counted; from a corpus that is on disk, and warm."""
    source = real_grooves()
    with tempfile.TemporaryDirectory() as output:
        if source is None:
            corpus = synthetic_corpus("synthetic_grooves", 300, 64, 0)
        else:
            musicgen(["prepare", f"input={source}", f"out={output}/corpus"])
            corpus = Corpus.open(f"{output}/corpus")
        windows = Batches(corpus, length=LENGTH, batch_size=BATCH, transpose=5)

        def draw(steps: range) -> None:
            for step in steps:
                windows.part(step, range(BATCH))
                windows.num_targets(step)

        rounds = iter(range(0, 10_000, 100))

        def some() -> None:
            first = next(rounds)
            draw(range(first, first + 100))

        return {"examples_per_second": 100 * BATCH / best_time(some, repeats=5, warmup=2)}


def training(experiment: str, batch: int) -> dict[str, float]:
    """Examples a second that a step takes (forward, backward, Adam), and nothing beside it."""
    config = build(TrainConfig, compose("train", [f"experiment={experiment}"]))
    corpus = synthetic_corpus("synthetic_grooves", 30, 32, 0)
    inputs, targets, _ = Batches(corpus, length=LENGTH, batch_size=batch, transpose=5)[0]
    model = PerformerLM(model_size(config, len(corpus.language.vocabulary), None)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        logits = model(inputs, model.draw(0))
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return {"examples_per_second": batch / best_time(step, repeats=3)}


def benchmark(threads: int) -> list[Row]:
    """All rows."""
    whole = measure(__file__, "command", workers=2, threads=1)
    drawn = measure(__file__, "loading", threads=1)["examples_per_second"]
    small = measure(__file__, "training", experiment="small/groove_sine", batch=16, threads=threads)
    paper = measure(__file__, "training", experiment="groove/sine", batch=2, threads=threads)
    rows = [
        Row("examples of 512 tokens drawn, one process", drawn, "/s", ">= 1000", drawn >= 1000),
    ]
    for name, taken in (("the small", small["examples_per_second"]), ("the paper's", paper["examples_per_second"])):
        note = f"{drawn:,.0f} against {taken:,.1f} a second"
        what = f"  against those that a step of {name} sine model takes"
        rows.append(Row(what, drawn / taken, "x", ">= 20", drawn >= 20 * taken, note))
    rate = whole["files"] / whole["seconds"]
    note = f"{whole['files']:,.0f} files in {whole['seconds']:.0f} s"
    rows.append(Row("files prepared, the whole command with 2 workers", rate, "/s", ">= 20", rate >= 20, note))
    return rows


if __name__ == "__main__":
    main(
        __file__,
        {"command": command, "loading": loading, "training": training},
        benchmark,
        "Preparing grooves and drawing examples of them",
    )
