"""Figures of encodings: the metrics, kernels as curves and as matrices, maps of all heads, gates and decays.

Design note: a map is put into a figure as pixels, so that an SVG file with forty maps stays small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from musicgen.evaluation.encoding.kernels import Floats, Templates
from musicgen.evaluation.encoding.maps import BRIGHTEST, Levels, pooled, shade
from musicgen.evaluation.encoding.pe import METRICS, Scores, offset_names, range_names
from musicgen.evaluation.report.drawing import colour, label, new_figure, render, tidy
from musicgen.evaluation.report.findings import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_PIXELS = 160  # of a map in a grid of maps
MATRICES = 4  # that are shown of all templates


def draw_maps(name: str, model: str, maps: Mapping[tuple[int, int], Levels], length: int, trained: int) -> Picture:
    """Maps of all chosen layers and heads, the trained length marked."""
    layers, heads = (sorted({key[place] for key in maps}) for place in (0, 1))
    figure = new_figure(1.9 + 1.55 * len(heads), 0.8 + 1.55 * len(layers))
    panels = figure.subplots(len(layers), len(heads), squeeze=False)  # shared axes would take time with their square
    ticks = [0, trained, length] if trained < 0.9 * length else [0, length]
    names = [f"{tick:,}" for tick in ticks]
    for (layer, head), levels in maps.items():
        axes: Axes = panels[layers.index(layer)][heads.index(head)]
        small = pooled(levels, PANEL_PIXELS).astype(float)
        small[np.triu_indices(len(small), 1)] = np.nan  # no key is later than its query
        axes.imshow(small, cmap="magma", vmin=0, vmax=255, extent=(0, length, length, 0), interpolation="nearest")
        if trained < length:
            # Dotted where it would hide the keys that queries beyond may cling to.
            axes.plot([0, trained], [trained, trained], color="#4fd1ff", linewidth=0.8)
            axes.plot([trained, trained], [trained, length], ":", color="#4fd1ff", linewidth=0.8)
        axes.set_xticks(ticks, names, fontsize=7)
        axes.set_yticks(ticks, names, fontsize=7)
        axes.tick_params(labelbottom=layer == layers[-1], labelleft=head == heads[0])
        axes.spines[["top", "right"]].set_visible(False)
        if layer == layers[0]:
            axes.set_title(f"head {head}", fontsize=9)
        if head == heads[0]:
            axes.set_ylabel(f"layer {layer}", fontsize=9)
    figure.supxlabel("key position", fontsize=9)
    figure.supylabel("query position", fontsize=9)
    values = [0, 0.0002, 0.002, BRIGHTEST]
    scale = figure.colorbar(axes.images[0], ax=panels, shrink=0.6, pad=0.01, ticks=[shade(value) for value in values])
    scale.ax.set_yticklabels(["0", "0.0002", "0.002", "0.02 and more"], fontsize=7)
    scale.set_label("attention", fontsize=9)
    marked = f"; lines: the {trained:,} tokens of training" if trained < length else ""
    return render(figure, name, f"Attention of {model} by layer and head, queries downwards{marked}")


def draw_templates(name: str, model: str, found: Templates) -> Picture:
    """Kernels against the lag: lines in closed form, dots of one draw."""
    columns = min(4, len(found.picks))
    rows = -(-len(found.picks) // columns)
    figure = new_figure(2.9 * columns + 0.3, 1.7 * rows + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    step = -(-len(found.lags) // 128)
    for number, ((head, feature), error) in enumerate(zip(found.picks, found.errors(), strict=True)):
        axes = panels.flat[number]
        axes.plot(found.lags[::step], found.realised[0, number, ::step], ".", color="0.65", markersize=3, zorder=2)
        axes.plot(found.lags, found.closed[number], color=colour(0), linewidth=1.4, zorder=3)
        axes.set_title(f"head {head}, feature {feature}, error {error:.2f}", fontsize=8)
        axes.tick_params(labelsize=7)
        tidy(axes)
    for axes in panels.flat[len(found.picks) :]:
        axes.set_visible(False)
    figure.supxlabel("lag: query position − key position", fontsize=9)
    figure.supylabel("kernel", fontsize=9)
    title = (
        f"Learned positional kernels of {model}; line: closed form, dots: one draw, error: root mean square of draws"
    )
    return render(figure, name, title)


def draw_matrices(name: str, model: str, found: Templates) -> Picture:
    """A few kernels by query and key: as one draw realises them, and as they are expected."""
    many = min(MATRICES, len(found.picks))
    chosen = np.linspace(0, len(found.picks) - 1, many).round().astype(int)
    expected = found.expected()
    size = found.matrices.shape[-1]
    figure = new_figure(2.3 * many + 1.3, 4.9)
    panels = figure.subplots(2, many, squeeze=False, sharex=True, sharey=True)
    largest = float(np.abs(expected[chosen]).max())
    for column, number in enumerate(chosen):
        for row, matrices in enumerate((found.matrices, expected)):
            image = panels[row][column].imshow(
                matrices[number], cmap="RdBu_r", vmin=-largest, vmax=largest, extent=(0, size, size, 0)
            )
            panels[row][column].tick_params(labelsize=7)
        head, feature = found.picks[number]
        panels[0][column].set_title(f"head {head}, feature {feature}", fontsize=9)
        panels[1][column].set_xlabel("key", fontsize=9)
    for row, words in enumerate(("one draw: query", "closed form: query")):
        panels[row][0].set_ylabel(words, fontsize=9)
    figure.colorbar(image, ax=panels, shrink=0.7, label="kernel")
    return render(figure, name, f"Positional kernels of {model} by query and key, of one draw and in closed form")


def draw_gates(found: Mapping[str, Floats]) -> Picture:
    """The mean δ of each layer and head, a panel for each model."""
    layers, heads = (max(deltas.shape[axis] for deltas in found.values()) for axis in (0, 1))
    figure = new_figure(max(4.2, (0.45 * heads + 0.9) * len(found) + 1.2), max(2.4, 0.19 * layers + 1.3))
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (model, deltas) in zip(panels, found.items(), strict=True):
        means = deltas.mean(-1)
        image = axes.imshow(means, cmap="viridis", vmin=0, vmax=1, aspect="auto")
        if means.size <= 64:
            for (layer, head), mean in np.ndenumerate(means):
                axes.text(
                    head, layer, f"{mean:.2f}", ha="center", va="center", fontsize=7, color="0" if mean > 0.6 else "1"
                )
        axes.set_xticks(range(means.shape[1]), range(1, means.shape[1] + 1), fontsize=8)
        axes.set_yticks(range(means.shape[0]), range(1, means.shape[0] + 1), fontsize=8)
        axes.set_title(label(model), fontsize=9)
        axes.set_xlabel("head", fontsize=9)
    panels[0].set_ylabel("layer", fontsize=9)
    figure.colorbar(image, ax=list(panels), label="mean δ")
    return render(figure, "gates", "Gates by layer and head: mean δ, 0 is all positional and 1 blind to positions")


def draw_decays(found: Mapping[str, Floats], reaches: Sequence[int]) -> Picture:
    """γ^lag of each head of the first layer, a panel for each model."""
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    figure = new_figure(max(4.8, 3.4 * columns), 2.6 * rows + 0.3)
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axes, (model, rates), reach in zip(panels.flat, found.items(), reaches, strict=False):
        lags = np.arange(1, reach + 1)
        for head, rate in enumerate(rates[0]):
            axes.plot(lags, rate**lags, color=colour(head), linewidth=1.4, label=f"head {head + 1}")
        axes.set_xscale("log")
        axes.set_ylim(0, 1.02)
        axes.set_title(label(model), fontsize=9)
        axes.set_xlabel("lag", fontsize=9)
        axes.legend(fontsize=7, frameon=False)
        tidy(axes, "both")
    for axes in panels.flat[len(found) :]:
        axes.set_visible(False)
    panels[0][0].set_ylabel("weight γ^lag", fontsize=9)
    return render(figure, "decay", "Decay of attention with distance by head of the first layer")


def draw_scores(scores: Sequence[Scores]) -> Picture:
    """Both metrics of each model's best head against query positions, a panel for each offset."""
    grids = [item.grid for item in scores]
    ranges, offsets = range_names(grids), offset_names(grids)
    lines = -(-len(scores) // 4)
    figure = new_figure(max(6.0, 3.1 * len(offsets)), 5.2 + 0.22 * lines)
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
