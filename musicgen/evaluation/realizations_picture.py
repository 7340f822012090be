"""The figure of loss against R: a map of R in training and R in use, or a curve if there is one model.

The hard choice: brighter is better, as in the paper, and every value is printed, because a colour can be compared but
not read. The cells in which a model has the R of its training are in bold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from musicgen.evaluation.drawing import colour, label, render, tidy
from musicgen.evaluation.findings import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from musicgen.evaluation.realizations import Row


def draw_realizations(rows: Sequence[Row]) -> Picture:
    """Loss against R."""
    if len(rows) == 1:
        return _draw_curve(rows[0])
    from matplotlib.figure import Figure

    values = np.array([[cell.mean for cell in row.cells.values()] for row in rows])
    figure = Figure(figsize=(3.2 + 0.85 * values.shape[1], 1.5 + 0.5 * len(rows)), layout="constrained")
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
    bar = figure.colorbar(shown, ax=axes, label="nats a token", fraction=0.06, pad=0.02)
    bar.ax.invert_yaxis()  # what is better is above
    bar.outline.set_visible(False)
    title = "Cross-entropy of models trained with one R and used with another; brighter is better, bold: the same R"
    return render(figure, "realizations", title)


def _draw_curve(row: Row) -> Picture:
    from matplotlib.figure import Figure

    known = {number: cell for number, cell in row.cells.items() if not np.isnan(cell.mean)}
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    means, bars = [cell.mean for cell in known.values()], [cell.deviation for cell in known.values()]
    errors = None if np.isnan(bars).any() else bars
    axes.errorbar(list(known), means, errors, color=colour(0), marker="o", markersize=4, linewidth=1.6, capsize=3)
    _mark_own(axes, row)
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(known), [str(number) for number in known])
    axes.minorticks_off()
    tidy(axes)
    axes.set(xlabel="R in use (realisations)", ylabel="cross-entropy (nats a token)", title=label(row.name))
    title = f"Cross-entropy of {row.name} against R, with the deviation over draws; trained with R = {row.realizations}"
    return render(figure, "realizations", title)


def _mark_own(axes: Axes, row: Row) -> None:
    """A line at the R of training."""
    axes.axvline(row.realizations, color="black", linewidth=1)
    axes.annotate(
        f"trained with {row.realizations}", (row.realizations, 1), xycoords=("data", "axes fraction"), xytext=(4, -3),
        textcoords="offset points", va="top", size=9,
    )  # fmt: skip
