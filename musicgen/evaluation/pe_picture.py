"""The picture of translation invariance and monotonicity: how each goes on beyond the trained length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from musicgen.evaluation.drawing import colour, label, render, tidy
from musicgen.evaluation.findings import Picture
from musicgen.evaluation.pe import METRICS, Scores, offset_names, range_names


def draw_scores(scores: Sequence[Scores]) -> Picture:
    """Both metrics of each model's best head against query positions, a panel for each offset."""
    grids = [item.grid for item in scores]
    ranges, offsets = range_names(grids), offset_names(grids)
    lines = -(-len(scores) // 4)
    figure = Figure(figsize=(max(6.0, 3.1 * len(offsets)), 5.2 + 0.22 * lines), layout="constrained")
    panels = figure.subplots(len(METRICS), len(offsets), sharex=True, sharey="row", squeeze=False)
    for row, (metric, words) in enumerate(METRICS.items()):
        for column, offset in enumerate(offsets):
            axes = panels[row][column]
            for number, item in enumerate(scores):
                cells = [line[column] for line in item.best(metric)]
                # Side by side, so that bars do not hide one another.
                places = np.arange(len(ranges)) + 0.06 * (number - (len(scores) - 1) / 2)
                deviations = np.nan_to_num([cell.deviation for cell in cells])
                axes.errorbar(
                    places,
                    [cell.mean for cell in cells],
                    deviations,
                    color=colour(number),
                    marker="o",
                    markersize=4,
                    linewidth=1.3,
                    capsize=2,
                    label=label(item.name),
                )
            beyond = grids[0].beyond
            if beyond is not None:
                axes.axvspan(beyond - 0.5, len(ranges) - 0.5, color="0.94", zorder=0)
            tidy(axes)
            axes.set_xticks(range(len(ranges)), ranges)
            axes.set_xlim(-0.5, len(ranges) - 0.5)
            if row == 0:
                axes.set_title(f"query-key offset {offset}", fontsize=10)
            else:
                axes.set_xlabel("query position")
        top = panels[row][0].get_ylim()[1]
        panels[row][0].set_ylim(-0.03 * top, top)  # room for the lower half of what lies at 0
        panels[row][0].set_ylabel(f"{metric}: {words}\n(best head, 0 is best)")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(scores)), frameon=False)
    title = "Translation invariance and monotonicity of each model's best head; shaded: beyond the trained length"
    return render(figure, "pe", title)
