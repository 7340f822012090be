"""Symbolic music with a linear-complexity Transformer and stochastic positional encoding."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from musicgen.model.engine import EngineName
    from musicgen.sampling import MusicModel

__version__ = "0.1.0"


def load(name: str | os.PathLike[str], engine: EngineName = "auto") -> MusicModel:
    """Load a model that writes music: `musicgen.load("pop-small").generate(bars=8, seed=1).save("x.mid")`.

    Args:
        name: A built-in model (`pop-small`, `groove-small`), or the folder of a bundle or of a training run.
        engine: What runs the model: `torch`, `onnx` (faster on a CPU), or `auto`, the fastest that can run it here.

    Raises:
        musicgen.errors.UserError: There is no such model, or it cannot be used.
    """
    from musicgen.sampling import load_music_model  # here, because importing torch takes seconds

    return load_music_model(os.fspath(name), engine)
