"""Translation invariance and monotonicity of positional encodings, as the paper tabulates them.

The hard choice: the measure is averaged over tokens, not attention. A map of mean attention would be ruled by the few
tokens whose attention is largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.evaluation.findings import Findings, Spread, Table
from musicgen.evaluation.models import Judged, window_of
from musicgen.evaluation.pe_metrics import Floats, monotonicity, translation_invariance
from musicgen.evaluation.probing import Probe

Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]
METRICS = {"T": "translation invariance", "M": "monotonicity"}
BATCH = 1 << 22  # numbers in the windows that are in memory at once
MOST_ATTENTION = 1 << 27  # numbers in the windows of one token; the paper's are 1 << 23
MOST_CODE = 1 << 29  # numbers in the code of all positions
SHORTEST = 32  # tokens of training from which a sixteenth is more than one lag
NO_WORSE = 0.05
"""A rise beyond the trained length up to which an encoding is said to be no worse there."""


@dataclass(frozen=True)
class Grid:
    """Where a model is probed.

    Attributes:
        ranges: Query positions, from the first to before the second.
        offsets: Lags from 0 to below each.
        trained: Tokens of a training window; None if it is not known.
    """

    ranges: tuple[tuple[int, int], ...]
    offsets: tuple[int, ...]
    trained: int | None

    @property
    def beyond(self) -> int | None:
        """The number of the first range that lies beyond the trained length."""
        ranges = enumerate(self.ranges)
        return next((number for number, (low, _) in ranges if self.trained is not None and low >= self.trained), None)

    @property
    def within(self) -> int | None:
        """The number of the last range that lies within the trained length."""
        numbers = [number for number, (_, high) in enumerate(self.ranges) if self.trained and high <= self.trained]
        return numbers[-1] if numbers else None


@dataclass(frozen=True)
class Scores:
    """What was measured of a model.

    Attributes:
        name: Of the model.
        grid: Where.
        values: By the letter of a metric, `(draws, heads, ranges, offsets)`: means over tokens; nan is undefined.
    """

    name: str
    grid: Grid
    values: Mapping[str, Floats]

    def best(self, metric: str) -> list[list[Spread]]:
        """The mean over draws of the head that has the lowest, and its deviation, by range and offset."""
        values = self.values[metric]
        means = values.mean(0)
        heads = np.where(np.isnan(means), np.inf, means).argmin(0)[None, None]
        lowest = np.take_along_axis(values, np.broadcast_to(heads, (len(values), 1, *heads.shape[2:])), 1)[:, 0]
        deviations = lowest.std(0, ddof=1) if len(lowest) > 1 else np.full(lowest.shape[1:], np.nan)
        pairs = zip(lowest.mean(0), deviations, strict=True)
        return [[Spread(*map(float, cell)) for cell in zip(*rows, strict=True)] for rows in pairs]


def grid_of(
    judged: Judged,
    trained: int | None,
    ranges: Sequence[tuple[int, int]] | None,
    offsets: Sequence[int] | None,
) -> Grid:
    """Where to probe a model: what is given, or else the paper's ranges and offsets, in proportion to its training.

    Raises:
        UserError: Its training is needed and not known, or was on windows too short for that; or it is too much.
    """
    if ranges is not None and offsets is not None:
        return _fitting(judged, Grid(tuple(ranges), tuple(offsets), judged.trained_length or trained))
    window = window_of(judged, trained)
    if window < SHORTEST:
        raise UserError(
            f"model: {judged.name} was trained on {window} tokens, too few to divide: give positions and offsets"
        )
    usual = ((0, window // 2), (window // 2, window), (window, window + window // 4))
    lags = (window // 16, window // 4, window // 2)
    return _fitting(judged, Grid(tuple(ranges or usual), tuple(offsets or lags), window))


def _fitting(judged: Judged, grid: Grid) -> Grid:
    """The same, if it does not take more memory than machines have."""
    config = judged.model.config
    end, lags = max(high for _, high in grid.ranges), max(grid.offsets)
    rows = max(high - low for low, high in grid.ranges)
    if lags > end:
        raise UserError(f"offsets={lags}: no query has so many keys, as positions end at {end:,}; take smaller ones")
    if end * config.d_model * (config.num_realizations if config.is_stochastic else 1) > MOST_CODE:
        raise UserError(f"positions: up to {end:,} is too far to be probed; take lower ones")
    if config.num_heads * rows * lags > MOST_ATTENTION:
        raise UserError(f"positions and offsets: {rows:,} queries with {lags:,} keys each are too many; take fewer")
    return grid


def measure(
    models: Sequence[Judged], grids: Sequence[Grid], tokens: int | None, draws: int, seed: int, progress: Progress
) -> list[Scores]:
    """Probe models.

    Args:
        models: The models.
        grids: Where to probe each.
        tokens: How many tokens of the vocabulary, evenly spaced; None for all.
        draws: Of the noise of models that have any.
        seed: Of the first draw; the next has the next.
        progress: Shows how far it is.
    """
    plans = [_plan(model, grid, tokens, draws) for model, grid in zip(models, grids, strict=True)]
    total = sum(many * len(blocks) for many, blocks in plans)
    sums: list[list[list[dict[str, Floats]]]] = [[[] for _ in range(many)] for many, _ in plans]
    for number, draw, found in progress(_probed(models, grids, plans, seed), total, "block"):
        sums[number][draw].append(found)
    scores = []
    for number, model in enumerate(models):
        values = {
            metric: np.stack([_mean(np.concatenate([block[metric] for block in blocks])) for blocks in sums[number]])
            for metric in METRICS
        }
        scores.append(Scores(model.name, grids[number], values))
    return scores


def _plan(judged: Judged, grid: Grid, tokens: int | None, draws: int) -> tuple[int, list[list[int]]]:
    """How many draws a model needs, and the tokens that are probed at once."""
    config = judged.model.config
    many = config.vocab_size if tokens is None else min(tokens, config.vocab_size)
    chosen = np.unique(np.linspace(0, config.vocab_size - 1, many).round().astype(int)).tolist()
    rows = max(high - low for low, high in grid.ranges)
    size = max(1, BATCH // (config.num_heads * rows * max(grid.offsets)))
    is_random = config.is_stochastic and config.noise != "exact"
    return draws if is_random else 1, [chosen[start : start + size] for start in range(0, len(chosen), size)]


def _probed(
    models: Sequence[Judged], grids: Sequence[Grid], plans: Sequence[tuple[int, list[list[int]]]], seed: int
) -> Iterator[tuple[int, int, dict[str, Floats]]]:
    """The model, the draw and the metrics of each block of tokens."""
    for number, (judged, grid, (draws, blocks)) in enumerate(zip(models, grids, plans, strict=True)):
        for draw in range(draws):
            probe = Probe(judged.model, judged.model.draw(seed + draw), max(high for _, high in grid.ranges))
            for block in blocks:
                yield number, draw, _block(probe, grid, block)


def _block(probe: Probe, grid: Grid, tokens: list[int]) -> dict[str, Floats]:
    """The metrics of some tokens, `(tokens, heads, ranges, offsets)`."""
    queries, keys = probe.queries_and_keys(tokens)
    found: dict[str, list[Floats]] = {metric: [] for metric in METRICS}
    for low, high in grid.ranges:
        exponents = probe.windows(queries, keys, low, high, max(grid.offsets))
        found["T"].append(translation_invariance(exponents, grid.offsets))
        found["M"].append(monotonicity(exponents, grid.offsets))
    return {metric: np.stack(values, 2) for metric, values in found.items()}


def _mean(values: Floats) -> Floats:
    """The mean over the first axis of what is defined."""
    defined = ~np.isnan(values)
    counts = defined.sum(0)
    sums: Floats = np.where(defined, values, 0).sum(0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def pe_findings(scores: Sequence[Scores], models: Sequence[Judged], settings: Mapping[str, Any]) -> Findings:
    """What came of it."""
    from musicgen.evaluation.pe_picture import draw_scores  # matplotlib: seconds that a mistake should not take

    columns = cell_names([item.grid for item in scores])
    return Findings(
        kind="pe",
        title="Positional encodings: translation invariance and monotonicity",
        summary=_summary(scores, models),
        settings=settings,
        tables=[_table(scores, columns), _heads(scores)],
        pictures=[draw_scores(scores)],
    )


def cell_names(grids: Sequence[Grid]) -> list[str]:
    """A name for each range and offset; in terms of N if models were trained on different lengths N."""
    same = len({(grid.ranges, grid.offsets) for grid in grids}) == 1
    names = range_names(grids), offset_names(grids)
    first = [] if same else ["N"]
    return [*first, *(f"{where} {offset}" for where in names[0] for offset in names[1])]


def range_names(grids: Sequence[Grid]) -> list[str]:
    """A name for each range of queries."""
    if len({grid.ranges for grid in grids}) == 1:
        return [f"{low:,}–{high - 1:,}" for low, high in grids[0].ranges]
    return ["0–N/2", "N/2–N", "N–1.25N"]


def offset_names(grids: Sequence[Grid]) -> list[str]:
    """A name for each offset."""
    if len({grid.offsets for grid in grids}) == 1:
        return [f"<{offset:,}" for offset in grids[0].offsets]
    return ["<N/16", "<N/4", "<N/2"]


def _table(scores: Sequence[Scores], columns: list[str]) -> Table:
    """As the paper's: a row for each model and metric."""
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


