"""Accuracies of trained classifiers, beside those of simple rules and of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from musicgen.arena.dataset import Dataset
from musicgen.arena.options import ArenaConfig
from musicgen.arena.scoring import interval, log_probabilities
from musicgen.arena.sources import Say
from musicgen.arena.training import load_run
from musicgen.arena.yardsticks import yardsticks
from musicgen.errors import UserError
from musicgen.training.schedule import validation_seed

Row = dict[str, Any]


def accuracies(runs: Sequence[Path], split: str, draws: int, batch: int, say: Say) -> list[Row]:
    """A row for each yardstick and for each run.

    Args:
        runs: Folders of runs, which share their data.
        split: The examples to classify.
        draws: Draws of noise over which probabilities are averaged.
        batch: Examples that are computed at once.
        say: Prints notes.

    Raises:
        UserError: The runs are of different tasks, lengths or data.
    """
    loaded = [load_run(folder, say) for folder in runs]
    config, _, _, dataset = loaded[0]
    for folder, (other, _, _, its) in zip(runs, loaded, strict=True):
        if (other.task.length, its.fingerprint) != (config.task.length, dataset.fingerprint):
            raise UserError(f"{folder}: has other data than {runs[0]}; evaluate runs of one task at a time")
    rows = [
        _row(name, "", "", "", right, dataset, split)
        for name, right in yardsticks(dataset, config.task.length, split).items()
    ]
    for folder, (own, step, model, _) in zip(runs, loaded, strict=True):
        seeds = [validation_seed(own.seed, draw) for draw in range(draws)]
        numbers = range(len(dataset.splits[split]))
        logs, labels = log_probabilities(model, dataset, split, numbers, seeds, batch)
        right = float((logs.argmax(-1) == labels).double().mean())
        rows.append(_row(str(folder), encoding_name(own), str(own.seed), str(step), right, dataset, split))
    return rows


def encoding_name(config: ArenaConfig) -> str:
    """An encoding and its attention, in short."""
    name = str(config.pe["name"])
    words = [
        "learnt " if config.model.learnt_positions else "",
        name,
        " exact" if config.pe.get("noise") == "exact" else "",
        " ungated" if config.pe.get("gated") is False else "",
        " 2-D" if config.model.axes == 2 else "",
        "" if config.model.attention == "favor" else f", {config.model.attention}",
    ]
    return "".join(words)


def _row(name: str, encoding: str, seed: str, step: str, right: float, dataset: Dataset, split: str) -> Row:
    low, high = interval(right, len(dataset.splits[split]))
    return {
        "name": name,
        "encoding": encoding,
        "seed": seed,
        "step": step,
        "accuracy": round(right, 4),
        "low": round(low, 4),
        "high": round(high, 4),
    }


def table(rows: Sequence[Row]) -> str:
    """The rows, aligned."""
    cells = [("", "encoding", "seed", "step", "accuracy", "95 % interval")]
    for row in rows:
        between = f"{row['low']:.1%} – {row['high']:.1%}"
        cells.append((row["name"], row["encoding"], row["seed"], row["step"], f"{row['accuracy']:.1%}", between))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    aligned = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in aligned)
