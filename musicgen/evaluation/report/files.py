"""Findings as a folder: `KIND.json`, a CSV file for each table, PNG and SVG for each picture, and pages.

Design note: `KIND.json` names all other files. So a folder can be recognised as ours, overwritten if it holds
nothing else, and read again to be shown on a page with others. A folder may come from anyone, so its content is only
ever shown as text and pictures.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.evaluation.report.drawing import DIGITS, map_name, png_bytes, read_png
from musicgen.evaluation.report.findings import Explorer, Findings, Picture, Spread, Table
from musicgen.evaluation.report.page import findings_page
from musicgen.files import atomic_folder, strangers
from musicgen.inputs import is_document, read_document, read_regular

PAGE = "index.html"
FORMAT = 1
RECORD = {"evaluation": FORMAT, "kind": str, "files": [str]}
"""What marks `KIND.json`."""
LEVELS = 256  # of a map
MOST_DIGITS = 12  # after the point, in a table


def save_findings(findings: Findings, folder: Path, overwrite: bool = False) -> None:
    """Write a folder, completely or not at all.

    Args:
        findings: What to write.
        folder: The folder.
        overwrite: Whether an evaluation that is there is replaced.

    Raises:
        UserError: It cannot be written, or there is something that may not be replaced.
    """
    files = {f"{table.name}.csv": csv_bytes(table) for table in findings.tables}
    for picture in findings.pictures:
        files |= {f"{picture.name}.png": picture.png, f"{picture.name}.svg": picture.svg}
    for explorer in findings.explorers:
        files |= {map_name(explorer, options): png_bytes(levels) for options, levels in explorer.maps.items()}
    links = [(f"{name}.html", title) for name, (title, _) in findings.pages.items()]
    files |= {f"{name}.html": page.encode("utf-8") for name, (_, page) in findings.pages.items()}
    files[PAGE] = findings_page(findings.title, [findings], links=links).encode("utf-8")
    files[f"{findings.kind}.json"] = json_bytes(findings, [*files, f"{findings.kind}.json"])
    with atomic_folder(folder, foreign_to_findings if overwrite else None) as partial:
        for name, data in files.items():
            (partial / name).write_bytes(data)


def load_findings(folder: Path) -> Findings:
    """Read what `save_findings` wrote, except tables that are not shown and further pages.

    Raises:
        UserError: It is not such a folder, or it is damaged.
    """
    content = describe(folder)
    if content is None:
        raise UserError(f"{folder}: not a folder that `musicgen evaluate` made")
    try:
        return Findings(
            kind=_text(content["kind"]),
            title=_text(content["title"]),
            summary=[_text(line) for line in content["summary"]],
            settings=dict(content["settings"]),
            tables=[_table(item) for item in content["tables"]],
            pictures=[_picture(folder, item) for item in content["pictures"]],
            explorers=[_explorer(folder, item) for item in content["explorers"]],
            left_out=[_text(line) for line in content["left_out"]],
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
        raise UserError(f"{folder}: a damaged evaluation ({error}); make it again") from None


def describe(folder: Path) -> dict[str, Any] | None:
    """What the `KIND.json` of a folder says; None if the folder has none."""
    found = [path for path in sorted(folder.glob("*.json")) if is_document(path, RECORD)]
    return dict(read_document(found[0], RECORD)) if found else None


def foreign_to_findings(folder: Path) -> list[str]:
    """Names in a folder that are not part of an evaluation."""
    content = describe(folder)
    ours = set(content["files"]) if content else set()
    return strangers(folder, lambda path: path.name in ours)


def csv_bytes(table: Table) -> bytes:
    """A table for programs: numbers have seven digits, unknown values are empty, a spread has two columns."""
    spread = [any(isinstance(row[place], Spread) for row in table.rows) for place in range(len(table.columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ([name, f"{name} (deviation)"] if two else [name] for name, two in zip(table.columns, spread, strict=True))
    writer.writerow(itertools.chain.from_iterable(names))
    for row in table.rows:
        cells: list[str] = []
        for cell, two in zip(row, spread, strict=True):
            values = (cell if isinstance(cell, Spread) else (cell, None)) if two else (cell,)
            cells += ["" if (plain := _plain(value)) is None else str(plain) for value in values]
        writer.writerow(cells)
    return text.getvalue().encode("utf-8", "replace")


def json_bytes(findings: Findings, files: list[str]) -> bytes:
    """All findings for programs; null means not known."""
    content = {
        "evaluation": FORMAT,
        "kind": findings.kind,
        "title": findings.title,
        "summary": list(findings.summary),
        "settings": dict(findings.settings),
        "tables": [_table_record(table) for table in findings.tables if table.shown],
        "pictures": [{"name": picture.name, "title": picture.title} for picture in findings.pictures],
        "explorers": [_explorer_record(explorer) for explorer in findings.explorers],
        "left_out": list(findings.left_out),
        **findings.details,
        "files": sorted(files),
    }
    return (json.dumps(_plain(content), indent=1) + "\n").encode("utf-8", "replace")


def _plain(content: Any) -> Any:
    """The same content with numbers of seven digits, and None for numbers that JSON cannot hold."""
    if isinstance(content, Mapping):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_plain(value) for value in content]
    if isinstance(content, np.generic):
        content = content.item()
    if isinstance(content, float):
        return float(f"{content:.{DIGITS}g}") if math.isfinite(content) else None
    return str(content) if isinstance(content, Path) else content


def _table_record(table: Table) -> dict[str, Any]:
    cells = [[cell._asdict() if isinstance(cell, Spread) else cell for cell in row] for row in table.rows]
    return {"name": table.name, "title": table.title, "columns": table.columns, "rows": cells, "digits": table.digits}


def _explorer_record(explorer: Explorer) -> dict[str, Any]:
    names = ("name", "title", "choices", "axes", "extent", "labels", "note")
    record = {name: getattr(explorer, name) for name in names}
    return {**record, "levels": list(explorer.levels), "maps": list(explorer.maps)}


def _table(item: dict[str, Any]) -> Table:
    columns = [_text(name) for name in item["columns"]]
    rows = [[_cell(cell) for cell in row] for row in item["rows"]]
    if any(len(row) != len(columns) for row in rows):
        raise ValueError("a row with too few or too many cells")
    if item["digits"] not in range(MOST_DIGITS + 1):
        raise ValueError(f"{item['digits']!r} digits")
    return Table(_text(item["name"]), _text(item["title"]), columns, rows, item["digits"])


def _cell(cell: Any) -> Any:
    if isinstance(cell, dict):
        mean, deviation = (math.nan if cell[name] is None else float(cell[name]) for name in ("mean", "deviation"))
        return Spread(mean, deviation)
    if cell is None or isinstance(cell, (str, int, float)):
        return cell
    raise ValueError(f"a cell of {type(cell).__name__}")


def _picture(folder: Path, item: dict[str, Any]) -> Picture:
    name = _file_name(item["name"])
    png, svg = (read_regular(folder / f"{name}.{kind}") for kind in ("png", "svg"))
    return Picture(name, _text(item["title"]), png, svg)


def _explorer(folder: Path, item: dict[str, Any]) -> Explorer:
    rows, columns = (_text(axis) for axis in item["axes"])
    height, width = (int(number) for number in item["extent"])
    empty = Explorer(
        name=_file_name(item["name"]),
        title=_text(item["title"]),
        choices={_text(name): [_text(option) for option in options] for name, options in item["choices"].items()},
        maps={},
        levels=_levels(item["levels"]),
        axes=(rows, columns),
        extent=(height, width),
        labels=[_text(label) for label in item["labels"]],
        note=_text(item["note"]),
    )
    maps = {}
    for options in (tuple(_text(option) for option in options) for options in item["maps"]):
        maps[options] = read_png(read_regular(folder / map_name(empty, options)))
    return Explorer(**{**vars(empty), "maps": maps})


def _levels(values: Any) -> list[float]:
    levels = [float(value) for value in values]
    if len(levels) != LEVELS or not all(map(math.isfinite, levels)):
        raise ValueError(f"levels that are not {LEVELS} numbers")
    return levels


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _file_name(value: Any) -> str:
    """A file name that cannot lead out of the folder."""
    if not re.fullmatch(r"[0-9A-Za-z_-]+", _text(value)):
        raise ValueError(f"{value!r} is no name of a file")
    return str(value)
