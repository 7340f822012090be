"""The longest shared passages of pieces beside those of held-out songs, and one of them to look at.

The hard choice: a passage is shown in both songs, one above the other and at one scale, with the notes around it: a
reader sees at a glance whether it is a tune that was copied or a figure that every song has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from musicgen.evaluation.drawing import colour, label, render, tidy
from musicgen.midi.write import bar_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from musicgen.evaluation.findings import Picture
    from musicgen.evaluation.novelty import Passage
    from musicgen.evaluation.passages import Line
    from musicgen.evaluation.songs import Song

REAL = "#4d4d4d"
SHARED, OTHER = "#d55e00", "#b8b8b8"
AROUND = 4.0
"""Beats before and after a passage."""
MOST_BEATS = 64.0
"""Of a passage that are drawn, from its beginning."""


def draw_longest(lengths: Mapping[str, Sequence[int]], held_out: str) -> Picture:
    """A dot for each piece, a row for each set.

    Args:
        lengths: Notes of the longest passages, by the names of sets.
        held_out: The name of the yardstick.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    figure = Figure(figsize=(9, 1.1 + 0.75 * len(lengths)), layout="constrained")
    axes = figure.subplots()
    random = np.random.default_rng(0)
    for place, (name, notes) in enumerate(lengths.items()):
        shade = REAL if name == held_out else colour(place)
        axes.scatter(notes, place + random.uniform(-0.22, 0.22, len(notes)), s=16, color=shade, alpha=0.5, linewidths=0)
        low, middle, high = np.quantile(notes, [0.25, 0.5, 0.75])
        axes.plot([low, high], [place, place], color=shade, linewidth=9, alpha=0.3, solid_capstyle="butt")
        axes.plot([middle, middle], [place - 0.33, place + 0.33], color=shade, linewidth=2)
    largest = max(max(notes) for notes in lengths.values())
    if largest > 8 * min(np.median(notes) for notes in lengths.values()):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if held_out in lengths:
        axes.axvline(max(lengths[held_out]), color=REAL, linewidth=1, linestyle=":")
    names = [f"{label(name, 30)}\n({len(notes):,})" for name, notes in lengths.items()]
    axes.set_yticks(range(len(lengths)), names)
    axes.set(xlabel="longest passage that a training song has too, in notes", ylim=(-0.6, len(lengths) - 0.4))
    tidy(axes, "x")
    return render(figure, "longest_passages", "The longest shared passage of each piece, medians and quartiles")


def draw_passage(song: Song, found: Passage, owner: str = "") -> Picture:
    """The longest passage, in the piece above and in the training song below.

    Args:
        song: The piece.
        found: The passage.
        owner: The set that the piece is of, if there are several.
    """
    from matplotlib.figure import Figure

    beats = [
        _beats(found.line, found.start, found.notes, song),
        _beats(found.song_line, found.song_start, found.notes, found.song),
    ]
    width = min(max(beats), MOST_BEATS) + 2 * AROUND
    figure = Figure(figsize=(min(6 + 0.25 * width, 16), 5.2), layout="constrained")
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
    """A piano roll of so many beats, from a little before a passage on; its notes are coloured."""
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
