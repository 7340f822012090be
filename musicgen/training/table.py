"""`metrics.csv`: what was measured, a line for each step that was logged.

The hard choice: a run that goes on from a checkpoint first cuts the table back to it. The lines that follow replace
those that the stopped run wrote beyond its checkpoint, and the table is that of an unbroken run.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from musicgen.errors import UserError
from musicgen.files import atomic_write

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
)


class Table:
    """The table of a run.

    Args:
        path: Where it is.
        step: The step at which the run begins or goes on; later lines are removed.
    """

    def __init__(self, path: Path, step: int = 0) -> None:
        self.path = path
        kept = [row for row in read_table(path) if row["step"] <= step] if path.exists() else []
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(_texts, kept))
        atomic_write(path, text.getvalue().encode())

    def add(self, step: int, metrics: dict[str, float]) -> None:
        """Append a line."""
        text = io.StringIO()
        csv.DictWriter(text, COLUMNS, lineterminator="\n").writerow(_texts({"step": step, **metrics}))
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text.getvalue())
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error.strerror})") from None


def _texts(row: dict[str, float]) -> dict[str, str]:
    """Numbers with all their digits, so that two runs can be compared to the last one."""
    return {name: str(int(value)) if name == "step" else repr(value) for name, value in row.items()}


def read_table(path: Path) -> list[dict[str, float]]:
    """The lines of a table; what a line has no value for is not in it. A last line that was cut off is left out."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    rows = csv.DictReader(line for line in lines if line.endswith("\n"))
    return [{name: float(value) for name, value in row.items() if value} for row in rows]
