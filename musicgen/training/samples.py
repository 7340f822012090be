"""A piece at every validation: how a model sounds while it learns.

The hard choice: it is always the same seed. From one validation to the next the piece changes because the model did,
and one hears what it has learnt.
"""

from __future__ import annotations

from pathlib import Path

from musicgen.files import atomic_write
from musicgen.model import PerformerLM
from musicgen.sampling import Composer
from musicgen.tokens.language import Language

SEED = 0


def write_sample(model: PerformerLM, language: Language, folder: Path, step: int, bars: int) -> None:
    """Write a piece as MIDI and as a piano roll: `step_000250.mid`, `step_000250.png`.

    Args:
        model: The model as it is; dropout plays no part in it.
        language: Its token language.
        folder: Which is made if it is not there.
        step: At which it is.
        bars: Of the piece.
    """
    piece = Composer(model, language).generate(bars=bars, seed=SEED)
    folder.mkdir(exist_ok=True)
    piece.save(folder / f"step_{step:06d}.mid")
    atomic_write(folder / f"step_{step:06d}.png", piece.picture(f"step {step:,}"))
