"""`musicgen evaluate novelty`: the longest passages that a corpus has too.

The hard choice: of a prepared corpus, the songs that were trained on are what pieces are looked for in, and those that
were held out are the yardstick. So one key is enough, and nobody compares a model with songs it has seen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from musicgen.cli.evaluate import progress, run_kind, several

if TYPE_CHECKING:
    from musicgen.evaluation.findings import Findings

ABOUT = """\
usage: musicgen evaluate novelty generated=FILE|DIR training=PREPARED|DIR out=DIR [key=value ...]

Looks for what generated music has in common with the songs that a model was trained on: for each piece the longest
passage, in notes, that a song has too, with the song and the bars of both; and the share of notes that are in such
passages. The same is done with real songs that were held out, because songs that know nothing of each other share
passages too; what was copied is what goes beyond.

Notes are compared by when they begin and by their pitches, from each note to the next, up to transposition and tempo;
a passage written in notes of twice or half the length is found as well. Lengths, velocities and drums do not count.
The top notes alone, which are the melody, are looked for by themselves. Of grooves, every instrument is compared by
itself; otherwise all instruments are taken together. What comes before the marker "Continuation" in a generated file,
which `musicgen generate` writes at the end of a prompt, does not count.

keys:
  generated=FILE|DIR       music that was made; DIR,DIR for several sets, one for each model, say
  training=PREPARED|DIR    what the model was trained on; of a folder that `musicgen prepare` made, the training songs
  out=DIR                  folder for novelty.json, tables, figures and the page index.html
  held_out=DIR|PREPARED    real songs for comparison; if not given, those that a prepared training holds out
  shortest=16              notes of a passage that counts for the share
  overwrite=true           replaces an evaluation that is in the folder

example: musicgen evaluate novelty generated=pieces training=corpus out=novelty
"""
PATHS = ("generated", "training", "held_out", "out")


@dataclass(frozen=True)
class NoveltyConfig:
    """What `conf/evaluate_novelty.yaml` holds, key by key."""

    generated: str
    training: Path
    held_out: Path | None
    shortest: int
    out: Path
    overwrite: bool

    def __post_init__(self) -> None:
        if self.shortest < 2:
            raise ValueError(f"shortest={self.shortest}: takes a number from 2 on")


def run(arguments: list[str]) -> int:
    """Evaluate novelty."""
    needed = {"generated": "FILE or DIR", "training": "PREPARED or DIR"}
    return run_kind("novelty", ABOUT, NoveltyConfig, evaluate, arguments, PATHS, needed)


def evaluate(config: NoveltyConfig) -> Findings:
    """Look for pieces among training songs.

    Raises:
        UserError: There is nothing to look for, or nowhere to look.
    """
    from musicgen.evaluation.novelty import HELD_OUT, novelty_findings
    from musicgen.evaluation.songs import Gathered, Split, gather, has_split, is_prepared

    def read(place: Path, key: str, split: Split) -> Gathered:
        return gather(place, key, split, lambda items, total: progress(items, total, "file"))

    places = several(config.generated, "generated", HELD_OUT)
    training: Path = config.training
    generated = {name: read(place, "generated", "all") for name, place in places.items()}
    songs = read(training, "training", "train")
    held_out = None
    if config.held_out is not None:
        held_out = read(config.held_out, "held_out", "held_out")
    elif is_prepared(training) and has_split(training, "held_out"):
        held_out = read(training, "training", "held_out")
    return novelty_findings(generated, songs, held_out, config.shortest, asdict(config))
