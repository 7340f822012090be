"""Figures of music: distributions of metrics, the similarity of bars, and passages that pieces share with songs.

Design note: every piece is a dot, with its median and quartiles. A density of twelve pieces would promise too
much. A shared passage is drawn in both songs, one above the other and with the notes around it, so that a reader
sees whether it is a copied tune or a common figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from musicgen.evaluation.music.novelty import Passage
from musicgen.evaluation.music.passages import Line
from musicgen.evaluation.music.songs import Song
from musicgen.evaluation.music.statistics import Measured
from musicgen.evaluation.report.drawing import colour, label, new_figure, render, tidy
from musicgen.evaluation.report.findings import Picture
from musicgen.evaluation.resampling import quartiles
from musicgen.midi.write import bar_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARED, OTHER = "#d55e00", "#b8b8b8"
AROUND = 4.0
"""Beats before and after a passage."""
MOST_BEATS = 64.0
"""At most this many beats of a passage are drawn."""
REFERENCE_COLOUR = "#4d4d4d"
COLUMNS = 4
MOST_DOTS = 200
"""The most pieces of a set that are drawn, at equal distances in their order."""


def draw_distributions(sets: Sequence[Measured], metrics: Sequence[str], name: str, about: str) -> Picture:
    """A panel for each metric with a row for each set; the reference is the last set, at the top."""
    names = [f"{label(item.name, 24)}\n({len(item.pieces):,})" for item in sets]
    rows, inside = -(-len(metrics) // COLUMNS), 0.25 + 0.42 * len(sets)
    width, height = 13.0, rows * (inside + 0.6)
    figure = new_figure(width, height, None)
    panels = figure.subplots(rows, COLUMNS, squeeze=False, sharey=True)
    # Margins are computed here: with many panels the automatic layout takes seconds.
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
        f"{name}_distributions",
        f"{about} of generated and of real pieces: a dot for each piece, medians and quartiles",
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
        _draw_quartiles(axes, values, place, shade)
    left, right = axes.get_xlim()
    if left < 0:  # no metric is negative, so this is only a margin
        axes.set_xlim(-0.04 * right, right)
    axes.set_title(metric, size=9.5)
    axes.tick_params(labelsize=8)
    tidy(axes, "x")


def _draw_quartiles(axes: Axes, values: Any, place: int, shade: str) -> None:
    """A bar from the lower to the upper quartile, and a line at the median."""
    low, middle, high = quartiles(values)
    axes.plot([low, high], [place, place], color=shade, linewidth=7, alpha=0.35, solid_capstyle="butt")
    axes.plot([middle, middle], [place - 0.3, place + 0.3], color=shade, linewidth=2)


def _shade(sets: Sequence[Measured], place: int) -> str:
    """The colour of a set; the reference is the last set."""
    return REFERENCE_COLOUR if place == len(sets) - 1 else colour(place)


def draw_bar_similarity(sets: Sequence[Measured]) -> Picture:
    """Similarity of bars by distance: medians over pieces as lines, and quartiles as bands."""
    figure = new_figure(8, 4)
    axes = figure.subplots()
    for place, item in enumerate(sets):
        shade = _shade(sets, place)
        known = np.flatnonzero(~np.isnan(item.curves).all(0))
        if not len(known):
            continue
        low, middle, high = quartiles(item.curves[:, known])
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


def draw_longest(lengths: Mapping[str, Sequence[int]], held_out: str) -> Picture:
    """A dot for each piece, a row for each set."""
    from matplotlib.ticker import LogLocator, NullLocator

    figure = new_figure(9, 1.1 + 0.75 * len(lengths))
    axes = figure.subplots()
    random = np.random.default_rng(0)
    for place, (name, notes) in enumerate(lengths.items()):
        shade = REFERENCE_COLOUR if name == held_out else colour(place)
        axes.scatter(notes, place + random.uniform(-0.22, 0.22, len(notes)), s=16, color=shade, alpha=0.5, linewidths=0)
        _draw_quartiles(axes, notes, place, shade)
    largest = max(max(notes) for notes in lengths.values())
    if largest > 8 * min(np.median(notes) for notes in lengths.values()):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if held_out in lengths:
        axes.axvline(max(lengths[held_out]), color=REFERENCE_COLOUR, linewidth=1, linestyle=":")
    names = [f"{label(name, 30)}\n({len(notes):,})" for name, notes in lengths.items()]
    axes.set_yticks(range(len(lengths)), names)
    axes.set(xlabel="longest passage that a training song has too, in notes", ylim=(-0.6, len(lengths) - 0.4))
    tidy(axes, "x")
    return render(figure, "longest_passages", "The longest shared passage of each piece, medians and quartiles")


def draw_passage(song: Song, found: Passage, owner: str = "") -> Picture:
    """The longest passage, in the piece above and in the training song below."""
    beats = [
        _beats(found.line, found.start, found.notes, song),
        _beats(found.song_line, found.song_start, found.notes, found.song),
    ]
    width = min(max(beats), MOST_BEATS) + 2 * AROUND
    figure = new_figure(min(6 + 0.25 * width, 16), 5.2)
    upper, lower = figure.subplots(2, 1)
    _draw_roll(upper, song, found.line, found.start, found.notes, width)
    _draw_roll(lower, found.song, found.song_line, found.song_start, found.notes, width)
    spans = [axes.get_ylim() for axes in (upper, lower)]
    height = max(high - low for low, high in spans)
    for axes, (low, high), name, about in (
        (upper, spans[0], f"{owner}/{song.name}" if owner else song.name, f"{found.notes:,} notes of the piece"),
        (lower, spans[1], found.song.name, "and of the training song"),
    ):
        middle = (low + high) / 2
        axes.set_ylim(middle - height / 2, middle + height / 2)
        axes.set_title(f"{about} {label(name, 60)}", size=10, loc="left")
    lower.set_xlabel("bar")
    title = "The longest passage of a generated piece that a training song has too: the piece above, the song below"
    return render(figure, "longest_passage", title)


def _beats(line: Line, start: int, notes: int, song: Song) -> float:
    return float(line.tick[start + notes - 1] - line.tick[start]) / song.score.ticks_per_beat


def _draw_roll(axes: Axes, song: Song, line: Line, start: int, count: int, width: float) -> None:
    """A piano roll that begins a little before a passage, `width` beats long; notes of the passage are coloured."""
    score = song.score
    notes = score.notes[~score.is_drum(score.notes)]
    first = line.tick[start] - AROUND * score.ticks_per_beat
    last = first + width * score.ticks_per_beat
    notes = notes[(notes["end"] > first) & (notes["start"] < last)]
    own = set(zip(line.tick[start : start + count].tolist(), line.pitch[start : start + count].tolist(), strict=True))
    is_own = np.array([key in own for key in zip(notes["start"].tolist(), notes["pitch"].tolist(), strict=True)])
    for chosen, shade in ((~is_own, OTHER), (is_own, SHARED)):
        picked = notes[chosen]
        axes.barh(
            picked["pitch"], (picked["end"] - picked["start"]) * 0.97, left=picked["start"], height=0.85, color=shade
        )
    lines = bar_lines(score)
    seen = np.flatnonzero((lines >= first) & (lines < last))
    stride = max(1, -(-len(seen) // 24))
    axes.set_xticks(lines[seen][::stride], [f"{bar + 1}" for bar in seen[::stride]])
    axes.set_xlim(first, last)
    axes.set_ylim(int(notes["pitch"].min()) - 2, int(notes["pitch"].max()) + 2)
    axes.set_ylabel("pitch")
    tidy(axes, "x")
