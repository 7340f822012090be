"""The training application against a bare training step, and what it waits for.

python benchmarks/training.py            # about 5 minutes

Both train the same model, in turns. The bare step is a loop of forward, loss, backward, clipping and Adam on one batch
that never changes: no framework, no data, no log.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, main, measure
from musicgen.cli.config import compose
from musicgen.cli.main import main as musicgen
from musicgen.data.batches import IGNORED
from musicgen.model import PerformerLM
from musicgen.options import build
from musicgen.training.config import TrainConfig
from musicgen.training.initial import model_size
from musicgen.training.loaders import training_windows
from musicgen.training.run import load_corpus
from musicgen.training.table import read_table

STEPS = 30
RUN = ["data.songs=60", "batch_size=8", "data.length=512", f"trainer.max_steps={STEPS}", "trainer.log_every=1"]


def _config(model: str, *more: str) -> tuple[TrainConfig, dict[str, Any]]:
    composed = compose("train", [f"model={model}", "pe=sine", *RUN, *more])
    return build(TrainConfig, composed), composed


def bare(model: str) -> dict[str, float]:
    """Seconds of a bare step: the median."""
    config, _ = _config(model)
    corpus = load_corpus(config.data, 0)
    batch = training_windows(corpus, config.data, config.batch_size, config.seed)[0]
    network = PerformerLM(model_size(config, len(corpus.language.vocabulary), None)).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
    times = []
    for step in range(STEPS):
        start = time.perf_counter()
        logits = network(batch.inputs, network.draw(step))
        loss = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()
        times.append(time.perf_counter() - start)
    return {"seconds": sorted(times[5:])[len(times[5:]) // 2]}


def application(model: str) -> dict[str, float]:
    """Seconds of a step of `musicgen train`, by its own log: the median."""
    config, _ = _config(model)
    with tempfile.TemporaryDirectory() as folder:
        threads = f"trainer.threads={torch.get_num_threads()}"
        arguments = ["train", f"model={model}", "pe=sine", *RUN, threads, "validation.every=1000000"]
        musicgen([*arguments, "trainer.checkpoint_every=1000000", "validation.songs=1", f"run_dir={folder}/run"])
        rows = read_table(Path(folder) / "run" / "metrics.csv")
    speeds = sorted(row["train/tokens_per_second"] for row in rows[5:] if "train/loss" in row)
    return {"seconds": config.batch_size * config.data.length / speeds[len(speeds) // 2]}


def loading(model: str) -> dict[str, float]:
    """Seconds to make a batch."""
    config, _ = _config(model)
    data = config.data
    windows = training_windows(load_corpus(data, 0), data, config.batch_size, config.seed)
    start = time.perf_counter()
    for step in range(200):
        windows.part(step, range(config.batch_size))
        windows.num_targets(step)
    return {"seconds": (time.perf_counter() - start) / 200}


def benchmark(threads: int) -> list[Row]:
    """Speed of the application as a share of the bare step's, and the share of a step that data take."""
    rows = []
    for model in ("mini", "small"):
        turns = [
            tuple(measure(__file__, name, model=model, threads=threads)["seconds"] for name in ("bare", "application"))
            for _ in range(3)
        ]
        step, run = (min(turn[side] for turn in turns) for side in (0, 1))
        share = step / run
        what = f"speed of `musicgen train` as a share of the bare step's, model={model}"
        rows.append(Row(what, share, "", ">= 0.95", share >= 0.95, f"{run * 1e3:.0f} ms against {step * 1e3:.0f} ms"))
        wait = measure(__file__, "loading", model=model, threads=threads)["seconds"] / run
        rows.append(Row("  share of a step in which a batch is made", wait, "", "<= 0.02", wait <= 0.02))
    return rows


if __name__ == "__main__":
    main(
        __file__,
        {"bare": bare, "application": application, "loading": loading},
        benchmark,
        "The training application against a bare step, 8 windows of 512 tokens, gated sine",
    )
