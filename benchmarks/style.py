"""Style similarity of a folder with a million notes: reading it and scoring it.

python benchmarks/style.py             # about 2 minutes
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.harness import Row, main, measure
from musicgen.cli.main import main as musicgen
from musicgen.evaluation.style.similarity import pool, quarters, similarity, style
from musicgen.midi.read import parse_file
from musicgen.midi.score import Score, Track, make_notes
from musicgen.midi.write import write_midi

FILES = 400
NOTES = 2500
BARS = 64
TRACKS = (Track("Bass", 33), Track("Drums", 0, True), Track("Guitar", 25))


def write_pieces(folder: str) -> dict[str, float]:
    """As many pieces as have a million notes, half of them references and half continuations of these; their notes."""
    total = 0
    for number in range(FILES):
        random = np.random.default_rng(number)
        start = 40 * random.integers(0, BARS * 48, NOTES)
        lasting = 40 * random.integers(1, 24, NOTES)
        notes = make_notes(start, start + lasting, random.integers(30, 90, NOTES), 64, random.integers(0, 3, NOTES))
        path = Path(folder) / ("in" if number % 2 else "out") / f"{number // 2}.mid"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_midi(Score(480, notes, TRACKS), path)
        total += len(notes)
    return {"notes": total}


def passes(folder: str) -> dict[str, float]:
    """Seconds of reading all files, and of scoring what was read, in one process."""
    parse_file(next(Path(folder).rglob("*.mid")))  # imports
    start = time.perf_counter()
    references, continuations = (
        [parse_file(path) for path in sorted((Path(folder) / side).iterdir())] for side in ("in", "out")
    )
    read = time.perf_counter()
    for reference, continuation in zip(references, continuations, strict=True):
        whole = style(reference)
        for quarter in quarters(continuation):
            similarity(pool([quarter]), whole)
    return {"reading": read - start, "scoring": time.perf_counter() - read}


def command(folder: str) -> dict[str, float]:
    """Seconds of the whole command: children, yardsticks, intervals and the picture too."""
    start = time.perf_counter()
    musicgen(["evaluate", "style", f"reference={folder}/in", f"generated={folder}/out", f"out={folder}/style"])
    return {"seconds": time.perf_counter() - start}


def benchmark(threads: int) -> list[Row]:
    """All rows."""
    with tempfile.TemporaryDirectory() as folder:
        notes = measure(__file__, "write_pieces", folder=folder, threads=threads)["notes"]
        turns = [measure(__file__, "passes", folder=folder, threads=threads) for _ in range(3)]
        reading, scoring = (min(turn[name] for turn in turns) for name in ("reading", "scoring"))
        whole = measure(__file__, "command", folder=folder, threads=threads)["seconds"]
    return [
        Row(
            f"{FILES} files, {notes / 1e6:.2g} million notes: reading, one process",
            reading,
            "s",
            "<= 10",
            reading <= 10,
        ),
        Row(
            "  scoring, one process",
            scoring,
            "s",
            "<= 10",
            scoring <= 10,
            f"{notes / scoring / 1e6:.2g} million notes a second",
        ),
        Row("  the whole command, with yardsticks, intervals and pictures", whole, "s", "<= 30", whole <= 30),
    ]


if __name__ == "__main__":
    main(
        __file__,
        {"write_pieces": write_pieces, "passes": passes, "command": command},
        benchmark,
        "Style similarity of a million notes",
    )
