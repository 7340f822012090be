"""`musicgen evaluate music`: statistics of generated music beside those of real music.

The hard choice: the reference says how music is counted. If it is a prepared corpus, generated pieces are put into the
nearest that its tokens can say, so that no difference is one of grids; files among themselves are counted as they are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from musicgen.cli.evaluate import progress, run_kind, several

if TYPE_CHECKING:
    from musicgen.evaluation.findings import Findings

ABOUT = """\
usage: musicgen evaluate music generated=FILE|DIR reference=FILE|DIR|PREPARED out=DIR [key=value ...]

Says how generated music differs from real music, with muspy's metrics (pitches, entropies, scale, polyphony, empty
beats, drums, groove) and others: groove similarity of all bars, notes per bar, durations, repeated bars, how alike bars
are by their distance, and how many tokens break the grammar, by the records beside pieces of `musicgen generate`.

Every metric has its distribution over the pieces of both sets; the overlap of the two, from 0 to 1; the overlap that
two parts of the reference have, which is what a perfect model would get; and Cliff's delta, which says in which
direction they differ. What comes before the marker "Continuation" in a generated file, which `musicgen generate` writes
at the end of a prompt, does not count. A file that is not in 4/4, or cannot be read, is named and left out.

keys:
  generated=FILE|DIR   music that was made; DIR,DIR for several sets, one for each model, say
  reference=FILE|DIR   real music; a folder that `musicgen prepare` made is read as its tokens are
  out=DIR              folder for music.json, tables, figures and the page index.html
  split=held_out       of a prepared reference: held_out (valid and test), train, valid, test, ival, itest or all
  bars=N               of each piece, the first N bars count; if not given, the smallest median of all sets
  seed=0               of the parting of the reference, and of the intervals
  overwrite=true       replaces an evaluation that is in the folder

example: musicgen evaluate music generated=pieces reference=corpus out=music
"""
PATHS = ("generated", "reference", "out")


@dataclass(frozen=True)
class MusicConfig:
    """What `conf/evaluate_music.yaml` holds, key by key."""

    generated: str
    reference: Path
    split: Literal["held_out", "train", "valid", "test", "ival", "itest", "all"]
    bars: int | None
    seed: int
    out: Path
    overwrite: bool

    def __post_init__(self) -> None:
        if self.bars is not None and not 1 <= self.bars <= 2048:
            raise ValueError(f"bars={self.bars}: takes a number from 1 to 2048")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: takes a number from 0 on")


def run(arguments: list[str]) -> int:
    """Evaluate music."""
    needed = {"generated": "FILE or DIR", "reference": "FILE, DIR or PREPARED"}
    return run_kind("music", ABOUT, MusicConfig, evaluate, arguments, PATHS, needed)


def evaluate(config: MusicConfig) -> Findings:
    """Compare sets of pieces.

    Raises:
        UserError: There is nothing to compare.
    """
    from musicgen.evaluation.music import REFERENCE, music_findings
    from musicgen.evaluation.songs import gather

    places = several(config.generated, "generated", REFERENCE)
    reference = config.reference
    generated = {
        name: gather(place, "generated", "all", lambda items, total: progress(items, total, "file"), trios=True)
        for name, place in places.items()
    }
    real = gather(reference, "reference", config.split, lambda items, total: progress(items, total, "file"), trios=True)
    return music_findings(
        generated, real, config.bars, config.seed, asdict(config), lambda items, total: progress(items, total, "piece")
    )
