"""Statistics of generated music beside those of real music: sets of pieces to findings.

The hard choice: all pieces are cut to one length before anything is counted. A long piece uses more pitches and repeats
more of its bars than a short one by the same hand, and models are asked for as many bars as one likes; uncut, most
differences would be differences of length.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.evaluation.findings import Cell, Findings, Table
from musicgen.evaluation.music_metrics import (
    DISTANCES,
    METRICS,
    bar_contents,
    bar_similarity,
    bars_of,
    cropped,
    measure,
    on_grid,
)
from musicgen.evaluation.music_picture import draw_bar_similarity, draw_distributions
from musicgen.evaluation.overlap import chance, distance_overlap, dominance, halves, overlap, surely
from musicgen.evaluation.songs import Gathered, Progress, Song, shown
from musicgen.midi.score import Score
from musicgen.tokens.quantise import TokenError

Numbers = NDArray[np.float64]

REFERENCE = "reference"
MOST_BARS = 2048
LARGEST_RECORD = 64 << 20
FEW = 10
"""Pieces, below which a set says little."""
FARTHEST = 3
"""Metrics that the summary names."""


@dataclass(frozen=True)
class Measured:
    """A set of pieces, measured.

    Attributes:
        name: What it is called.
        pieces: Their names.
        bars: How many each has, uncut.
        values: By name of metric, `(pieces,)` each; nan where it is not defined.
        curves: Similarity of bars by their distance, `(pieces, DISTANCES)`.
    """

    name: str
    pieces: Sequence[str]
    bars: Sequence[int]
    values: Mapping[str, Numbers]
    curves: Numbers

    def defined(self, metric: str) -> Numbers:
        """The values of a metric that are defined."""
        values = self.values[metric]
        return values[~np.isnan(values)]


@dataclass(frozen=True)
class Comparison:
    """A metric of a generated set beside that of the reference; nan where it is not defined.

    Attributes:
        overlap, distance_overlap: See `musicgen.evaluation.overlap`.
        halves, distance_halves: What two parts of the reference get from these.
        delta, low, high: Cliff's δ, and between what it lies with 95 % confidence.
        chance: How likely a δ so far from 0 would be if the sets were alike.
    """

    overlap: float
    halves: float
    distance_overlap: float
    distance_halves: float
    delta: float
    low: float
    high: float
    chance: float


def music_findings(
    generated: Mapping[str, Gathered],
    reference: Gathered,
    bars: int | None,
    seed: int,
    settings: Mapping[str, Any],
    progress: Progress,
) -> Findings:
    """What is found out about sets of pieces.

    Args:
        generated: By the names of sets.
        reference: Real music.
        bars: How many bars of each piece count; None for the smallest median of all sets.
        seed: Of the parting of the reference, and of the intervals.
        settings: Of the command.
        progress: Is told how far it is.

    Raises:
        UserError: A set has no piece that can be measured.
    """
    left_out: list[str] = []
    gathered = {**generated, REFERENCE: reference}
    grids = {name: _gridded(name, item, reference.language, left_out) for name, item in gathered.items()}
    length = bars or min(_typical_bars(pieces) for pieces in grids.values())
    work = [(name, song, score) for name, pieces in grids.items() for song, score in pieces]
    rows: dict[str, list[tuple[Song, int, dict[str, float], Numbers]]] = {name: [] for name in grids}
    for name, song, score in progress(work, len(work)):
        cut = cropped(score, length)
        values = {**measure(cut), "grammar error rate": grammar_errors(song.file)}
        rows[name].append((song, bars_of(score), values, bar_similarity(bar_contents(cut))))
    sets = [_measured(name, measured) for name, measured in rows.items()]
    *made, real = sets
    shown = [metric for metric in METRICS if any(len(item.defined(metric)) for item in sets)]
    compared = {item.name: {metric: compare(item, real, metric, seed) for metric in shown} for item in made}
    return Findings(
        kind="music",
        title="Music statistics",
        summary=_summary(made, real, compared, length),
        settings=settings,
        tables=[
            _music_table(made, real, shown, compared),
            _curve_table(sets),
            _numbers_table(made, real, shown, compared),
            _pieces_table(sets),
        ],
        pictures=[
            draw_distributions(sets, shown),
            draw_bar_similarity(sets),
        ],
        details={"bars_compared": length, "metrics": {metric: METRICS[metric] for metric in shown}},
        left_out=[*(line for item in gathered.values() for line in item.left_out), *left_out],
    )


def grammar_errors(file: Path | None) -> float:
    """The grammar error rate of a piece, by the record that `musicgen generate` puts beside it; nan without one."""
    record = file.with_suffix(".json") if file is not None else None
    try:
        if record is None or record.stat().st_size > LARGEST_RECORD:
            return math.nan
        content = json.loads(record.read_bytes())
        errors = int(content["grammar_errors"])
        tokens = sum(map(int, content["tokens_of_bars"][int(content["prompt_bars"]) :]))  # a prompt was not written
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return math.nan
    return errors / tokens if 0 <= errors <= tokens and tokens else math.nan


def compare(generated: Measured, reference: Measured, metric: str, seed: int) -> Comparison:
    """A metric of a generated set beside that of the reference."""
    ours, theirs = generated.defined(metric), reference.defined(metric)
    plain, distances = halves(theirs, len(ours), seed)
    found = (*dominance(ours, theirs, seed), chance(ours, theirs, seed))
    return Comparison(overlap(ours, theirs), plain, distance_overlap(ours, theirs), distances, *found)


def _gridded(name: str, gathered: Gathered, language: str | None, left_out: list[str]) -> list[tuple[Song, Score]]:
    """The songs of a set, on the grid; a line for each that cannot be there."""
    tried = [(song, _try_grid(song.score, language)) for song in gathered.songs]
    refused = [f"{shown(song.file or song.name)}: {answer}" for song, answer in tried if isinstance(answer, TokenError)]
    found = [(song, answer) for song, answer in tried if isinstance(answer, Score)]
    if not found:
        raise UserError(f"{name}: nothing in it can be compared; the first is {refused[0]}")
    left_out += refused
    return found


def _try_grid(score: Score, language: str | None) -> Score | TokenError:
    try:
        return on_grid(score, language)
    except TokenError as error:
        return error


def _typical_bars(pieces: list[tuple[Song, Score]]) -> int:
    return min(int(np.median([bars_of(score) for _, score in pieces])), MOST_BARS)


def _measured(name: str, rows: list[tuple[Song, int, dict[str, float], Numbers]]) -> Measured:
    return Measured(
        name,
        [song.name for song, *_ in rows],
        [bars for _, bars, *_ in rows],
        {metric: np.array([values[metric] for _, _, values, _ in rows]) for metric in METRICS},
        np.array([curve for *_, curve in rows]),
    )


def _quartiles(values: Numbers) -> tuple[float, float, float]:
    """Median, lower and upper quartile; nan without values."""
    if not len(values):
        return math.nan, math.nan, math.nan
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(middle), float(low), float(high)


def _spread_text(values: Numbers) -> str:
    """Median and quartiles, with as many digits as they need."""
    middle, low, high = _quartiles(values)
    if math.isnan(middle):
        return "–"
    digits = 1 if middle >= 10 else 2 if middle >= 1 else 3
    return f"{middle:.{digits}f} [{low:.{digits}f}–{high:.{digits}f}]"


def _music_table(
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
        "Medians and quartiles of pieces; overlap with the reference, from 0 to 1, and what two parts of the reference "
        "have (halves); Cliff's δ, from −1 (all lower than the reference) to 1 (all higher)"
    )
    return Table("music", title, columns, rows, digits=2)


def _curve_table(sets: Sequence[Measured]) -> Table:
    rows = [
        [
            distance + 1,
            *(_quartiles(column[~np.isnan(column)])[0] for column in (item.curves[:, distance] for item in sets)),
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
            found = compared[item.name][metric] if item is not real else None
            numbers: list[Cell] = [None] * 8
            if found is not None:
                numbers = [found.overlap, found.halves, found.distance_overlap, found.distance_halves]
                numbers += [found.delta, found.low, found.high, found.chance]
            values = item.defined(metric)
            rows.append([item.name, metric, len(values), *_quartiles(values), *numbers])
    return Table("music_numbers", "Every number that was found", columns, rows, shown=False)


def _pieces_table(sets: Sequence[Measured]) -> Table:
    rows = [
        [item.name, piece, bars, *(float(item.values[metric][place]) for metric in METRICS), *curve.tolist()]
        for item in sets
        for place, (piece, bars, curve) in enumerate(zip(item.pieces, item.bars, item.curves, strict=True))
    ]
    distances = [f"bar similarity {distance + 1}" for distance in range(DISTANCES)]
    return Table("pieces", "Every piece", ["set", "piece", "bars", *METRICS, *distances], rows, shown=False)


def _summary(
    made: Sequence[Measured], real: Measured, compared: Mapping[str, Mapping[str, Comparison]], length: int
) -> list[str]:
    counts = ", ".join(f"{len(item.pieces):,} piece{'s' * (len(item.pieces) != 1)} of {item.name}" for item in made)
    shorter = sum(bars < length for item in (*made, real) for bars in item.bars)
    whole = f" (all, of {shorter:,} that have fewer)" if shorter else ""
    first = "the first bar counts" if length == 1 else f"the first {length:,} bars count"
    lines = [f"{counts} beside {len(real.pieces):,} real songs; of each, {first}{whole}."]
    for item in made:
        lines += _judgement(item, real, compared[item.name])
    if min(len(item.pieces) for item in (*made, real)) < FEW:
        lines.append(f"Fewer than {FEW} pieces in a set say little: small differences may be chance.")
    return lines


def _judgement(item: Measured, real: Measured, compared: Mapping[str, Comparison]) -> list[str]:
    """What a set comes to: how much it is like the reference over all, and where it is least so."""
    pairs = [
        (found.overlap, found.halves)
        for found in compared.values()
        if not math.isnan(found.overlap) and not math.isnan(found.halves)
    ]
    lines = []
    if pairs:
        ours, ideal = np.mean(pairs, axis=0)
        lines.append(
            f"{item.name}: over {len(pairs)} metrics the mean overlap with the reference is {ours:.2f}; "
            f"two parts of the reference have {ideal:.2f}."
        )
    # What may be chance is not named, though many metrics are looked at.
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
    elif pairs:
        lines.append(f"{item.name} differs from the reference in no metric by more than chance allows.")
    errors = item.defined("grammar error rate")
    if len(errors):
        lines.append(f"{item.name}: {errors.mean():.2%} of tokens break the grammar, by {len(errors):,} records.")
    return lines
