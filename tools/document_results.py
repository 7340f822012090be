"""Writes measured tables into README.md, docs/results.md and the like, between the comments that name them.

python tools/document_results.py

A comment says which table of `docs/results`, and which of its columns:

    <!-- table pop909/summary.csv: model, trained, extrapolated -->

No number in these tables is typed by hand: the CSV files are what `musicgen evaluate` wrote.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "musicgen").glob("models/*/*.md"))]
TABLE = re.compile(r"(<!-- table ([^:\n]+): ([^\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)
DEVIATION = " (deviation)"


def table(name: str, columns: list[str]) -> str:
    """Columns of a measured table as Markdown; a deviation that is beside a column joins it."""
    with (RESULTS / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [_with_deviation(row, column) for column in columns]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _with_deviation(row: dict[str, str], column: str) -> str:
    deviation = row.get(column + DEVIATION)
    return f"{_cell(row[column])} ± {_cell(deviation)}" if deviation else _cell(row[column])


def _cell(text: str) -> str:
    """A number to three decimals, with a real minus; words as they are; what is empty as a line."""
    try:
        number = float(text)
    except ValueError:
        return text or "–"
    return text if number.is_integer() and "." not in text else f"{number:.3f}".replace("-", "−")


def page(text: str) -> str:
    """A page with every table as measured."""

    def written(match: re.Match[str]) -> str:
        columns = [column.strip() for column in match[3].split(",")]
        return f"{match[1]}\n{table(match[2], columns)}\n\n{match[4]}"

    return TABLE.sub(written, text)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path.read_text("utf-8")), encoding="utf-8")
