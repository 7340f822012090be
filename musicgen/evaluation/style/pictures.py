"""Similarity of style over time, as the paper draws it: a box for each quarter of the continuations.

Design note: the picture shows what a number means. The ceiling is the similarity of the two halves of one piece, which
no continuation is expected to exceed. The floor is the similarity of pieces in different styles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from musicgen.evaluation.report.drawing import colour, label, new_figure, render, tidy
from musicgen.evaluation.report.findings import Picture
from musicgen.evaluation.style.similarity import METRICS, QUARTERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {"time_pitch": "time-pitch", "onset_duration": "onset-duration", "onset_drum": "onset-drum"}
COLUMNS = (*(f"quarter {number}" for number in range(1, QUARTERS + 1)), "ceiling", "floor")
LEGEND = {"ceiling": ("#555555", "ceiling: a reference's two halves"), "floor": ("#999999", "floor: another style")}
NAMES = ("0-25 %", "25-50 %", "50-75 %", "75-100 %")
GROUP = 0.7
"""Width of the boxes of one quarter, in quarters."""


class Summary(NamedTuple):
    """Similarities over references.

    Attributes:
        references: How many have one.
        median, lower_quartile, upper_quartile: nan if there are no references.
        interval: The 95 % interval of the median, by resampling references.
    """

    references: int
    median: float
    lower_quartile: float
    upper_quartile: float
    interval: tuple[float, float]


Summaries = Mapping[str, Mapping[str, Summary]]
"""By metric and column."""


def draw_styles(boxes: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], made: Mapping[str, Summaries]) -> Picture:
    """The picture."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = [metric for metric in METRICS if any(any(map(len, item[metric])) for item in boxes.values())]
    figure = new_figure(1.2 + 3.6 * len(shown), 4.2)
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, metric in zip(panels, shown, strict=True):
        axes.set_title(TITLES[metric], size=11)
        _draw_yardsticks(axes, next(iter(made.values()))[metric])
        for number, item in enumerate(boxes.values()):
            _draw_boxes(axes, item[metric], number, len(boxes))
        axes.set_xticks(range(QUARTERS), NAMES, size=9)
        axes.set_xlim(-0.6, QUARTERS - 0.4)
        tidy(axes)
    panels[0].set(ylabel="style similarity", ylim=(-0.02, 1.04))
    figure.supxlabel("time in the continuation", size=10)
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=shade, linestyle="--", label=label) for shade, label in LEGEND.values()
    ]
    if len(boxes) > 1:
        handles += [Patch(facecolor="white", edgecolor=colour(n), label=label(name)) for n, name in enumerate(boxes)]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 4), frameon=False, fontsize=9)
    return render(figure, "style", "Style similarity of each quarter of the continuations, over references")


def _draw_yardsticks(axes: Axes, row: Mapping[str, Summary]) -> None:
    for name, (shade, _) in LEGEND.items():
        band = row[name]
        if band.references:
            axes.axhspan(band.lower_quartile, band.upper_quartile, color=shade, alpha=0.15, linewidth=0)
            axes.axhline(band.median, color=shade, linewidth=1.2, linestyle="--")


def _draw_boxes(axes: Axes, quarters: Sequence[Sequence[float]], number: int, sets: int) -> None:
    width = GROUP / sets
    places = np.arange(QUARTERS) + (number - (sets - 1) / 2) * width
    drawn = axes.boxplot(
        quarters, positions=places, widths=0.8 * width, showfliers=False, patch_artist=True,
        medianprops={"color": "black", "linewidth": 1.6},
        whiskerprops={"color": colour(number)}, capprops={"color": colour(number)},
    )  # fmt: skip
    for box in drawn["boxes"]:
        box.set(facecolor="white", edgecolor=colour(number), linewidth=1.2)
    random = np.random.default_rng(0)
    for place, numbers in zip(places, quarters, strict=True):
        across = place + random.uniform(-0.25, 0.25, len(numbers)) * width
        axes.scatter(across, numbers, s=9, color=colour(number), alpha=0.45, linewidths=0, zorder=3)
