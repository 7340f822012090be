"""What to look at in the attention of models: options of `musicgen evaluate attention`, which the evaluation reads.

This module imports nothing that is slow, because help needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from musicgen.options import option


@dataclass(frozen=True)
class AttentionOptions:
    """What to look at; numbers are counted from 1, and None means the default."""

    midi: Path | None = option(like="FILE.mid", help="reads this MIDI file instead of a piece that the model writes")
    tokens: int | None = option(least=2, help="tokens of the piece, at most; 1.5 times the trained length if not given")
    trained: int | None = option(least=2, help="tokens of a training window, for bundles that do not say it")
    layers: tuple[int, ...] | None = option(
        like="N,N", least=1, help="layers of maps; if not given, in proportion to the paper's 1, 3, 12, 20 and 24 of 24"
    )
    heads: tuple[int, ...] | None = option(
        like="N,N", least=1, help="heads of maps and kernels; if not given, the first 8 for maps and all for kernels"
    )
    features: tuple[int, ...] | None = option(like="N,N", least=1, help="features of kernels; all if not given")
    templates: int = option(16, least=1, help="kernels that are shown, picked at random")
    draws: int = option(8, least=1, help="draws of noise that kernels are compared with")
    kind: Literal["exact", "features"] = option(
        "exact", help="attention of maps: exact is softmax, as in the paper; features is what the model computes"
    )
    seed: int = option(0, least=0, help="seed of the piece, of the picks and of the first draw")
