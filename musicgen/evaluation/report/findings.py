"""What an evaluation found, as plain data: tables, pictures, maps to explore, and sentences.

Design note: every evaluation gives `Findings` and knows nothing about files, terminals and pages. So all of them look
alike, and one page can show several (`files.py`, `page.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Spread(NamedTuple):
    """A mean and a standard deviation: `1.72 ± 0.15`. It is one column for people and two in a CSV file."""

    mean: float
    deviation: float


Cell = str | int | float | Spread | None
"""None and nan mean: not known, or not defined."""


@dataclass(frozen=True)
class Table:
    """Rows and columns.

    Attributes:
        name: The name of its file, `NAME.csv`.
        title: What it says, in a sentence without a full stop.
        columns: Their names.
        rows: One cell for each column.
        digits: Digits after the point that people see; files have more.
        shown: Whether people see it. A table that is too long is only a CSV file.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 3
    shown: bool = True

    def texts(self) -> list[list[str]]:
        """Every cell as people read it."""
        return [[self._text(cell) for cell in row] for row in self.rows]

    def numeric(self) -> list[bool]:
        """Which columns hold numbers, to be aligned on the right."""
        return [not any(isinstance(row[place], str) for row in self.rows) for place in range(len(self.columns))]

    def _text(self, cell: Cell) -> str:
        if cell is None or (isinstance(cell, float) and math.isnan(cell)):
            return "–"
        if isinstance(cell, Spread):
            if math.isnan(cell.mean):
                return "–"
            mean, deviation = (f"{number:,.{self.digits}f}" for number in cell)
            return mean if math.isnan(cell.deviation) else f"{mean} ± {deviation}"
        if isinstance(cell, float):
            return f"{cell:,.{self.digits}f}"
        return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        name: The name of its files, `NAME.png` and `NAME.svg`.
        title: What it shows, in a sentence without a full stop; screen readers read it out.
        png, svg: The files, as `drawing.render` makes them.
    """

    name: str
    title: str
    png: bytes
    svg: bytes


@dataclass(frozen=True)
class Explorer:
    """Maps: a reader chooses one and reads its values with the pointer.

    Attributes:
        name: Its files are `NAME_OPTION_OPTION.png`.
        title: What they show, in a sentence without a full stop.
        choices: What is chosen, and the options: `{"layer": ["1", "3"], "head": ["1", "2"]}`.
        maps: By one option of each choice, in that order: levels 0 to 255, `(rows, columns)`. Some combinations may
            be missing.
        levels: The value of each level; 256 numbers in ascending order. If the first is negative, the colours diverge
            from the middle.
        axes: What rows and columns are, in one word each.
        extent: How many rows and columns the original had; more than the map has if it was made smaller.
        labels: A label for each row and column of the extent; may be empty.
        note: How to read them.
    """

    name: str
    title: str
    choices: Mapping[str, Sequence[str]]
    maps: Mapping[tuple[str, ...], NDArray[np.uint8]]
    levels: Sequence[float]
    axes: tuple[str, str] = ("query", "key")
    extent: tuple[int, int] = (0, 0)
    labels: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True)
class Findings:
    """What an evaluation found.

    Attributes:
        kind: Which evaluation, in one word: `nll`.
        title: What was measured, in a line.
        summary: The results, in sentences.
        settings: Every option of the command, which adds them.
        tables, pictures, explorers: Names are unique among all of them.
        pages: Further pages: a title and the HTML by the name of the file, `NAME.html`.
        details: More for programs, in `KIND.json`.
        left_out: A line for each thing that could not be used.
    """

    kind: str
    title: str
    summary: Sequence[str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    explorers: Sequence[Explorer] = ()
    pages: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    left_out: Sequence[str] = ()


def terminal(findings: Findings, most_lines: int = 20) -> str:
    """Findings for a terminal: sentences, then tables with aligned columns."""
    blocks = ["\n".join(findings.summary)]
    blocks += [f"{table.title}\n\n{aligned(table)}" for table in findings.tables if table.shown]
    left_out = [f"left out: {line}" for line in findings.left_out[:most_lines]]
    if len(findings.left_out) > most_lines:
        left_out.append(f"left out: {len(findings.left_out) - most_lines:,} more, all named in {findings.kind}.json")
    blocks.append("\n".join(left_out))
    return "\n\n".join(block for block in blocks if block)


def aligned(table: Table) -> str:
    """A table as text with aligned columns; numbers are on the right."""
    rows = [list(table.columns), *table.texts()]
    widths = [max(map(len, texts)) for texts in zip(*rows, strict=True)]
    sides = [">" if numeric else "<" for numeric in table.numeric()]
    return "\n".join(
        "  ".join(f"{text:{side}{width}}" for text, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    )
