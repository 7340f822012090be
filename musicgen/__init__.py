"""Symbolic music with a linear-complexity Transformer and stochastic positional encoding."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from musicgen.sampling import Composer

__version__ = "0.1.0"


def load(name: str | os.PathLike[str]) -> Composer:
    """A model that writes music: `musicgen.load("pop-small").generate(bars=8, seed=1).save("x.mid")`.

    Args:
        name: A built-in model (`pop-small`, `groove-small`), or the folder of a bundle or of a training run.

    Raises:
        musicgen.errors.UserError: There is none, or it cannot be used.
    """
    from musicgen.sampling import load_composer  # torch takes seconds, and `musicgen --help` none

    return load_composer(os.fspath(name))
