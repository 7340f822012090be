"""What is in a corpus: a few lines for the terminal, and a picture. Both work for old corpora too."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.data.corpus import Corpus
from musicgen.figures import lay_out
from musicgen.files import atomic_write
from musicgen.languages.grid import counted
from musicgen.languages.panel import Panel
from musicgen.languages.reading import DONE
from musicgen.languages.split import SPLITS

PICTURE = "corpus.png"
MOST_REASONS = 12


def summarise(corpus: Corpus) -> str:
    """How many files were kept, why others were not, splits, lengths, and what the language adds."""
    songs, row = corpus.songs(), corpus.language.row
    lines = _drop_lines(corpus)
    if not songs:
        return "\n".join(lines)
    copies = sum(getattr(song, "group", None) not in (None, song.path) for song in songs)
    splits = ", ".join(f"{len(corpus.songs(split)):,} {split}" for split in SPLITS)
    lines.append(f"songs: {splits}" + (f" ({copies:,} of them copies of others, in the same split)" if copies else ""))
    lines.append(f"{row}s: {len(corpus.array):,}, {_duration(sum(song.seconds for song in songs))} of music")
    quantiles = np.percentile([song.rows for song in songs], [0, 25, 50, 75, 100]).astype(int)
    lengths = ", ".join(f"{value:,}" for value in quantiles)
    lines.append(f"{row}s in a song: {lengths} (smallest, quartiles, largest)")
    return "\n".join([*lines, *corpus.language.summarise(corpus)])


def _drop_lines(corpus: Corpus) -> list[str]:
    """How many files there were, how many are kept, and the most common reasons why others are not."""
    # Text in brackets is about one file (a number of bytes, a beat), so reasons are compared without it.
    dropped = Counter(song.dropped.partition(" (")[0] for song in corpus.index if song.dropped)
    layout = f" (layout {corpus.about['layout']})" if "layout" in corpus.about else ""
    kept, left_out = len(corpus.songs()), sum(dropped.values())
    lines = [f"files: {len(corpus.index):,}{layout}, of which {kept:,} kept and {left_out:,} left out"]
    lines += [f"  {count:,} x {reason}" for reason, count in dropped.most_common(MOST_REASONS)]
    if len(dropped) > MOST_REASONS:
        lines.append(f"  and {len(dropped) - MOST_REASONS:,} other reasons, all in the index")
    for name, count in corpus.about.get("files_with", {}).items():
        lines.append(f"  {counted(count, 'file')} with {DONE.get(name, name)}")
    if unlisted := corpus.about.get("unlisted"):
        lines.append(f"  {len(unlisted):,} files have no line in index.tsv, {unlisted[0]} the first of them")
    return lines


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else f"{seconds / 60:,.1f} minutes"


def draw_summary(corpus: Corpus, path: Path) -> None:
    """Lengths, and what the language adds, as a PNG."""
    from matplotlib.figure import Figure

    songs, row, title = corpus.songs(), corpus.language.row, corpus.language.title
    panels = [
        Panel("histogram", f"length ({row}s)", "songs", [song.rows for song in songs]),
        Panel("histogram", "length (minutes)", "songs", [song.seconds / 60 for song in songs]),
        *corpus.language.panels(corpus, corpus.array),
    ]
    figure = Figure(figsize=(12, 6.5), dpi=100, layout="constrained")
    for axes, panel in zip(figure.subplots(2, 3).flat, panels, strict=False):
        _draw(axes, panel)
    figure.suptitle(f"{title}: {len(songs):,} songs, {len(corpus.array):,} {row}s")
    lay_out(figure)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})  # the same bytes every time
    atomic_write(path, picture.getvalue())


def _draw(axes: Any, panel: Panel) -> None:
    axes.set(xlabel=panel.title, ylabel=panel.unit)
    if panel.kind == "histogram":
        axes.stairs(*np.histogram(panel.values, bins=40), fill=True)  # one shape is drawn faster than forty bars
        axes.yaxis.get_major_locator().set_params(integer=True)
    elif panel.kind == "steps":
        for label, values in zip(panel.labels, panel.values, strict=True):
            axes.step(np.arange(len(values)), values, where="mid", label=label)
        axes.legend()
    elif panel.labels:
        axes.bar(panel.labels, panel.values)
        axes.tick_params("x", labelrotation=45)
    else:
        half = (panel.at[1] - panel.at[0]) / 2
        edges = np.stack([np.subtract(panel.at, half), np.add(panel.at, half)], 1).ravel()
        heights = np.stack([panel.values, np.zeros(len(panel.at))], 1).ravel()[:-1]  # nothing from one to the next
        axes.stairs(heights, edges, fill=True)