def _summary(scores: Sequence[Scores], models: Sequence[Judged]) -> list[str]:
    sentences = [
        "Unnormalised attention of the first layer in pieces of one token repeated; each value is a mean over tokens. "
        "T is 0 if attention depends on the distance alone; M is 0 if it fades steadily with distance, ½ if at random."
    ]
    noisy = {model.name for model in models if model.model.config.is_stochastic}
    sentences += [sentence for item in scores for sentence in _verdict(item, item.name in noisy)]
    decayed = [model.name for model in models if model.model.config.decay != "none"]
    if decayed:
        sentences.append(f"The decay of {', '.join(decayed)} is part of the attention that was measured.")
    other = [model.name for model in models if model.model.config.feature_map != "favor"]
    if other:
        sentences.append(f"{', '.join(other)} was not trained to approximate the exponential that was measured.")
    return sentences


def _verdict(item: Scores, is_noisy: bool) -> list[str]:
    """Whether a model's encoding, which may be noisy, does beyond the trained length what it does within."""
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
        # Draws scatter: what they cannot tell apart is no change.
        noise = 0.0 if draws == 1 else 2 * math.sqrt((near.deviation**2 + far.deviation**2) / draws)
        is_worse |= rise > max(NO_WORSE, noise)
    verdict = f"{item.name} is {'worse' if is_worse else 'no worse'} beyond its {item.grid.trained:,} trained tokens"
    if is_noisy and draws == 1:
        verdict = f"One draw cannot tell whether {item.name} is worse beyond its {item.grid.trained:,} trained tokens"
    return [f"{verdict} than within: where it changes most for the worse, {' and '.join(parts)}."]
