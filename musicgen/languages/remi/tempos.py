"""Which tempos of the tokens a piece may have, and what they stand for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.languages.mask import Mask
from musicgen.languages.remi.tokens import TokenSet


def allowed_tempos(tokens: TokenSet, tempo: tuple[float, float] | None) -> tuple[NDArray[np.float64], Mask]:
    """The tempo of each `Tempo` token in quarter notes per minute, and which may be used; both of shape (tempos,).

    For a single tempo only the nearest token may be used, and it stands for exactly that tempo.

    Raises:
        UserError: No token has such a tempo.
    """
    tempos = tokens.tempos
    bpm = np.array(tempos, np.float64)
    if tempo is None:
        return bpm, np.ones(len(bpm), np.bool_)
    low, high = tempo
    allowed = (bpm >= low) & (bpm <= high)
    if low == high:
        nearest = int(np.abs(bpm - low).argmin())
        allowed = np.arange(len(bpm)) == nearest
        if abs(bpm[nearest] - low) > tempos.step / 2:
            raise UserError(f"tempo={low:g}: takes {tempos[0]} to {tempos[-1]}")
        bpm[nearest] = low
    elif not allowed.any():
        raise UserError(f"tempo={low:g}-{high:g}: no tempo of the tokens ({tempos[0]}, {tempos[1]}, {tempos[2]} ...)")
    return bpm, allowed
