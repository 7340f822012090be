"""The speed of `musicgen prepare` against that of an older checkout: song by song in turns, by the processor's time.

    git worktree add /tmp/older 304ff95
    python benchmarks/versions.py /tmp/older [count=150]

Two processes, one of each version, read the same songs of Pop1K7 one after the other, with all that preparing asks of a
song. What disturbs a shared machine then disturbs both. The ratio is that of the sums; with it comes the median of the
songs' own ratios. MUSICGEN_DATA names the folder that holds `pop1k7`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.corpus import songs

OURS = Path(__file__).parents[1]
READER = """
import sys, time
from musicgen.data import prepare
try:
    from musicgen.languages import ExtendedRemi
    call = lambda folder, path: prepare.read_file(ExtendedRemi(), folder, path, "pop1k7", None)
except ImportError:  # as it was called before there were several vocabularies
    call = lambda folder, path: prepare.encode_file(folder, path, "pop1k7")
for line in sys.stdin:
    folder, path = line.rstrip("\\n").split("\\t")
    start = time.process_time()
    call(folder, path)
    print(time.process_time() - start, flush=True)
"""
"""Reads the songs that it is told, and tells the seconds of each."""


class Version:
    """A version of the program that reads songs in a process of its own."""

    def __init__(self, checkout: Path) -> None:
        told = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", READER]
        self._process = subprocess.Popen(  # noqa: S603 - ours
            command, text=True, cwd=checkout, env=told, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def seconds(self, folder: Path, path: Path) -> float:
        """Processor seconds of a song."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("no pipes")
        self._process.stdin.write(f"{folder}\t{path.relative_to(folder)}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def main(arguments: list[str]) -> None:
    """Read songs in turns, and print the ratio."""
    if not arguments:
        sys.exit(__doc__)
    given = dict(word.split("=", 1) for word in arguments[1:])
    older, count, folder = Path(arguments[0]).resolve(), int(given.get("count", 150)), songs()
    paths = sorted(folder.rglob("*.mid"))
    chosen = [paths[number * len(paths) // count] for number in range(count)]
    versions = [Version(OURS), Version(older)]
    for version in versions:
        version.seconds(folder, chosen[0])  # imports
    spent = np.zeros((count, 2))
    for number, path in enumerate(chosen):
        for place in (0, 1) if number % 2 else (1, 0):
            spent[number, place] = versions[place].seconds(folder, path)
    for version in versions:
        version.close()
    now, then = 1000 * spent.mean(0)
    median = float(np.median(spent[:, 1] / spent[:, 0]))
    print(f"{count} songs: {now:.1f} ms a song now, {then:.1f} ms then; speed {then / now:.2f}, median {median:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
