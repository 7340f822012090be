"""Preparing a corpus and loading it: against a plain loop, and against what training can take.

python benchmarks/corpus.py            # about 4 minutes

MUSICGEN_DATA names the folder that holds `pop1k7`; without it, songs of the built-in composer are measured.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, main, measure
from benchmarks.plain_remi import encode_plainly
from benchmarks.training_step import ours
from musicgen.cli.main import main as musicgen
from musicgen.data.batches import Batches
from musicgen.data.corpus import Corpus
from musicgen.data.prepare import read_file
from musicgen.languages import Remi
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.write import write_midi

SAMPLE = 60
LENGTH = 2048


def songs() -> Path:
    """The folder of real songs, or one of composed ones."""
    root = Path(os.environ.get("MUSICGEN_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if (root / "pop1k7").is_dir():
        return root / "pop1k7"
    folder = Path(tempfile.gettempdir()) / "musicgen-benchmark-songs"
    if not folder.is_dir():
        folder.mkdir()
        for seed in range(300):
            write_midi(compose(seed, 90), folder / f"{seed}.mid")
    return folder


def plain(folder: str) -> dict[str, float]:
    """Seconds a file of the plain loop."""
    paths = sorted(Path(folder).rglob("*.mid"))
    sample = paths[:: max(1, len(paths) // SAMPLE)]
    start = time.perf_counter()
    for path in sample:
        encode_plainly(path)
    return {"seconds": (time.perf_counter() - start) / len(sample)}


def encoder(folder: str) -> dict[str, float]:
    """Seconds a file of our reader and encoder, in one process, with all that preparing asks of a song."""
    paths = sorted(Path(folder).rglob("*.mid"))
    sample = paths[:: max(1, len(paths) // SAMPLE)]
    read_file(Remi(), folder, str(sample[0].relative_to(folder)), "folder", None)  # imports
    start = time.perf_counter()
    for path in sample:
        read_file(Remi(), folder, str(path.relative_to(folder)), "folder", None)
    return {"seconds": (time.perf_counter() - start) / len(sample)}


def command(folder: str, workers: int) -> dict[str, float]:
    """Seconds of `musicgen prepare` on the whole folder, and seconds a file."""
    with tempfile.TemporaryDirectory() as output:
        start = time.perf_counter()
        musicgen(["prepare", f"input={folder}", f"out={output}/corpus", f"workers={workers}"])
        seconds = time.perf_counter() - start
        return {"whole": seconds, "seconds": seconds / len(Corpus.open(f"{output}/corpus").index)}


def loading(folder: str) -> dict[str, float]:
    """Tokens a second that come as batches of 4 windows."""
    with tempfile.TemporaryDirectory() as output:
        musicgen(["prepare", f"input={folder}", f"out={output}/corpus"])
        windows = Batches(Corpus.open(f"{output}/corpus"), length=LENGTH, batch_size=4, transpose=6)
        steps = 300
        start = time.perf_counter()
        for step in range(steps):
            windows[step]
        return {"tokens_per_second": steps * 4 * LENGTH / (time.perf_counter() - start)}


def benchmark(threads: int) -> list[Row]:
    """All rows; what is compared takes turns."""
    folder = str(songs())
    turns = [
        (
            measure(__file__, "plain", folder=folder, threads=1)["seconds"],
            measure(__file__, "encoder", folder=folder, threads=1)["seconds"],
        )
        for _ in range(3)
    ]
    slow, fast = (min(turn[side] for turn in turns) for side in (0, 1))
    whole = measure(__file__, "command", folder=folder, workers=2, threads=1)
    loaded = measure(__file__, "loading", folder=folder, threads=1)["tokens_per_second"]
    step = measure(__file__, "ours", layers=24, threads=threads)["seconds"]
    trained = LENGTH / step
    name = Path(folder).name
    return [
        Row(
            f"{name}, a file against a plain loop, one process each",
            slow / fast,
            "x",
            ">= 5",
            slow >= 5 * fast,
            f"{1e3 * fast:.1f} ms against {1e3 * slow:.1f} ms",
        ),
        Row(
            "  the whole command with 2 workers, a file",
            slow / whole["seconds"],
            "x",
            ">= 5",
            slow >= 5 * whole["seconds"],
        ),
        Row("  the whole command with 2 workers", whole["whole"], "s", "<= 60", whole["whole"] <= 60),
        Row(
            "tokens loaded against tokens trained on by the paper's sine model",
            loaded / trained,
            "x",
            ">= 20",
            loaded >= 20 * trained,
            f"{loaded:,.0f} against {trained:,.0f} a second",
        ),
    ]


if __name__ == "__main__":
    main(
        __file__,
        {"plain": plain, "encoder": encoder, "command": command, "loading": loading, "ours": ours},
        benchmark,
        "Preparing Pop1K7 and loading windows of it",
    )
