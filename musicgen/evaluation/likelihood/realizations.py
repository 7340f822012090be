"""Loss against R: models trained with one number of noise realisations, and used with others.

Design note: draws have the same seeds at every R, so only R differs from cell to cell. The seeds are those of
validation in training, so a model's loss at its own R is its `val/loss`. In the map, brighter is better, as in the
paper, and every value is printed, because a colour cannot be read exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from musicgen.errors import UserError
from musicgen.evaluation import Progress
from musicgen.evaluation.likelihood.losses import chunks, losses, whole
from musicgen.evaluation.models import EvaluatedModel, window_of
from musicgen.evaluation.report.drawing import colour, label, mark, new_figure, render, tidy
from musicgen.evaluation.report.findings import Cell, Findings, Picture, Spread, Table
from musicgen.evaluation.resampling import deviation
from musicgen.languages import Tokens
from musicgen.model import PerformerConfig


@dataclass(frozen=True)
class Row:
    """Models that differ only by seed, used with several numbers of realisations.

    Attributes:
        name: The name of the models.
        realizations: R in training.
        length: How many tokens of each song were predicted, at most.
        cells: By R, the mean loss and its deviation over draws; nan where R is too small for the model.
    """

    name: str
    realizations: int
    length: int
    cells: Mapping[int, Spread]


def fewest(config: PerformerConfig) -> int:
    """The smallest R that a model can have: exact noise needs one for each sine, cosine and gate of a feature."""
    return (2 * config.num_sines + config.gated) * config.head_features if config.noise == "exact" else 1


def try_realizations(
    named: Mapping[str, Sequence[EvaluatedModel]],
    pieces: Sequence[Tokens],
    numbers: Sequence[int],
    length: int | None,
    seeds: Sequence[int],
    batch: int,
    progress: Progress,
) -> list[Row]:
    """The mean loss of each family of models with each R and with its own, ordered by R in training.

    `length` is how many tokens of each song are predicted; None means the length of training windows.
    """
    for name, members in named.items():
        config = members[0].model.config
        if not config.is_stochastic:
            raise UserError(
                f"model: {name} encodes positions without noise (pe={config.pe}), so it has no R; leave it out"
            )
    tried = sorted({*numbers, *(members[0].model.config.num_realizations for members in named.values())})
    songs = {}
    for name, members in named.items():
        end = (length or window_of(members[0], None, "length")) + 1
        songs[name] = [whole(piece[:end]) for piece in pieces]
    possible = {
        name: [number for number in tried if number >= fewest(members[0].model.config)]
        for name, members in named.items()
    }
    total = len(seeds) * sum(
        len(members) * len(possible[name]) * chunks(songs[name], batch) for name, members in named.items()
    )
    ticks = iter(progress(range(total), total, "chunk"))
    next(ticks, None)
    rows = []
    for name, members in named.items():
        cells = dict.fromkeys(tried, Spread(math.nan, math.nan))
        for number in possible[name]:
            means = np.zeros(len(seeds))
            for member in members:
                for place, seed in enumerate(seeds):
                    draw = member.model.draw(seed, number)
                    done, clock = (lambda: next(ticks, None)), member.language.clock
                    found = losses(member.model, songs[name], draw, batch, done, clock)
                    means[place] += np.concatenate(found).mean(dtype=np.float64) / len(members)
            cells[number] = Spread(float(means.mean()), deviation(means))
        longest = max(len(song.targets) for song in songs[name])
        rows.append(Row(name, members[0].model.config.num_realizations, longest, cells))
    return sorted(rows, key=lambda row: row.realizations)


def realizations_findings(rows: Sequence[Row], songs: int, draws: int) -> Findings:
    """Findings on families of models."""
    tried = list(rows[0].cells)
    table_rows: list[list[Cell]] = [
        [row.name, row.realizations, *(None if math.isnan(cell.mean) else cell for cell in row.cells.values())]
        for row in rows
    ]
    table = Table(
        "loss",
        "Cross-entropy in nats per token, mean ± deviation over draws of noise, with R realisations",
        ["model", "trained with R", *(f"R = {number}" for number in tried)],
        table_rows,
    )
    return Findings(
        kind="realizations",
        title="Loss against the number of noise realisations",
        summary=_sentences(rows, songs, draws),
        tables=[table],
        pictures=[_draw(rows)],
        left_out=[
            f"{row.name}: R = {number} is too few for exact noise"
            for row in rows
            for number, cell in row.cells.items()
            if math.isnan(cell.mean)
        ],
    )


def _sentences(rows: Sequence[Row], songs: int, draws: int) -> list[str]:
    longest = max(row.length for row in rows)
    noise = "one draw of the noise" if draws == 1 else f"{draws} draws of the noise, averaged"
    lines = [
        f"{songs:,} {'song' if songs == 1 else 'songs'}, each to position {longest:,} at most; {noise}. "
        "Lower is better."
    ]
    for row in rows:
        # Cells of a family are means over its models, and so are their deviations.
        known = {number: cell for number, cell in row.cells.items() if not math.isnan(cell.mean)}
        own, best = known[row.realizations], min(known, key=lambda number: known[number].mean)
        words = f"{row.name}: {own.mean:.3f} nats per token with its training R = {row.realizations}"
        others = [
            f"{known[number].mean - own.mean:+.3f} with {number}" for number in known if number != row.realizations
        ]
        words += f" ({', '.join(others)})" if others else ""
        lines.append(f"{words}; lowest with R = {best}." if others else f"{words}; no other R was possible.")
        first, last = min(known), max(known)
        spreads = known[first].deviation, known[last].deviation
        if first < last and not math.isnan(spreads[0]):
            lines.append(
                f"The deviation between draws is {spreads[0]:.4f} with R = {first}, and {spreads[1]:.4f} with "
                f"R = {last}."
            )
    return lines


def _draw(rows: Sequence[Row]) -> Picture:
    """Loss against R."""
    if len(rows) == 1:
        return _draw_curve(rows[0])
    values = np.array([[cell.mean for cell in row.cells.values()] for row in rows])
    figure = new_figure(3.2 + 0.85 * values.shape[1], 1.5 + 0.5 * len(rows))
    axes = figure.subplots()
    low, high = np.nanmin(values), np.nanmax(values)
    shown = axes.imshow(values, cmap="viridis_r", vmin=low, vmax=high, aspect="auto")
    middle = (low + high) / 2
    for place, row in enumerate(rows):
        for column, (number, cell) in enumerate(row.cells.items()):
            text = "–" if np.isnan(cell.mean) else f"{cell.mean:.3f}"
            axes.text(
                column, place, text, ha="center", va="center", size=10,
                weight="bold" if number == row.realizations else "normal",
                color="white" if cell.mean > middle else "black",
            )  # fmt: skip
    axes.set_xticks(range(values.shape[1]), [str(number) for number in rows[0].cells])
    axes.set_yticks(range(len(rows)), [f"{label(row.name)} ({row.realizations})" for row in rows])
    axes.set(xlabel="R in use (realisations)", ylabel="model (its R in training)")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(shown, ax=axes, label="nats per token", fraction=0.06, pad=0.02)
    bar.ax.invert_yaxis()  # the best value is at the top
    bar.outline.set_visible(False)
    title = "Cross-entropy of models trained with one R and used with another; brighter is better, bold: the same R"
    return render(figure, "realizations", title)


def _draw_curve(row: Row) -> Picture:
    known = {number: cell for number, cell in row.cells.items() if not np.isnan(cell.mean)}
    figure = new_figure(7, 4)
    axes = figure.subplots()
    means, bars = [cell.mean for cell in known.values()], [cell.deviation for cell in known.values()]
    errors = None if np.isnan(bars).any() else bars
    axes.errorbar(list(known), means, errors, color=colour(0), marker="o", markersize=4, linewidth=1.6, capsize=3)
    mark(axes, row.realizations, f"trained with {row.realizations}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(known), [str(number) for number in known])
    axes.minorticks_off()
    tidy(axes)
    axes.set(xlabel="R in use (realisations)", ylabel="cross-entropy (nats per token)", title=label(row.name))
    title = f"Cross-entropy of {row.name} against R, with the deviation over draws; trained with R = {row.realizations}"
    return render(figure, "realizations", title)
