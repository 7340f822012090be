"""Distributions of metrics, set beside set, and the similarity of bars against their distance.

The hard choice: every piece is a dot. A density of twelve pieces promises more than there is; dots show how many there
are, where most lie (the box), and what single pieces do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from musicgen.evaluation.drawing import colour, label, render, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from musicgen.evaluation.findings import Picture
    from musicgen.evaluation.music import Measured

REFERENCE_COLOUR = "#4d4d4d"
COLUMNS = 4
MOST_DOTS = 200
"""Of a set; of more pieces, as many are drawn at equal distances in their order."""


def draw_distributions(sets: Sequence[Measured], metrics: Sequence[str]) -> Picture:
    """A panel for each metric, in it a row for each set; the reference, which is the last of them, is at the top."""
    from matplotlib.figure import Figure

    names = [f"{label(item.name, 24)}\n({len(item.pieces):,})" for item in sets]
    rows, inside = -(-len(metrics) // COLUMNS), 0.25 + 0.42 * len(sets)
    width, height = 13.0, rows * (inside + 0.6)
    figure = Figure(figsize=(width, height))
    panels = figure.subplots(rows, COLUMNS, squeeze=False, sharey=True)
    # Measured by hand: a layout found by trying takes seconds for so many panels.
    left = 0.3 + 0.085 * max(len(line) for name in names for line in name.split("\n"))
    figure.subplots_adjust(
        left=left / width, right=1 - 0.2 / width, top=1 - 0.3 / height, bottom=0.3 / height,
        wspace=0.1, hspace=0.6 / inside,
    )  # fmt: skip
    for axes, metric in zip(panels.flat, metrics, strict=False):
        _draw_panel(axes, sets, metric)
    for axes in panels.flat[len(metrics) :]:
        axes.set_visible(False)
    panels[0, 0].set_yticks(range(len(sets)), names)
    panels[0, 0].set_ylim(-0.6, len(sets) - 0.4)
    return render(
        figure,
        "music_distributions",
        "Metrics of generated and of real pieces: a dot for each piece, medians and quartiles",
    )


def _draw_panel(axes: Axes, sets: Sequence[Measured], metric: str) -> None:
    random = np.random.default_rng(0)
    for place, item in enumerate(sets):
        values = item.defined(metric)
        if not len(values):
            axes.text(0.02, place, "–", transform=axes.get_yaxis_transform(), va="center", color="0.5")
            continue
        shade = _shade(sets, place)
        dots = values[np.linspace(0, len(values) - 1, min(len(values), MOST_DOTS)).astype(int)]
        across = place + random.uniform(-0.2, 0.2, len(dots))
        axes.scatter(dots, across, s=7, color=shade, alpha=0.4, linewidths=0)
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        axes.plot([low, high], [place, place], color=shade, linewidth=7, alpha=0.35, solid_capstyle="butt")
        axes.plot([middle, middle], [place - 0.3, place + 0.3], color=shade, linewidth=2)
    left, right = axes.get_xlim()
    if left < 0:  # no metric is: what is drawn there is a margin
        axes.set_xlim(-0.04 * right, right)
    axes.set_title(metric, size=9.5)
    axes.tick_params(labelsize=8)
    tidy(axes, "x")


def _shade(sets: Sequence[Measured], place: int) -> str:
    """The colour of a set; the reference is the last of them."""
    return REFERENCE_COLOUR if place == len(sets) - 1 else colour(place)


def draw_bar_similarity(sets: Sequence[Measured]) -> Picture:
    """Medians over pieces, and quartiles as bands."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for place, item in enumerate(sets):
        shade = _shade(sets, place)
        known = np.flatnonzero(~np.isnan(item.curves).all(0))
        if not len(known):
            continue
        low, middle, high = np.nanquantile(item.curves[:, known], [0.25, 0.5, 0.75], axis=0)
        axes.fill_between(known + 1, low, high, color=shade, alpha=0.15, linewidth=0)
        style = "--" if shade == REFERENCE_COLOUR else "-"
        axes.plot(known + 1, middle, color=shade, linestyle=style, marker="o", markersize=3.5, label=label(item.name))
    axes.set(xlabel="distance in bars", ylabel="notes in common (Jaccard)", xticks=range(1, 17))
    axes.set_ylim(bottom=0)
    tidy(axes)
    if axes.lines:
        axes.legend(frameon=False)
    return render(
        figure, "bar_similarity_curve", "Similarity of bars by their distance; lines are medians, bands quartiles"
    )
