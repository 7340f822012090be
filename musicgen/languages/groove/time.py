"""Time in grooves: ticks, bars, and what a shift does to the clock.

`Shift_1_6` goes to tick 6 of the next beat. Beats are counted from the present beat, ticks from the beginning of that
beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

TICKS = 12
"""Ticks in a beat."""
BAR = 4 * TICKS
"""Ticks in a bar."""
LONGEST = 2 * TICKS
"""Shifts go 1 to 24 ticks from the beginning of the present beat. A longer one is several in a row."""


def after_shift(clock: int, shift: int) -> int:
    """The tick that a shift leads to.

    Args:
        clock: The tick before it.
        shift: Ticks from the beginning of the present beat.
    """
    return clock - clock % TICKS + shift


def after_shifts(shifts: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """The tick after each token, shape (tokens,).

    Args:
        shifts: The shift that each token makes, as for `after_shift`; 0 for tokens that are no shifts.
    """
    shifts = np.asarray(shifts, np.int64)
    beats, tick = np.divmod(shifts, TICKS)
    latest = np.maximum.accumulate(np.where(shifts > 0, np.arange(len(shifts)), 0))
    clock: NDArray[np.int64] = TICKS * np.cumsum(beats) + tick[latest]
    return clock
