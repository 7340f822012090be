"""Findings on positional encodings: the paper's table of translation invariance and monotonicity, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from musicgen.evaluation.encoding.pe import METRICS, Scores, cell_names
from musicgen.evaluation.encoding.pictures import draw_scores
from musicgen.evaluation.models import EvaluatedModel
from musicgen.evaluation.report.findings import Findings, Table

NO_WORSE = 0.05
"""An encoding counts as no worse beyond the trained length if a metric rises by no more than this."""


def pe_findings(scores: Sequence[Scores], models: Sequence[EvaluatedModel]) -> Findings:
    """Findings on models that were probed."""
    columns = cell_names([item.grid for item in scores])
    return Findings(
        kind="pe",
        title="Positional encodings: translation invariance and monotonicity",
        summary=_summary(scores, models),
        tables=[_table(scores, columns), _heads(scores)],
        pictures=[draw_scores(scores)],
    )


def _table(scores: Sequence[Scores], columns: list[str]) -> Table:
    """The paper's table: a row for each model and metric."""
    rows = []
    for item in scores:
        for metric in METRICS:
            trained = [item.grid.trained] if columns[0] == "N" else []
            rows.append([item.name, metric, *trained, *(cell for cells in item.best(metric) for cell in cells)])
    title = (
        "Best head of the first layer by query positions and query-key offsets "
        "(T translation invariance, M monotonicity; 0 is best)"
    )
    return Table("pe", title, ["model", "metric", *columns], rows)


def _heads(scores: Sequence[Scores]) -> Table:
    columns = ["model", "draw", "head", "first query", "last query", "offsets below", *METRICS.values()]
    rows = []
    for item in scores:
        for draw, head, place, column in np.ndindex(item.values["T"].shape):
            low, high = item.grid.ranges[place]
            values = [float(item.values[metric][draw, head, place, column]) for metric in METRICS]
            rows.append([item.name, draw, head + 1, low, high - 1, item.grid.offsets[column], *values])
    return Table("pe_heads", "Every head and draw", columns, rows, shown=False)


def _summary(scores: Sequence[Scores], models: Sequence[EvaluatedModel]) -> list[str]:
    sentences = [
        "This is the unnormalised attention of the first layer in pieces of one repeated token; each value is a mean "
        "over tokens. T is 0 if attention depends only on distance. M is 0 if attention fades steadily with distance, "
        "and ½ if it is random."
    ]
    noisy = {model.name for model in models if model.model.config.is_stochastic}
    sentences += [sentence for item in scores for sentence in _verdict(item, item.name in noisy)]
    decayed = [model.name for model in models if model.model.config.decay != "none"]
    if decayed:
        sentences.append(f"The measured attention includes the decay of {', '.join(decayed)}.")
    other = [model.name for model in models if model.model.config.feature_map != "favor"]
    if other:
        names = ", ".join(other)
        sentences.append(f"The metrics use exponential attention, which {names} was not trained to approximate.")
    return sentences


def _verdict(item: Scores, is_noisy: bool) -> list[str]:
    """Whether the encoding of a model is worse beyond the trained length than within."""
    inside, outside = item.grid.within, item.grid.beyond
    if inside is None or outside is None:
        return []
    parts, is_worse = [], False
    draws = len(item.values["T"])
    for metric in METRICS:
        cells = item.best(metric)
        changes = [
            (far.mean - near.mean, offset, near, far)
            for offset, near, far in zip(item.grid.offsets, cells[inside], cells[outside], strict=True)
            if not math.isnan(near.mean + far.mean)
        ]
        if not changes:
            parts.append(f"{metric} is undefined, as attention is the same everywhere")
            continue
        rise, offset, near, far = max(changes)
        parts.append(f"{metric} changes from {near.mean:.3f} to {far.mean:.3f} at offsets below {offset:,}")
        # A change that is smaller than the scatter of draws does not count.
        noise = 0.0 if draws == 1 else 2 * math.sqrt((near.deviation**2 + far.deviation**2) / draws)
        is_worse |= rise > max(NO_WORSE, noise)
    verdict = f"{item.name} is {'worse' if is_worse else 'no worse'} beyond its {item.grid.trained:,} trained tokens"
    if is_noisy and draws == 1:
        verdict = f"One draw cannot tell whether {item.name} is worse beyond its {item.grid.trained:,} trained tokens"
    return [f"{verdict} than within. Where it worsens most, {' and '.join(parts)}."]
