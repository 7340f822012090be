"""Similarity of style against time, as the paper draws it: a box for each quarter of the continuations.

The hard choice: what a number means is in the picture. Beside the boxes are the similarity that two halves of one
piece have, which no continuation is expected to pass, and that of pieces in different styles, which is for nothing.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from musicgen.evaluation.style import METRICS
from musicgen.evaluation.style_files import Result
from musicgen.evaluation.style_report import COLUMNS, TITLES, Summary, values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOX, CEILING, FLOOR = "#0072b2", "#009e73", "#d55e00"
"""Told apart by colour-blind readers too."""
LEGEND = {CEILING: "ceiling: a reference's two halves", FLOOR: "floor: a reference in another style"}
NAMES = ("0-25 %", "25-50 %", "50-75 %", "75-100 %")
DOTS = 120  # to the inch


def draw_styles(result: Result, made: dict[str, dict[str, Summary]]) -> dict[str, bytes]:
    """The picture as `png` and as `svg`. The same result gives the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = [metric for metric in METRICS if any(made[metric][name].references for name in COLUMNS[:4])]
    figure = Figure(figsize=(1.2 + 3.6 * len(shown), 4.2), layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, metric in zip(panels, shown, strict=True):
        _draw_panel(axes, result, metric, made[metric])
    panels[0].set(ylabel="style similarity", ylim=(-0.02, 1.04))
    figure.supxlabel("time in the continuation", size=10)
    bands = [Line2D([], [], color=colour, linestyle="--", label=label) for colour, label in LEGEND.items()]
    figure.legend(handles=bands, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    pictures = {}
    with mpl.rc_context({"svg.hashsalt": "musicgen"}):
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=DOTS, metadata=metadata)
            pictures[kind] = file.getvalue()
    return pictures


def _draw_panel(axes: Axes, result: Result, metric: str, row: dict[str, Summary]) -> None:
    axes.set_title(TITLES[metric], size=11)
    for name, colour in zip(("ceiling", "floor"), LEGEND, strict=True):
        band = row[name]
        if band.references:
            axes.axhspan(band.lower_quartile, band.upper_quartile, color=colour, alpha=0.15, linewidth=0)
            axes.axhline(band.median, color=colour, linewidth=1.2, linestyle="--")
    data = [values(result, metric, name) for name in COLUMNS[:4]]
    boxes = axes.boxplot(
        data, positions=range(4), widths=0.5, showfliers=False, patch_artist=True,
        medianprops={"color": "black", "linewidth": 1.6}, whiskerprops={"color": BOX}, capprops={"color": BOX},
    )  # fmt: skip
    for box in boxes["boxes"]:
        box.set(facecolor="white", edgecolor=BOX, linewidth=1.2)
    random = np.random.default_rng(0)
    for place, numbers in enumerate(data):
        across = place + random.uniform(-0.17, 0.17, len(numbers))
        axes.scatter(across, numbers, s=9, color=BOX, alpha=0.45, linewidths=0, zorder=3)
    axes.set_xticks(range(4), NAMES, size=9)
    axes.set_xlim(-0.6, 3.6)
    axes.grid(axis="y", color="0.9", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
