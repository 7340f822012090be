"""How fine a grid real songs need: the mean shift of their notes, and how uncertain positions become.

    python benchmarks/grids.py FOLDER [FOLDER ...] [count=300]

A line of the table for each folder and grid. The entropy is that of the position in its beat at which a note begins,
from counts: what a finer grid adds to it, a model has to predict for every position.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from musicgen.errors import UserError
from musicgen.languages.grid import nearest
from musicgen.languages.prompt import load_file
from musicgen.languages.reading import bring_in
from musicgen.midi.folder import midi_files
from musicgen.midi.pop909 import is_annotated
from musicgen.midi.score import Score
from musicgen.request import Reading

GRIDS = (4, 12, 24)


def read(folder: Path, count: int) -> list[Score]:
    """Some songs of a folder, evenly spread, as `musicgen prepare` reads them."""
    paths = [folder / path for path in midi_files(folder)]
    if any(map(is_annotated, paths)):
        paths = [path for path in paths if is_annotated(path)]
    songs = [load(path) for path in paths[:: max(1, len(paths) // count)][:count]]
    return [song for song in songs if song is not None]


def load(path: Path) -> Score | None:
    """A song; None if it cannot be used."""
    try:
        return bring_in(load_file(str(path)), Reading(), is_annotated(path))[0]
    except UserError:
        return None


def shift_and_entropy(songs: list[Score], grid: int) -> tuple[float, float]:
    """The mean shift in milliseconds, and the entropy of the position in the beat in nats."""
    away, counts = [], np.zeros(grid)
    for song in songs:
        step = nearest(song.notes["start"], song.ticks_per_beat, grid)
        away.append(np.abs(song.seconds(step * (song.ticks_per_beat / grid)) - song.seconds(song.notes["start"])))
        counts += np.bincount(step % grid, minlength=grid)
    share = counts[counts > 0] / counts.sum()
    return 1000 * float(np.concatenate(away).mean()), float(-(share * np.log(share)).sum())


def main(arguments: list[str]) -> None:
    """Print the table."""
    folders = [Path(word) for word in arguments if "=" not in word]
    given = dict(word.split("=", 1) for word in arguments if "=" in word)
    if not folders:
        sys.exit(__doc__)
    print("| folder | songs | positions in a quarter note | mean shift (ms) | entropy of the position (nats) |")
    print("|---|---:|---:|---:|---:|")
    for folder in folders:
        songs = read(folder, int(given.get("count", 300)))
        for grid in GRIDS:
            shift, entropy = shift_and_entropy(songs, grid)
            print(f"| {folder.name} | {len(songs)} | {grid} | {shift:.1f} | {entropy:.2f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
