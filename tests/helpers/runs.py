"""Small runs for tests."""

from __future__ import annotations

import sys
from pathlib import Path

from forked import Forked

from musicgen.cli.main import main
from musicgen.training.table import read_table

TINY = (
    "experiment=smoke",
    "model.num_layers=1",
    "model.d_model=16",
    "model.d_ff=32",
    "model.num_features=8",
    "pe.num_realizations=8",
    "data.songs=12",
    "data.bars=6",
    "data.length=24",
    "batch_size=4",
    "trainer.threads=1",
    "trainer.max_steps=8",
    "trainer.checkpoint_every=3",
    "trainer.log_every=1",
    "validation.every=4",
    "validation.songs=null",
    "validation.sample_bars=null",
)


def train(folder: Path, *overrides: str) -> int:
    """Train a tiny model in this process."""
    return main(["train", *TINY, f"run_dir={folder}", *overrides])


def command(folder: Path, *overrides: str) -> list[str]:
    """The same as a command."""
    return [sys.executable, "-m", "musicgen", "train", *TINY, f"run_dir={folder}", *overrides]


def losses(folder: Path) -> list[dict[str, float]]:
    """All that was measured, but for the speed, which differs from run to run."""
    rows = read_table(folder / "metrics.csv")
    return [{name: value for name, value in row.items() if name != "train/tokens_per_second"} for row in rows]


def start(folder: Path, *overrides: str) -> Forked:
    """The same as a process, whose output can be read."""
    return Forked("train", *TINY, f"run_dir={folder}", *overrides)


def wait_for_step(process: Forked, step: int) -> None:
    """Until a process has said that it has done a step."""
    next(line for line in process.stdout if line.startswith(f"step {step}:"))
