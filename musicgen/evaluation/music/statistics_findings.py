"""Findings on statistics: sets of generated pieces compared with real music."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple

import numpy as np

from musicgen.evaluation import Progress
from musicgen.evaluation.music.harmony import ENDINGS
from musicgen.evaluation.music.listening import listening_page
from musicgen.evaluation.music.metrics import DISTANCES, METRICS
from musicgen.evaluation.music.overlap import surely
from musicgen.evaluation.music.pictures import draw_bar_similarity, draw_distributions
from musicgen.evaluation.music.songs import Gathered
from musicgen.evaluation.music.statistics import JUDGED, MEASURED, Comparison, Measured, compare, measure_sets
from musicgen.evaluation.report.findings import Cell, Findings, Table
from musicgen.evaluation.resampling import Numbers, quartiles
from musicgen.languages.grid import counted

REFERENCE = "reference"
FEW = 10
"""A set with fewer pieces gets a warning."""
FARTHEST = 3
"""How many metrics the summary names."""


def music_findings(
    generated: Mapping[str, Gathered],
    reference: Gathered,
    bars: int | None,
    seed: int,
    progress: Progress,
    heard: int = 0,
) -> Findings:
    """Compare sets of pieces with real music, and put so many of each on a page to hear."""
    gathered = {**generated, REFERENCE: reference}
    sets, length, left_out = measure_sets(gathered, reference.language, bars, progress)
    *made, real = sets
    shown = [metric for metric in (*METRICS, *JUDGED) if any(len(item.defined(metric)) for item in sets)]
    counted, judged = ([metric for metric in shown if metric in names] for names in (METRICS, JUDGED))
    compared = {item.name: {metric: compare(item, real, metric, seed) for metric in shown} for item in made}
    return Findings(
        kind="music",
        title="Music statistics",
        summary=_summary(made, real, compared, length),
        tables=[
            _music_table("music", "notes", made, real, counted, compared),
            _music_table("form", "form, harmony and prompts", made, real, judged, compared),
            _endings_table(sets),
            _curve_table(sets),
            _numbers_table(made, real, shown, compared),
            _pieces_table(sets),
        ],
        pictures=[
            draw_distributions(sets, counted, "music", "Metrics of notes"),
            draw_distributions(sets, judged, "form", "Metrics of form, harmony and prompts"),
            draw_bar_similarity(sets),
        ],
        pages={"listen": ("Pieces and songs to hear", listening_page(made, real, length, heard))} if heard else {},
        details={"bars_compared": length, "metrics": {metric: MEASURED[metric] for metric in (*shown, *ENDINGS)}},
        left_out=[*(line for item in gathered.values() for line in item.left_out), *left_out],
    )


def _spread_text(values: Numbers) -> str:
    """Median and quartiles as text, with as many digits as they need."""
    low, middle, high = quartiles(values)
    if math.isnan(middle):
        return "–"
    digits = 1 if middle >= 10 else 2 if middle >= 1 else 3
    return f"{middle:.{digits}f} [{low:.{digits}f}–{high:.{digits}f}]"


def _music_table(
    name: str,
    about: str,
    made: Sequence[Measured],
    real: Measured,
    metrics: Sequence[str],
    compared: Mapping[str, Mapping[str, Comparison]],
) -> Table:
    columns = ["metric", REFERENCE, "halves"]
    for item in made:
        columns += [item.name, *(label if len(made) == 1 else f"{label} ({item.name})" for label in ("overlap", "δ"))]
    rows: list[list[Cell]] = []
    for metric in metrics:
        row: list[Cell] = [metric, _spread_text(real.defined(metric)), compared[made[0].name][metric].halves]
        for item in made:
            found = compared[item.name][metric]
            row += [_spread_text(item.defined(metric)), found.overlap, found.delta]
        rows.append(row)
    title = (
        f"Metrics of {about}: medians and quartiles of pieces; overlap with the reference, from 0 to 1, and what two "
        "parts of the reference have (halves); Cliff's δ, from −1 (all lower than the reference) to 1 (all higher)"
    )
    return Table(name, title, columns, rows, digits=2)


def _endings_table(sets: Sequence[Measured]) -> Table:
    rows: list[list[Cell]] = []
    for ending in ENDINGS:
        answers = [item.defined(ending) for item in (sets[-1], *sets[:-1])]
        rows.append(
            [ending, *(f"{yes.mean():.0%} ({yes.sum():.0f} of {len(yes):,})" if len(yes) else "–" for yes in answers)]
        )
    columns = ["ending", REFERENCE, *(item.name for item in sets[:-1])]
    return Table("endings", "How whole pieces end: share of pieces", columns, rows)


def _curve_table(sets: Sequence[Measured]) -> Table:
    rows = [
        [
            distance + 1,
            *(float(quartiles(column[~np.isnan(column)])[1]) for column in (item.curves[:, distance] for item in sets)),
        ]
        for distance in range(DISTANCES)
    ]
    title = (
        "Similarity of bars by how many bars they are apart: notes that both have, of those that either has; medians"
    )
    return Table("bar_similarity", title, ["distance", *(item.name for item in sets)], rows)


def _numbers_table(
    made: Sequence[Measured],
    real: Measured,
    metrics: Sequence[str],
    compared: Mapping[str, Mapping[str, Comparison]],
) -> Table:
    columns = ["set", "metric", "pieces", "median", "lower quartile", "upper quartile"]
    columns += ["overlap", "halves overlap", "distance overlap", "halves distance overlap"]
    columns += ["delta", "delta low", "delta high", "chance"]
    rows: list[list[Cell]] = []
    for item in (*made, real):
        for metric in metrics:
            numbers = [None] * 8 if item is real else astuple(compared[item.name][metric])
            values = item.defined(metric)
            rows.append([item.name, metric, len(values), *quartiles(values)[[1, 0, 2]].tolist(), *numbers])
    return Table("music_numbers", "Every number that was found", columns, rows, shown=False)


def _pieces_table(sets: Sequence[Measured]) -> Table:
    rows = [
        [item.name, piece, bars, *(float(item.values[metric][place]) for metric in MEASURED), *curve.tolist()]
        for item in sets
        for place, (piece, bars, curve) in enumerate(zip(item.pieces, item.bars, item.curves, strict=True))
    ]
    distances = [f"bar similarity {distance + 1}" for distance in range(DISTANCES)]
    return Table("pieces", "Every piece", ["set", "piece", "bars", *MEASURED, *distances], rows, shown=False)


def _summary(
    made: Sequence[Measured], real: Measured, compared: Mapping[str, Mapping[str, Comparison]], length: int
) -> list[str]:
    counts = ", ".join(f"{counted(len(item.pieces), 'piece')} of {item.name}" for item in made)
    shorter = sum(bars < length for item in (*made, real) for bars in item.bars)
    whole = f" (all, of {shorter:,} that have fewer)" if shorter else ""
    first = "the first bar counts" if length == 1 else f"the first {length:,} bars count"
    lines = [f"{counts}, compared with {counted(len(real.pieces), 'real song')}; of each, {first}{whole}."]
    for item in made:
        lines += _judgement(item, real, compared[item.name])
    if min(len(item.pieces) for item in (*made, real)) < FEW:
        lines.append(f"Fewer than {FEW} pieces in a set say little: small differences may be chance.")
    return lines


def _judgement(item: Measured, real: Measured, compared: Mapping[str, Comparison]) -> list[str]:
    """How similar a set is to the reference overall, where it differs most, and how its pieces end."""
    lines = []
    for about, names in (("notes", METRICS), ("form, harmony and prompts", JUDGED)):
        pairs = [(found.overlap, found.halves) for metric, found in compared.items() if metric in names]
        pairs = [pair for pair in pairs if not any(map(math.isnan, pair))]
        if pairs:
            ours, ideal = np.mean(pairs, axis=0)
            lines.append(
                f"{item.name}: over {len(pairs)} metrics of {about} the mean overlap with the reference is {ours:.2f}; "
                f"two parts of the reference have {ideal:.2f}."
            )
    # Differences that may be chance are not named. The test allows for the number of metrics.
    is_sure = surely([found.chance for found in compared.values()])
    sure = [metric for metric, named in zip(compared, is_sure, strict=True) if named]
    sure.sort(key=lambda metric: (-abs(compared[metric].delta), compared[metric].overlap))
    if sure:
        medians = {metric: [np.median(side.defined(metric)) for side in (item, real)] for metric in sure}
        named = ", ".join(
            f"{metric} ({medians[metric][0]:.3g} instead of {medians[metric][1]:.3g}, δ {compared[metric].delta:+.2f})"
            for metric in sure[:FARTHEST]
        )
        lines.append(f"{item.name} differs from the reference in {len(sure)} metrics, most in {named}.")
    elif lines:
        lines.append(f"{item.name} differs from the reference in no metric by more than chance allows.")
    home, real_home = (side.defined("ends at home") for side in (item, real))
    if len(home) and len(real_home):
        lines.append(
            f"{item.name}: {home.mean():.0%} of pieces end on the tonic with a long note, "
            f"of the reference {real_home.mean():.0%}."
        )
    errors = item.defined("grammar error rate")
    if len(errors):
        lines.append(f"{item.name}: {errors.mean():.2%} of tokens break the grammar, by {len(errors):,} records.")
    return lines
