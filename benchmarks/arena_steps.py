"""The paper's twelve classifiers: what a training step costs, with SPE against absolute positions.

python benchmarks/arena_steps.py            # one thread, a few minutes of the processor

A step reads one example of full length (Retrieval: one pair), goes backwards, and updates all weights with Adam. A
short example goes first, so that nothing is loaded for the first time in the step that counts. Seconds are those of the
processor: a fair ratio even on a machine that has other work.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, main, measure
from musicgen.arena.classifier import SequenceClassifier
from musicgen.arena.config import ClassifierConfig
from musicgen.arena.options import ArenaConfig
from musicgen.arena.tasks import about
from musicgen.cli.config import compose
from musicgen.options import build

TASKS = ["listops", "text", "retrieval", "image"]
MOST = {"sine": (1.84, 2.08), "conv": (2.88, 2.09)}
"""Time and memory against ape that the paper measured on its GPU, with its models of music."""


def step(model: str) -> dict[str, float]:
    """Seconds of a training step of one of the paper's models."""
    config = build(ArenaConfig, compose("arena", [f"paper={model}"]))
    task, is_paired = about(config.task.name), config.task.name == "retrieval"
    size = ClassifierConfig.of(task, is_paired, config.task.length, config.model, config.pe)
    classifier = SequenceClassifier(size).train()
    optimizer = torch.optim.Adam(classifier.parameters(), 1e-4)

    def train(length: int) -> None:
        tokens = torch.randint(1, size.vocab_size, (1, 1 + is_paired, length))
        logits = classifier(tokens, torch.full(tokens.shape[:2], length), classifier.draw(0))
        F.cross_entropy(logits, torch.zeros(1, dtype=torch.long)).backward()
        optimizer.step()
        optimizer.zero_grad()

    train(32)
    start = time.process_time()
    train(config.task.length)
    return {"seconds": time.process_time() - start}


def benchmark(threads: int) -> list[Row]:  # noqa: ARG001
    """Time and memory of SPE against ape for each task, with one thread."""
    rows = []
    for task in TASKS:
        ape, *others = (measure(__file__, "step", model=f"{task}/{pe}", threads=1) for pe in ("ape", *MOST))
        for (pe, most), result in zip(MOST.items(), others, strict=True):
            for key, unit, limit, what in (
                ("seconds", "s", most[0], f"a step of {task}/{pe} against {task}/ape: time"),
                ("peak_gb", "GB", most[1], "  peak memory"),
            ):
                ratio, note = result[key] / ape[key], f"{result[key]:.2f} {unit} against {ape[key]:.2f} {unit}"
                rows.append(Row(what, ratio, "x", f"<= {limit}", ratio <= limit, note))
    return rows


if __name__ == "__main__":
    main(__file__, {"step": step}, benchmark, "A training step of the paper's classifiers")
