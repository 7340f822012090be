"""The findings of `musicgen evaluate infill`: tables, a figure and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from musicgen.evaluation.infill.excerpts import Excerpt
from musicgen.evaluation.infill.fills import FILL, GIVEN, TRUE, Measured
from musicgen.evaluation.report.drawing import colour, label, new_figure, render, tidy
from musicgen.evaluation.report.findings import Cell, Findings, Picture, Table
from musicgen.evaluation.resampling import draw_counts, interval
from musicgen.languages.grid import counted

Row = tuple[Cell, ...]
Estimate = tuple[float, float, float]
"""A mean and its 95 % interval over songs."""


def infill_findings(
    measured: Mapping[str, Measured], excerpts: Sequence[Excerpt], left_out: Sequence[str], seed: int
) -> Findings:
    """What was found.

    Args:
        measured: By model.
        excerpts: The passages.
        left_out: Songs that could not be used.
        seed: Draws the resampled songs.
    """
    gap = excerpts[0].gap
    losses, seams, shares, rows = (list[Row]() for _ in range(4))
    summary = [
        f"{counted(len(excerpts), 'song')}: bars {gap.first + 1} to {gap.end} are missing, with {gap.first} bars "
        f"before them and at least {max(gap.first, 4)} after them. Intervals are of 95 %, over songs."
    ]
    for name, found in measured.items():
        losses += [(name, given, *_ratio(found.losses[given], seed)) for given in GIVEN]
        gained = _difference(found.losses[GIVEN[1]], found.losses[GIVEN[0]], seed)
        summary.append(
            f"{name}: given both sides the true bars are {gained[0]:.3f} nats per token likelier than given the left "
            f"side alone ({gained[1]:.3f} to {gained[2]:.3f})."
        )
        for made in (made for made in found.seams if FILL in made):
            worse = _difference(found.seams[made], found.seams[TRUE], seed)
            summary.append(
                f"{name}: the four bars after a gap are {worse[0]:.3f} nats a token less likely with the {made} in it "
                f"than with the true bars ({worse[1]:.3f} to {worse[2]:.3f})."
            )
        for made in found.seams:
            seams.append((name, made, *_ratio(found.seams[made], seed)))
            similar = (_mean(values[made], seed) for values in (found.f1, found.classes))
            shares.append((name, made, *(number for estimate in similar for number in estimate)))
        for number, item in enumerate(excerpts):
            each = [found.losses[given][number] for given in GIVEN]
            rows.append((name, item.song + 1, *(float(total / max(count, 1)) for total, count in each)))
    return Findings(
        "infill",
        "How well models fill bars",
        summary,
        tables=[
            Table("loss", "Loss of the true bars in nats per token, by what is given",
                  ("model", "given", "loss", "low", "high"), losses),
            Table("similarity", "What stands in the gap beside the true bars: F1 of notes, and common pitch classes",
                  ("model", "in the gap", "F1", "F1 low", "F1 high", "classes", "classes low", "classes high"), shares),
            Table("seam", "Loss of the four bars after the gap in nats per token, by what stands in it",
                  ("model", "in the gap", "loss", "low", "high"), seams),
            Table("songs", "Loss of the true bars of each song", ("model", "song", *GIVEN), rows, shown=False),
        ],
        pictures=[_picture(losses, shares, seams)],
        left_out=[*left_out, *(f"{name}: {line}" for name, found in measured.items() for line in found.left_out)],
    )  # fmt: skip


def _ratio(sums: NDArray[np.float64], seed: int) -> Estimate:
    """The mean over tokens, and its interval over songs."""
    known = sums[~np.isnan(sums).any(1)]
    if not len(known):
        return (float("nan"),) * 3
    drawn = draw_counts(len(known), np.random.default_rng(seed)) @ known
    low, high = interval(drawn[:, 0] / drawn[:, 1]).tolist()
    return float(known[:, 0].sum() / known[:, 1].sum()), low, high


def _difference(one: NDArray[np.float64], other: NDArray[np.float64], seed: int) -> Estimate:
    """The difference of two means over tokens of the same songs, and its interval."""
    known = ~np.isnan(one).any(1) & ~np.isnan(other).any(1)
    if not known.any():
        return (float("nan"),) * 3
    counts = draw_counts(int(known.sum()), np.random.default_rng(seed))
    first, second = counts @ one[known], counts @ other[known]
    low, high = interval(first[:, 0] / first[:, 1] - second[:, 0] / second[:, 1]).tolist()
    totals = one[known].sum(0), other[known].sum(0)
    return float(totals[0][0] / totals[0][1] - totals[1][0] / totals[1][1]), low, high


def _mean(values: NDArray[np.float64], seed: int) -> Estimate:
    """The mean over songs, and its interval."""
    known = values[~np.isnan(values)]
    return _ratio(np.stack([known, np.ones_like(known)], 1), seed)


def _picture(losses: Sequence[Row], shares: Sequence[Row], seams: Sequence[Row]) -> Picture:
    """Three panels: losses of the true bars, F1 of what stands in the gap, and losses after it."""
    figure = new_figure(11, 4)
    panels = (
        (losses, "loss of the true bars (nats per token)"),
        ([row for row in shares if row[1] != TRUE], "F1 of notes with the true bars"),
        (seams, "loss of the four bars after (nats per token)"),
    )
    for axes, (rows, title) in zip(figure.subplots(1, 3), panels, strict=True):
        models = list(dict.fromkeys(str(row[0]) for row in rows))
        kinds = list(dict.fromkeys(str(row[1]) for row in rows))
        for number, model in enumerate(models):
            own = [[float(str(cell)) for cell in row[2:5]] for row in rows if row[0] == model]
            middle, low, high = np.array(own).T
            places = np.arange(len(own)) + 0.8 / len(models) * (number - (len(models) - 1) / 2)
            spread = np.nan_to_num(np.maximum([middle - low, high - middle], 0.0))
            axes.bar(places, middle, 0.7 / len(models), yerr=spread, color=colour(number), label=label(model))
        axes.set_xticks(range(len(kinds)), [kind.replace(", ", ",\n").replace(" side", "\nside") for kind in kinds])
        axes.tick_params(axis="x", labelsize=8)
        axes.set_title(title, fontsize=10)
        tidy(axes)
        if len(models) > 1:
            axes.legend(fontsize=8)
    return render(figure, "infill", "Losses of the true bars, likeness of fills, and losses of what follows")
