"""Form: how much the bars of a piece take up from bars before them.

Design note: bars are sets, and two bars are as similar as the share of what both have of what either has (Jaccard).
Onsets are in sixteenths, and lengths and velocities do not count, so that a bar that returns a little changed is still
seen. More tolerance is worse: if neighbouring pitches or onsets count as equal, a piece of many notes at random is as
similar to itself as a song is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.evaluation.music.metrics import SIXTEENTH, bar_ticks, nearest_sixteenths, similarity_at
from musicgen.midi.score import Score

LAGS = (1, 2, 4, 8)
"""Distances in bars at which bars are compared."""
_KINDS = {"notes": "onset and pitch", "pitches": "pitches alone, without drums", "onsets": "onsets alone"}

FORM = {
    **{
        f"{kind} alike at {lag}": f"Jaccard of bars {lag} apart: {what}"
        for kind, what in _KINDS.items()
        for lag in LAGS
    },
    "best earlier bar": "Jaccard of a bar and the earlier bar that is most similar: onset and pitch",
    "last bar": "notes of the last bar, divided by notes per bar",
}
"""Name to meaning."""


def measure_form(score: Score) -> dict[str, float]:
    """The metrics of form but the last, for a piece on the grid; nan where one is not defined."""
    bars = bar_sets(score)
    values = {f"{kind} alike at {lag}": similarity_at(bars[kind], lag) for kind in _KINDS for lag in LAGS}
    return {**values, "best earlier bar": best_earlier(bars["notes"])}


def bar_sets(score: Score) -> dict[str, NDArray[np.bool_]]:
    """What each bar of a piece on the grid has: `notes`, `pitches` and `onsets`, shape (bars, different things) each.

    Notes are the same if they begin in the same sixteenth of their bars, have one pitch, and are both drums or both
    not drums.
    """
    lines, start = bar_ticks(score), nearest_sixteenths(score)
    # A note on a line that is not on a sixteenth (in 7/32, say) is in the bar that begins there.
    bar = (np.searchsorted(lines // SIXTEENTH, start, side="right") - 1).clip(0, len(lines) - 2)
    place, pitch, is_drum = (
        start - lines[bar] // SIXTEENTH,
        score.notes["pitch"].astype(np.int64),
        score.is_drum(score.notes),
    )
    count = len(lines) - 1
    return {
        "notes": _sets(bar, (place * 128 + pitch) * 2 + is_drum, count),
        "pitches": _sets(bar[~is_drum], pitch[~is_drum], count),
        "onsets": _sets(bar, place, count),
    }


def _sets(bar: NDArray[np.int64], thing: NDArray[Any], bars: int) -> NDArray[np.bool_]:
    kinds, kind = np.unique(thing, return_inverse=True)
    sets = np.zeros((bars, len(kinds)), np.bool_)
    sets[bar, kind] = True
    return sets


def best_earlier(sets: NDArray[np.bool_]) -> float:
    """The mean, over bars from the second on, of the highest Jaccard similarity with any bar before.

    Empty bars do not count, and are like no other bar. It is nan if there are no bars to count.
    """
    sizes = sets.sum(1)
    counts = sizes > 0
    counts[0] = False
    if not counts.any():
        return math.nan
    both = sets.astype(np.float32) @ sets.T.astype(np.float32)  # exact: counts are far below 2²⁴
    either = np.maximum(sizes[:, None] + sizes - both, 1)
    return float(np.tril(both / either, -1).max(1)[counts].mean())


def last_bar(score: Score) -> float:
    """Notes that begin in the last bar of a piece on the grid, divided by the mean of its bars."""
    lines, start = bar_ticks(score), score.notes["start"]
    return float((start >= lines[-2]).sum() * (len(lines) - 1) / len(start))
