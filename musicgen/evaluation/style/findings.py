"""Findings on the style of one or several sets of continuations.

Design note: a reference counts once, however many continuations it has. Medians, quartiles and intervals are over
references. A similarity is undefined if one of the two pieces has no such notes; it is left out, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from musicgen.evaluation.report.findings import Cell, Findings, Table
from musicgen.evaluation.resampling import median_interval, quartiles
from musicgen.evaluation.style.comparison import Comparison, Result
from musicgen.evaluation.style.pictures import COLUMNS, TITLES, Summary, draw_styles
from musicgen.evaluation.style.similarity import METRICS, QUARTERS, Similarity, over_parts


def column(comparison: Comparison, name: str) -> Similarity | None:
    """The similarity of a comparison in one column of the table."""
    if name in ("ceiling", "floor"):
        return comparison.ceiling if name == "ceiling" else comparison.floor
    return comparison.quarters[COLUMNS.index(name)] if comparison.quarters else None


def values(result: Result, metric: str, name: str) -> list[float]:
    """The defined similarities of all references in one metric (mean over parts) and one column."""
    found = [over_parts(item)[metric] for each in result.comparisons if (item := column(each, name)) is not None]
    return [value for value in found if not math.isnan(value)]


def summarise(numbers: Sequence[float], seed: int) -> Summary:
    """Median, quartiles, and an interval for the median."""
    lower, median, upper = quartiles(numbers).tolist()
    return Summary(len(numbers), median, lower, upper, median_interval(np.asarray(numbers), seed))


def summaries(result: Result, seed: int) -> dict[str, dict[str, Summary]]:
    """By metric and column of the table."""
    return {metric: {name: summarise(values(result, metric, name), seed) for name in COLUMNS} for metric in METRICS}


def undefined(result: Result) -> dict[str, dict[str, int]]:
    """By metric and part, how many quarters have no notes to compare, or no such notes in the reference."""
    compared = [item for each in result.comparisons for item in each.quarters or ()]
    return {
        metric: {part: sum(math.isnan(item[metric, part]) for item in compared) for part in names}
        for metric, names in METRICS.items()
    }


def findings(results: Mapping[str, Result], seed: int) -> Findings:
    """Findings on sets of continuations, by name."""
    made = {name: summaries(result, seed) for name, result in results.items()}
    sentences = [_sentence(name if len(results) > 1 else "", result) for name, result in results.items()]
    sentences += [line for result in results.values() for line in _nothing_to_compare(result)]
    other_metre = list(dict.fromkeys(line for result in results.values() for line in result.other_metre))
    return Findings(
        kind="style",
        title="Style similarity",
        summary=[*sentences, *(f"metre: {line}" for line in other_metre)],
        tables=[summary_table(made), _all_cells(results)],
        pictures=[draw_styles({name: boxes(result) for name, result in results.items()}, made)],
        details={"sets": [_set(name, result, made[name]) for name, result in results.items()]},
        left_out=list(dict.fromkeys(line for result in results.values() for line in result.left_out)),
    )


def boxes(result: Result) -> dict[str, list[list[float]]]:
    """By metric, the similarities of each quarter."""
    return {metric: [values(result, metric, name) for name in COLUMNS[:QUARTERS]] for metric in METRICS}


def _sentence(name: str, result: Result) -> str:
    scored = [item for item in result.comparisons if item.quarters]
    continuations = sum(len(item.generated) for item in scored)
    of_whom = f"{name}: " if name else ""
    return f"{of_whom}{continuations:,} continuations of {len(scored):,} references; medians over references."


def _nothing_to_compare(result: Result) -> list[str]:
    total = QUARTERS * sum(1 for item in result.comparisons if item.quarters)
    lines = []
    for metric, counts in undefined(result).items():
        missing = [f"{part} in {count:,} of {total:,} quarters" for part, count in counts.items() if count]
        if missing:
            lines.append(f"{TITLES[metric]}: no notes to compare for {', '.join(missing)}.")
    return lines


def summary_table(made: Mapping[str, Mapping[str, Mapping[str, Summary]]]) -> Table:
    """Medians with quartiles and intervals, by metric, set and column."""
    rows: list[list[Cell]] = []
    for metric in METRICS:
        for name, summary in made.items():
            row = summary[metric]
            if any(item.references for item in row.values()):
                title = TITLES[metric] if len(made) == 1 else f"{TITLES[metric]}, {name}"
                rows.append([title, *(f"{item.median:.3f}" if item.references else None for item in row.values())])
                rows.append(["  quartiles", *(_span(i.lower_quartile, i.upper_quartile) for i in row.values())])
                rows.append(["  95 % interval", *(_span(*item.interval) for item in row.values())])
    return Table("summary", "Similarity of each quarter of the continuations", ["similarity", *COLUMNS], rows)


def _span(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"{low:.3f}-{high:.3f}"


def _all_cells(results: Mapping[str, Result]) -> Table:
    """A line for each set, reference, column, metric and part."""
    columns = ["set", "reference", "continuations", "compared", "metric", "track", "similarity"]
    rows: list[list[Cell]] = [
        [name, str(comparison.reference), len(comparison.generated), compared, metric, part, value]
        for name, result in results.items()
        for comparison in result.comparisons
        for compared in COLUMNS
        for metric, part, value in _cells(column(comparison, compared))
    ]
    return Table("style", "Similarity by reference, metric, track and quarter", columns, rows, shown=False)


def _cells(similarity: Similarity | None) -> Iterator[tuple[str, str, float]]:
    """Each metric with the value of each of its parts, and their mean if there are several."""
    if similarity is None:
        return
    for metric, names in METRICS.items():
        yield from ((metric, part, similarity[metric, part]) for part in names)
        if len(names) > 1:
            yield metric, "mean", over_parts(similarity)[metric]


def _set(name: str, result: Result, made: Mapping[str, Mapping[str, Summary]]) -> dict[str, Any]:
    """Everything known about a set, for programs."""
    return {
        "name": name,
        "similarity": {metric: {name: item._asdict() for name, item in row.items()} for metric, row in made.items()},
        "undefined_quarters": undefined(result),
        "references": [_record(item) for item in result.comparisons],
        "other_metre": result.other_metre,
    }


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
