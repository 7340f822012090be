"""Translation invariance and monotonicity of positional encodings, as in the paper's table.

Design note: the metrics are averaged over tokens, not the attention. In a map of mean attention a few tokens with large
attention would dominate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from musicgen.errors import UserError
from musicgen.evaluation import Progress
from musicgen.evaluation.encoding.metrics import Floats, monotonicity, translation_invariance
from musicgen.evaluation.encoding.probing import Probe
from musicgen.evaluation.models import EvaluatedModel, window_of
from musicgen.evaluation.report.findings import Spread

METRICS = {"T": "translation invariance", "M": "monotonicity"}
BATCH = 1 << 22  # numbers in memory at once
MOST_ATTENTION = 1 << 27  # numbers in the windows of one token; the paper's are 1 << 23
MOST_CODE = 1 << 29  # numbers in the code of all positions
SHORTEST = 32  # tokens of training from which a sixteenth is more than one lag


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
    """What was measured for a model.

    Attributes:
        name: The name of the model.
        grid: Where it was probed.
        values: By the letter of a metric, means over tokens, `(draws, heads, ranges, offsets)`; nan means undefined.
    """

    name: str
    grid: Grid
    values: Mapping[str, Floats]

    def best(self, metric: str) -> list[list[Spread]]:
        """By range and offset, the mean over draws of the head with the lowest mean, and its deviation."""
        values = self.values[metric]
        means = values.mean(0)
        heads = np.where(np.isnan(means), np.inf, means).argmin(0)[None, None]
        lowest = np.take_along_axis(values, np.broadcast_to(heads, (len(values), 1, *heads.shape[2:])), 1)[:, 0]
        deviations = lowest.std(0, ddof=1) if len(lowest) > 1 else np.full(lowest.shape[1:], np.nan)
        pairs = zip(lowest.mean(0), deviations, strict=True)
        return [[Spread(*map(float, cell)) for cell in zip(*rows, strict=True)] for rows in pairs]


def grid_of(
    evaluated: EvaluatedModel,
    trained: int | None,
    ranges: Sequence[tuple[int, int]] | None,
    offsets: Sequence[int] | None,
) -> Grid:
    """Where to probe a model: as given, or else the paper's ranges and offsets in proportion to its trained length.

    Raises:
        UserError: The trained length is not known or too short, or the ranges and offsets are too large.
    """
    if ranges is not None and offsets is not None:
        return _fitting(evaluated, Grid(tuple(ranges), tuple(offsets), evaluated.trained_length or trained))
    window = window_of(evaluated, trained)
    if window < SHORTEST:
        raise UserError(
            f"model: {evaluated.name} was trained on {window} tokens, too few to divide: give positions and offsets"
        )
    usual = ((0, window // 2), (window // 2, window), (window, window + window // 4))
    lags = (window // 16, window // 4, window // 2)
    return _fitting(evaluated, Grid(tuple(ranges or usual), tuple(offsets or lags), window))


def _fitting(evaluated: EvaluatedModel, grid: Grid) -> Grid:
    """The same grid, if it fits into memory."""
    config = evaluated.model.config
    end, lags = max(high for _, high in grid.ranges), max(grid.offsets)
    rows = max(high - low for low, high in grid.ranges)
    if lags > end:
        raise UserError(
            f"offsets={lags}: no query has this many keys, because positions end at {end:,}; use smaller ones"
        )
    if end * config.d_model * (config.num_realizations if config.is_stochastic else 1) > MOST_CODE:
        raise UserError(f"positions: up to {end:,} is too far to probe; use lower ones")
    if config.num_heads * rows * lags > MOST_ATTENTION:
        raise UserError(f"positions and offsets: {rows:,} queries with {lags:,} keys each are too many; use fewer")
    return grid


def measure(
    models: Sequence[EvaluatedModel],
    grids: Sequence[Grid],
    tokens: int | None,
    draws: int,
    seed: int,
    progress: Progress,
) -> list[Scores]:
    """Probe each model on its grid, with this many tokens of the vocabulary, evenly spaced (None means all).

    Models with noise have several draws. The first has the seed `seed`, each further one the next.
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


def _plan(evaluated: EvaluatedModel, grid: Grid, tokens: int | None, draws: int) -> tuple[int, list[list[int]]]:
    """How many draws a model needs, and its tokens in groups that are probed at once."""
    config = evaluated.model.config
    many = config.vocab_size if tokens is None else min(tokens, config.vocab_size)
    chosen = np.unique(np.linspace(0, config.vocab_size - 1, many).round().astype(int)).tolist()
    rows = max(high - low for low, high in grid.ranges)
    size = max(1, BATCH // (config.num_heads * rows * max(grid.offsets)))
    is_random = config.is_stochastic and config.noise != "exact"
    return draws if is_random else 1, [chosen[start : start + size] for start in range(0, len(chosen), size)]


def _probed(
    models: Sequence[EvaluatedModel], grids: Sequence[Grid], plans: Sequence[tuple[int, list[list[int]]]], seed: int
) -> Iterator[tuple[int, int, dict[str, Floats]]]:
    """The model, the draw and the metrics of each block of tokens."""
    for number, (evaluated, grid, (draws, blocks)) in enumerate(zip(models, grids, plans, strict=True)):
        for draw in range(draws):
            probe = Probe(evaluated.model, evaluated.model.draw(seed + draw), max(high for _, high in grid.ranges))
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
    """The mean over the first axis, without undefined values."""
    defined = ~np.isnan(values)
    counts = defined.sum(0)
    sums: Floats = np.where(defined, values, 0).sum(0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


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
