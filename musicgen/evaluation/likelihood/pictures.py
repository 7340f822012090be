"""Figures of loss: against position, and by type of token.

Design note: beyond its trained length a model has two lines, one for the loss with the whole song as context (solid)
and one for the loss in a restarted window (dashed). Where the solid line is lower, more context helped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musicgen.evaluation.likelihood.positions import Curve, PositionLosses, Types
from musicgen.evaluation.report.drawing import colour, label, mark, new_figure, render, tidy
from musicgen.evaluation.report.findings import Picture


def draw_curves(families: Sequence[PositionLosses], curves: Sequence[Curve], seed: int) -> Picture:
    """Loss against position, with bands of 95 % over songs."""
    from matplotlib.lines import Line2D

    figure = new_figure(9, 4.8)
    axes = figure.subplots()
    for number, (family, found) in enumerate(zip(families, curves, strict=True)):
        middle = (found.edges[:-1] + found.edges[1:] + 1) / 2
        lower, upper = found.full.interval(seed)
        axes.fill_between(middle, lower, upper, color=colour(number), alpha=0.13, linewidth=0)
        axes.plot(middle, found.full.mean(), color=colour(number), linewidth=1.6)
        beyond = found.edges[:-1] >= family.trained
        axes.plot(middle[beyond], found.restarted.mean()[beyond], color=colour(number), linewidth=1.1, linestyle="--")
    for length in sorted({family.trained for family in families}):
        if length <= int(curves[0].edges[-1]):
            mark(axes, length, f"trained to {length:,}")
    tidy(axes)
    axes.set(xlabel="position in the song (tokens)", ylabel="cross-entropy (nats per token)")
    axes.set_xlim(0, int(curves[0].edges[-1]))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    handles = [
        Line2D([], [], color=colour(number), linewidth=1.6, label=label(family.name))
        for number, family in enumerate(families)
    ]
    if any(family.windows for family in families):
        handles.append(Line2D([], [], color="0.4", linewidth=1.1, linestyle="--", label="restarted window"))
    figure.legend(handles=handles, loc="outside upper center", ncols=min(5, len(handles)), frameon=False, fontsize=9)
    title = "Cross-entropy against position, with 95 % intervals over songs; dashed: in a window restarted at a bar"
    return render(figure, "nll", title)


def draw_types(families: Sequence[PositionLosses], names: Sequence[str], types: Sequence[Types]) -> Picture:
    """Loss by type of token: a filled dot for trained positions, a hollow dot beyond."""
    from matplotlib.lines import Line2D

    shown = types[0].present
    step = 0.8 / max(len(families), 2)
    figure = new_figure(9, 1.3 + max(0.35, 0.17 * len(families)) * len(shown))
    axes = figure.subplots()
    for number, found in enumerate(types):
        height = np.arange(len(shown)) + step * (number - (len(families) - 1) / 2)
        trained, beyond = found.losses[shown].T
        axes.hlines(height, trained, beyond, color=colour(number), linewidth=1)
        axes.scatter(trained, height, s=26, color=colour(number), zorder=3)
        axes.scatter(beyond, height, s=26, facecolor="white", edgecolor=colour(number), zorder=3)
    axes.set_yticks(range(len(shown)), [names[kind] for kind in shown])
    axes.set(ylim=(len(shown) - 0.4, -0.6), xlabel="cross-entropy (nats per token)")
    axes.set_xlim(left=0)
    tidy(axes, "x")
    handles = [
        Line2D([], [], color=colour(number), marker="o", linewidth=0, label=label(family.name))
        for number, family in enumerate(families)
    ]
    handles += [
        Line2D([], [], color="0.4", marker="o", linewidth=0, label="trained positions"),
        Line2D([], [], color="0.4", marker="o", markerfacecolor="white", linewidth=0, label="beyond"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)), frameon=False, fontsize=9)
    return render(figure, "types", "Cross-entropy by type of token, at trained positions and beyond")
