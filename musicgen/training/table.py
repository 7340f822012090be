"""`metrics.csv`: the metrics of a run, with one line per logged step; and a plot of them.

A resumed run first removes the lines after its checkpoint, so the table equals that of an unbroken run.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from musicgen.errors import UserError
from musicgen.files import atomic_write
from musicgen.inputs import read_regular

COLUMNS = (
    "step",
    "train/loss",
    "train/learning_rate",
    "train/gradient_norm",
    "train/tokens_per_second",
    "val/loss",
    "val/loss_spread",
    "val/loss_extrapolated",
    "gate/mean",
    "gate/least",
    "gate/most",
    "train/plain_loss",
    "train/infill_loss",
    "val/infill_loss",
)
LOSSES = {
    "train/loss": ("training", "tab:gray"),
    "val/loss": ("validation", "tab:blue"),
    "val/loss_extrapolated": ("validation, beyond the trained length", "tab:orange"),
}


class Table:
    """The table of a run that starts or resumes at a step. Later lines are removed."""

    def __init__(self, path: Path, step: int = 0, columns: Sequence[str] = COLUMNS) -> None:
        self.path, self.columns = path, columns
        kept = [row for row in read_table(path) if row["step"] <= step] if path.exists() else []
        unknown = next((name for row in kept for name in row if name not in columns), None)
        if unknown is not None:
            raise UserError(f"{path}: not the metrics of this run (it has a column {unknown!r}); move it away")
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(_texts, kept))
        atomic_write(path, text.getvalue().encode())

    def add(self, step: int, metrics: dict[str, float]) -> None:
        """Append a line."""
        text = io.StringIO()
        csv.DictWriter(text, self.columns, lineterminator="\n").writerow(_texts({"step": step, **metrics}))
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text.getvalue())
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error.strerror})") from None


def _texts(row: dict[str, float]) -> dict[str, str]:
    """Numbers with all their digits, so that two runs can be compared exactly."""
    return {name: str(int(value)) if name == "step" else repr(value) for name, value in row.items()}


def read_table(path: Path) -> list[dict[str, float]]:
    """The lines of a table, without empty values. An incomplete last line is left out.

    Raises:
        UserError: It is not such a table.
    """
    try:
        lines = read_regular(path, 1 << 30).decode("utf-8").splitlines(keepends=True)
        rows = list(csv.DictReader(line for line in lines if line.endswith("\n")))
        table = [{name: float(value) for name, value in row.items() if value or name == "step"} for row in rows]
        if not all(row["step"].is_integer() for row in table):  # infinity is not one either
            raise UserError(f"{path}: not the metrics of a run (a step is not a whole number); move it away")
        return table  # noqa: TRY300
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise UserError(f"{path}: not the metrics of a run ({error}); move it away") from None


def draw_curves(table: Path, picture: Path) -> None:
    """Plot the losses above and the learning rate below."""
    from matplotlib.figure import Figure

    rows = read_table(table)
    figure = Figure(figsize=(8, 5.5), dpi=100)
    losses, rates = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    for name, (label, colour) in LOSSES.items():
        points = [(row["step"], row[name]) for row in rows if name in row]
        if points:
            marker = "o" if name.startswith("val") else ""
            steps, values = zip(*points, strict=True)
            losses.plot(steps, values, label=label, color=colour, marker=marker, markersize=3, linewidth=1)
    spread = [(row["step"], row["val/loss"], row["val/loss_spread"]) for row in rows if "val/loss_spread" in row]
    if spread:
        steps, middle, width = np.array(spread).T
        losses.fill_between(steps, middle - width, middle + width, color="tab:blue", alpha=0.2)
    losses.set_ylabel("cross-entropy (nats)")
    if losses.lines:
        losses.legend()
    losses.grid(alpha=0.3)
    learning = [(row["step"], row["train/learning_rate"]) for row in rows if "train/learning_rate" in row]
    if learning:
        rates.plot(*zip(*learning, strict=True), color="tab:green", linewidth=1)
    rates.set(xlabel="step", ylabel="learning rate")
    rates.grid(alpha=0.3)
    # Room for all that numbers may be: a layout that measures them takes as long as the drawing.
    figure.subplots_adjust(left=0.11, right=0.985, bottom=0.09, top=0.975, hspace=0.12)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    atomic_write(picture, buffer.getvalue())
