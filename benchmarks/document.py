"""Writes the measured tables into docs/performance.md, between the comments that name them.

python benchmarks/document.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"
TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(name: str) -> str:
    """The rows of a benchmark's last run, as Markdown."""
    result = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    lines = ["| what | measured | to reach | |", "|---|---|---|---|"]
    for row in result["rows"]:
        value = f"{row['value']:.3g} {row['unit'].replace('x', '×')}".strip()
        target = row["target"].replace("<=", "≤").replace(">=", "≥")
        verdict = "reached" if row["met"] else "**missed**"
        note = f"; {row['note']}" if row["note"] else ""
        what = row["what"].strip() if not row["what"].startswith(" ") else f"… {row['what'].strip()}"
        lines.append(f"| {what} | {value} | {target} | {verdict}{note} |")
    lines += ["", f"{result['machine']}; {result['threads']} thread(s)."]
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with every table as last measured."""
    return TABLE.sub(lambda match: f"{match[1]}\n{table(match[2])}\n{match[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
