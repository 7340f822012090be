"""How pieces end: the share whose last chord is long, and has the tonic of the key in the bass.

    python benchmarks/cadence.py [model=pop-small] [count=32] [bars=8]

The key is that of the whole piece, by two estimates: the one that the sampler uses, and the profiles of Krumhansl and
Kessler. A chord is long if it lasts half a bar. It prints a line for each ending.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

import musicgen
from musicgen.midi.bars import BarLines
from musicgen.midi.key import Key, heard_key
from musicgen.midi.score import Notes

MAJOR = (6.35, 2.23, 3.48, 2.33, 4.38, 4.09, 2.52, 5.19, 2.39, 3.66, 2.29, 2.88)
MINOR = (6.33, 2.68, 3.52, 5.38, 2.60, 3.53, 2.54, 4.75, 3.98, 2.69, 3.34, 3.17)


def krumhansl(heard: Any) -> Key:
    """The key whose profile correlates best with what is heard, shape (12,)."""
    keys = [Key(root, is_minor) for is_minor in (False, True) for root in range(12)]
    return max(keys, key=lambda key: np.corrcoef(np.roll(MINOR if key.is_minor else MAJOR, key.root), heard)[0, 1])


def tones(notes: Notes) -> Any:
    """How long each tone is heard, shape (12,)."""
    return np.bincount(notes["pitch"] % 12, notes["end"] - notes["start"], minlength=12).astype(float)


def judge(piece: musicgen.sampling.Piece) -> tuple[bool, bool, bool, bool]:
    """Whether a piece ends on the tonic by each estimate, with a long chord, and no busier than the bar before."""
    score = piece.score
    lines, notes = BarLines(score), score.notes
    before, start, end = (lines.tick(bar) for bar in (piece.bars - 2, piece.bars - 1, piece.bars))
    final = notes[notes["end"] == score.end]
    bass = int(final["pitch"].min()) % 12
    heard, last = heard_key(tones(notes)), notes[notes["start"] >= start]
    earlier = ((notes["start"] >= before) & (notes["start"] < start)).sum()
    is_long = 2 * (score.end - int(last["start"].max())) >= end - start
    return heard is not None and bass == heard.root, bass == krumhansl(tones(notes)).root, is_long, len(last) <= earlier


def main(model: str = "pop-small", count: int = 32, bars: int = 8) -> None:
    """Write pieces with each ending, and print how many end as they should."""
    torch.set_num_threads(1)
    music_model = musicgen.load(model)
    for ending in ("open", "cadence"):
        pieces = music_model.generate_many(count, bars=bars, ending=ending)
        tonic, other, is_long, calm = np.array([judge(piece) for piece in pieces]).T
        print(
            f"ending={ending}: {(tonic & is_long).mean():.0%} of {count} pieces end on the tonic with a long chord "
            f"(by the other estimate {(other & is_long).mean():.0%}); tonic {tonic.mean():.0%} ({other.mean():.0%}), "
            f"long {is_long.mean():.0%}, last bar not busier {calm.mean():.0%}",
            flush=True,
        )


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    main(given.get("model", "pop-small"), int(given.get("count", 32)), int(given.get("bars", 8)))
