"""What is in a corpus: a few lines for the terminal, and a picture.

The hard choice: both are made from the corpus as it is on disk, not from what preparing it saw go by. They say the
same of a corpus that was made a year ago.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.data.corpus import Corpus, Song
from musicgen.data.groove_corpus import GrooveSong
from musicgen.data.split import SPLITS
from musicgen.files import atomic_write

PICTURE = "corpus.png"


def summarise(corpus: Corpus) -> str:
    """Files, songs kept and why others were not, tokens, hours and lengths."""
    songs = corpus.songs()
    copies = sum(song.group != song.path for song in songs)
    lines = drop_lines(corpus.index, len(songs), corpus.about)
    splits = ", ".join(f"{len(corpus.songs(split)):,} {split}" for split in SPLITS)
    lines.append(f"songs: {splits}" + (f" ({copies:,} of them copies of others, in the same split)" if copies else ""))
    lines.append(f"tokens: {len(corpus.tokens):,}, {duration(sum(song.seconds for song in songs))} of music")
    if songs:
        quantiles = np.percentile([song.tokens for song in songs], [0, 25, 50, 75, 100]).astype(int)
        lengths = ", ".join(f"{value:,}" for value in quantiles)
        lines.append(f"tokens in a song: {lengths} (least, quartiles, most)")
        notes = sum(song.quantised["notes"] for song in songs if song.quantised)
        changes = {
            name: sum(song.quantised[name] for song in songs if song.quantised) / max(notes, 1)
            for name in ("moved", "clamped", "trimmed", "merged", "dropped")
        }
        parts = ", ".join(f"{part:.1%} {name}" for name, part in changes.items())
        lines.append(f"notes put on the grid: {notes:,}, of which {parts}")
    return "\n".join(lines)


def drop_lines(index: Sequence[Song | GrooveSong], kept: int, about: dict[str, Any]) -> list[str]:
    """How many files there were, how many are kept, and the commonest reasons why others are not."""
    # What is in brackets is of one file: a number of bytes, a beat.
    dropped = Counter(song.dropped.partition(" (")[0] for song in index if song.dropped)
    layout = f" (layout {about['layout']})" if "layout" in about else ""
    lines = [f"files: {len(index):,}{layout}, of which {kept:,} kept and {sum(dropped.values()):,} left out"]
    lines += [f"  {count:,} x {reason}" for reason, count in dropped.most_common(12)]
    if len(dropped) > 12:
        lines.append(f"  and {len(dropped) - 12:,} other reasons, all in the index")
    return lines


def duration(seconds: float) -> str:
    """Seconds, in words."""
    return f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else f"{seconds / 60:,.1f} minutes"


def draw_summary(corpus: Corpus, path: Path) -> None:
    """Histograms of lengths, tempos, pitches, positions and chords, as a PNG."""
    from matplotlib.figure import Figure

    vocabulary = corpus.language.vocabulary
    counts = np.bincount(corpus.tokens, minlength=len(vocabulary))
    songs = corpus.songs()
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    axes = figure.subplots(2, 3)
    histogram(axes[0, 0], [song.tokens for song in songs], "song length (tokens)", "songs")
    histogram(axes[0, 1], [song.seconds / 60 for song in songs], "song length (minutes)", "songs")
    names = {
        "Tempo": "tempo (beats a minute)",
        "Pitch": "pitch (60 is middle C)",
        "Beat": "sixteenth of the bar",
    }
    for place, (family, title) in zip([axes[0, 2], axes[1, 0], axes[1, 1]], names.items(), strict=True):
        ids = vocabulary.ids[family]
        values = [float(name.partition("_")[2]) for name in vocabulary.names[ids.start : ids.stop]]
        place.bar(values, counts[ids.start : ids.stop], width=values[1] - values[0])
        place.set(xlabel=title, ylabel="tokens")
    axes[1, 1].set_xticks(range(0, 16, 4))
    _draw_chords(axes[1, 2], counts[vocabulary.first("Chord") : vocabulary.ids["Chord"].stop], vocabulary.names)
    figure.suptitle(f"{len(songs):,} songs, {len(corpus.tokens):,} tokens")
    save_figure(figure, path)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure as a PNG that is the same whenever it is written."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100, metadata={"Software": None})
    atomic_write(path, picture.getvalue())


def histogram(axes: Any, values: list[float] | list[int], title: str, unit: str) -> None:
    """A histogram of whole or other numbers, of which there are so many of a unit."""
    axes.hist(values, bins=40)
    axes.set(xlabel=title, ylabel=unit)
    axes.yaxis.get_major_locator().set_params(integer=True)


def _draw_chords(axes: Any, counts: NDArray[np.int64], names: tuple[str, ...]) -> None:
    """Qualities, and how often each is named, over all roots."""
    chords = [name.split("_", 1)[1] for name in names if name.startswith("Chord_")]
    totals: Counter[str] = Counter()
    for chord, count in zip(chords, counts.tolist(), strict=True):
        totals[chord.split("_", 1)[1]] += count
    ranked = totals.most_common()
    axes.bar([name for name, _ in ranked], [count for _, count in ranked])
    axes.set(xlabel="chord quality", ylabel="tokens")
    axes.tick_params("x", labelrotation=45)
