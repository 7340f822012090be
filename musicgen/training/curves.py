"""A picture of a run: losses against steps.

The hard choice: it is drawn from `metrics.csv`, so that it can be drawn again, and of any run.
"""

from __future__ import annotations

import io
from pathlib import Path

from musicgen.files import atomic_write
from musicgen.training.table import read_table

LOSSES = {
    "train/loss": ("training", "tab:gray"),
    "val/loss": ("validation", "tab:blue"),
    "val/loss_extrapolated": ("validation, beyond the trained length", "tab:orange"),
}


def draw_curves(table: Path, picture: Path) -> None:
    """Losses above, the learning rate below.

    Args:
        table: `metrics.csv` of a run.
        picture: The PNG to write.
    """
    from matplotlib.figure import Figure

    rows = read_table(table)
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    losses, rates = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    for name, (label, colour) in LOSSES.items():
        points = [(row["step"], row[name]) for row in rows if name in row]
        if points:
            marker = "o" if name.startswith("val") else ""
            steps, values = zip(*points, strict=True)
            losses.plot(steps, values, label=label, color=colour, marker=marker, markersize=3, linewidth=1)
    spread = [(row["step"], row["val/loss"], row["val/loss_spread"]) for row in rows if "val/loss_spread" in row]
    if spread:
        steps, middle, width = zip(*spread, strict=True)
        low = [value - part for value, part in zip(middle, width, strict=True)]
        high = [value + part for value, part in zip(middle, width, strict=True)]
        losses.fill_between(steps, low, high, color="tab:blue", alpha=0.2)
    losses.set_ylabel("cross-entropy (nats a token)")
    if losses.lines:
        losses.legend()
    losses.grid(alpha=0.3)
    learning = [(row["step"], row["train/learning_rate"]) for row in rows if "train/learning_rate" in row]
    if learning:
        rates.plot(*zip(*learning, strict=True), color="tab:green", linewidth=1)
    rates.set(xlabel="step", ylabel="learning rate")
    rates.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    atomic_write(picture, buffer.getvalue())
