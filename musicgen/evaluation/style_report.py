"""What comes out of comparing styles: numbers for programs (CSV and JSON) and a table for people.

The hard choice: a reference counts once, however many continuations it has. Medians, quartiles and intervals are over
references, and what is undefined, because one of two pieces has no such notes, is left out of them and counted.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from musicgen.evaluation.style import METRICS, QUARTERS, Similarity, over_parts
from musicgen.evaluation.style_files import Comparison, Result

TITLES = {"time_pitch": "time-pitch", "onset_duration": "onset-duration", "onset_drum": "onset-drum"}
COLUMNS = (*(f"quarter {number}" for number in range(1, QUARTERS + 1)), "ceiling", "floor")
DRAWS = 2000
"""Of the bootstrap."""
MOST_LINES = 20


class Summary(NamedTuple):
    """Similarities over references.

    Attributes:
        references: How many have one.
        median, lower_quartile, upper_quartile: Of them; nan if there is none.
        interval: Between these two the median is, with a confidence of 95 % (a bootstrap over references).
    """

    references: int
    median: float
    lower_quartile: float
    upper_quartile: float
    interval: tuple[float, float]


def column(comparison: Comparison, name: str) -> Similarity | None:
    """What a comparison says in one column of the table."""
    if name in ("ceiling", "floor"):
        return comparison.ceiling if name == "ceiling" else comparison.floor
    return comparison.quarters[COLUMNS.index(name)] if comparison.quarters else None


def values(result: Result, metric: str, name: str) -> list[float]:
    """The similarities of all references in one metric, over their parts, and one column; those that are defined."""
    found = [over_parts(item)[metric] for each in result.comparisons if (item := column(each, name)) is not None]
    return [value for value in found if not math.isnan(value)]


def summarise(numbers: Sequence[float], seed: int) -> Summary:
    """Median, quartiles, and an interval for the median."""
    if not numbers:
        return Summary(0, math.nan, math.nan, math.nan, (math.nan, math.nan))
    array = np.asarray(numbers)
    lower, median, upper = np.percentile(array, [25, 50, 75]).tolist()
    random = np.random.default_rng(seed)
    medians = [np.median(array[random.integers(len(array), size=len(array))]) for _ in range(DRAWS)]
    low, high = np.percentile(medians, [2.5, 97.5]).tolist()
    return Summary(len(array), median, lower, upper, (low, high))


def summaries(result: Result, seed: int) -> dict[str, dict[str, Summary]]:
    """By metric and column of the table."""
    return {metric: {name: summarise(values(result, metric, name), seed) for name in COLUMNS} for metric in METRICS}


def undefined(result: Result) -> dict[str, dict[str, int]]:
    """By metric and part, how many quarters of continuations have nothing to compare, or their reference has not."""
    compared = [item for each in result.comparisons for item in each.quarters or ()]
    return {
        metric: {part: sum(math.isnan(item[metric, part]) for item in compared) for part in names}
        for metric, names in METRICS.items()
    }


def table(result: Result, made: dict[str, dict[str, Summary]]) -> str:
    """Lines for the terminal."""
    scored = [item for item in result.comparisons if item.quarters]
    continuations = sum(len(item.generated) for item in scored)
    cells = [["similarity", *COLUMNS]]
    for metric, row in made.items():
        if any(item.references for item in row.values()):
            cells.append([TITLES[metric], *(f"{item.median:.3f}" if item.references else "-" for item in row.values())])
            cells.append(["  quartiles", *(_span(item.lower_quartile, item.upper_quartile) for item in row.values())])
            cells.append(["  95 % interval", *(_span(*item.interval) for item in row.values())])
    widths = [max(map(len, texts)) for texts in zip(*cells, strict=True)]
    lines = [f"{continuations:,} continuations of {len(scored):,} references; medians over references", ""]
    lines += ["  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    total = QUARTERS * len(scored)
    for metric, counts in undefined(result).items():
        missing = [f"{part} in {count:,} of {total:,} quarters" for part, count in counts.items() if count]
        if missing:
            lines += [f"{TITLES[metric]}: no notes to compare for {', '.join(missing)}"]
    lines += [f"left out: {line}" for line in result.left_out[:MOST_LINES]]
    if len(result.left_out) > MOST_LINES:
        lines.append(f"left out: {len(result.left_out) - MOST_LINES:,} more files, all named in style.json")
    lines += [f"metre: {line}" for line in result.other_metre[:MOST_LINES]]
    if len(result.other_metre) > MOST_LINES:
        lines.append(f"metre: {len(result.other_metre) - MOST_LINES:,} more files, all named in style.json")
    return "\n".join(lines)


def _span(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"{low:.3f}-{high:.3f}"


def csv_bytes(result: Result) -> bytes:
    """A line for each reference, column, metric and part; the similarity is empty where it is undefined."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["reference", "continuations", "compared", "metric", "track", "similarity"])
    for comparison in result.comparisons:
        for name in COLUMNS:
            for metric, part, value in _cells(column(comparison, name)):
                shown = "" if math.isnan(value) else f"{value:.6f}"
                writer.writerow([comparison.reference, len(comparison.generated), name, metric, part, shown])
    return text.getvalue().encode("utf-8", "replace")


def _cells(similarity: Similarity | None) -> Iterator[tuple[str, str, float]]:
    """Each metric with the value of each of its parts, and their mean if there are several."""
    if similarity is None:
        return
    for metric, names in METRICS.items():
        yield from ((metric, part, similarity[metric, part]) for part in names)
        if len(names) > 1:
            yield metric, "mean", over_parts(similarity)[metric]


def json_bytes(result: Result, made: dict[str, dict[str, Summary]], about: dict[str, Any]) -> bytes:
    """All that is known, for programs; null is what is undefined."""
    content = {
        **about,
        "similarity": {metric: {name: item._asdict() for name, item in row.items()} for metric, row in made.items()},
        "undefined_quarters": undefined(result),
        "references": [_record(item) for item in result.comparisons],
        "left_out": result.left_out,
        "other_metre": result.other_metre,
    }
    return (json.dumps(_plain(content), indent=1) + "\n").encode()


def _record(comparison: Comparison) -> dict[str, Any]:
    record: dict[str, Any] = {
        "reference": str(comparison.reference),
        "generated": [str(path) for path in comparison.generated],
        "floor_reference": None if comparison.other is None else str(comparison.other),
        "similarity": {metric: {} for metric in METRICS},
    }
    for name in COLUMNS:
        for metric, part, value in _cells(column(comparison, name)):
            record["similarity"][metric].setdefault(part, {})[name] = value
    return record


def _plain(content: Any) -> Any:
    """The same, with numbers of six digits, and none in the place of nan, which JSON does not have."""
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_plain(value) for value in content]
    if isinstance(content, float):
        return None if math.isnan(content) else round(content, 6)
    return content
