"""What is in a corpus of grooves: a few lines for the terminal, and a picture.

The hard choice: styles are counted, not files. A corpus has as much to teach as it has styles.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from musicgen.data.groove_corpus import IN_DOMAIN, GrooveCorpus
from musicgen.data.groove_table import BAR
from musicgen.data.split import SPLITS
from musicgen.data.summary import drop_lines, duration, histogram, save_figure


def summarise_grooves(corpus: GrooveCorpus) -> str:
    """Files, accompaniments kept and why others were not, styles and families in each split, notes."""
    songs = corpus.songs()
    lines = drop_lines(corpus.index, len(songs), corpus.about)
    if unlisted := corpus.about.get("unlisted"):
        lines.append(f"  {len(unlisted):,} files have no line in index.tsv, {unlisted[0]} the first of them")
    for split in (*SPLITS, *IN_DOMAIN):
        chosen = corpus.songs(split)
        styles, families = len({song.style for song in chosen}), len({song.family for song in chosen})
        lines.append(f"{split}: {len(chosen):,} grooves of {styles:,} styles in {families:,} families")
    parts = Counter(part for song in songs for part in {track.part for track in song.tracks if track.notes})
    lines.append("grooves with " + ", ".join(f"{name}: {parts[name]:,}" for name in ("bass", "drums", "other")))
    counted = sum(song.counted > 0 for song in songs)
    lines.append(
        f"notes: {len(corpus.notes):,}, {sum(song.bars for song in songs):,} bars, "
        f"{duration(sum(song.seconds for song in songs))} of music; {counted:,} count-ins left out"
    )
    return "\n".join(lines)


def draw_grooves(corpus: GrooveCorpus, path: Path) -> None:
    """Histograms of lengths and instruments, and of pitches and onsets of each part, as a PNG."""
    from matplotlib.figure import Figure

    songs = corpus.songs()
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    axes = figure.subplots(2, 3)
    histogram(axes[0, 0], [song.bars for song in songs], "bars", "grooves")
    histogram(axes[0, 1], [song.notes for song in songs], "notes", "grooves")
    histogram(axes[0, 2], [len(song.tracks) for song in songs], "instruments", "grooves")
    numbers = {"bass": 0, "drums": 1, "other": 2}
    tracks = [numbers[track.part] for song in songs for track in song.tracks]
    part = np.repeat(tracks, [track.notes for song in songs for track in song.tracks])
    for name, number in numbers.items():
        notes = corpus.notes[part == number]
        pitches, onsets = np.bincount(notes["pitch"], minlength=128), np.bincount(notes["start"] % BAR, minlength=BAR)
        axes[1, 0].step(np.arange(128), pitches, where="mid", label=name)
        axes[1, 1].step(np.arange(BAR), onsets, where="mid", label=name)
    axes[1, 0].set(xlabel="pitch (60 is middle C)", ylabel="notes")
    axes[1, 1].set(xlabel="onset in the bar (twelfths of a beat)", ylabel="notes", xticks=range(0, BAR + 1, 12))
    axes[1, 0].legend()
    styles = Counter(song.style for song in songs)
    sizes = Counter(styles.values())
    axes[1, 2].bar([str(size) for size in sorted(sizes)], [sizes[size] for size in sorted(sizes)])
    axes[1, 2].set(xlabel="grooves of a style", ylabel="styles")
    figure.suptitle(f"{len(songs):,} grooves of {len(styles):,} styles, {len(corpus.notes):,} notes")
    save_figure(figure, path)
