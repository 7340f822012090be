"""Where a prompt ends: how far music jumps there, and whether the drums keep their pattern.

Design note: real songs have no prompt, so their first bars are taken for one, as many as the prompts of generated
pieces have. A song changes at any bar line too, and that is the yardstick.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from musicgen.evaluation.music.metrics import SIXTEENTH, TICKS, bar_ticks, nearest_sixteenths
from musicgen.midi.score import Score

AROUND = 4
"""Bars on each side of a prompt's end that are compared; fewer if there are fewer."""
KICKS, SNARES = (35, 36), (37, 38, 40)
"""Drums of General MIDI: both bass drums; side stick, acoustic and electric snare."""

JUNCTION = {
    "density jump": "notes per bar after the prompt's end against before it: how many times more, or fewer",
    "tempo jump": "tempo after the prompt's end against before it: how many times faster, or slower",
    "kick and snare kept": "share of new bars whose kicks and snares are exactly those of a bar of the prompt",
    "kick and snare match": "Jaccard of kicks and snares in a new bar and the most similar bar of the prompt",
}
"""Name to meaning. The first two are 1 where nothing jumps."""


def measure_junction(score: Score, prompt_bars: int) -> dict[str, float]:
    """The metrics of a whole piece on the grid; nan where one is not defined, or nothing is on one of the sides."""
    lines = bar_ticks(score)
    if not 0 < prompt_bars < len(lines) - 1:
        return dict.fromkeys(JUNCTION, math.nan)
    before, here, after = lines[[max(prompt_bars - AROUND, 0), prompt_bars, min(prompt_bars + AROUND, len(lines) - 1)]]
    kept, match = kick_and_snare(score, prompt_bars)
    return {
        "density jump": _jump(_density(score, before, here), _density(score, here, after)),
        "tempo jump": _jump(_tempo(score, before, here), _tempo(score, here, after)) if len(score.tempos) else math.nan,
        "kick and snare kept": kept,
        "kick and snare match": match,
    }


def _jump(before: float, after: float) -> float:
    """The larger of two numbers divided by the smaller, without what rounding does to tempos; nan if one is 0."""
    return round(max(before, after) / min(before, after), 4) if min(before, after) > 0 else math.nan


def _density(score: Score, first: int, last: int) -> float:
    """Notes per beat."""
    start = score.notes["start"]
    return float(((start >= first) & (start < last)).sum()) * TICKS / (last - first)


def _tempo(score: Score, first: int, last: int) -> float:
    """Mean beats per minute."""
    began, ended = score.seconds(np.array([first, last])).tolist()
    return (last - first) / TICKS * 60 / (ended - began)


def kick_and_snare(score: Score, prompt_bars: int) -> tuple[float, float]:
    """How a piece keeps the kicks and snares of its prompt.

    Two bars without any are equal. It is nan if the prompt has none at all.

    Returns:
        The share of later bars that are exactly as a bar of the prompt, and the mean over later bars of the highest
        Jaccard similarity with a bar of the prompt.
    """
    bars = drum_bars(score)
    prompt, later = bars[:prompt_bars], bars[prompt_bars:]
    if not prompt.any() or not len(later):
        return math.nan, math.nan
    both = later.astype(np.float32) @ prompt.T.astype(np.float32)
    either = later.sum(1)[:, None] + prompt.sum(1) - both
    match = np.where(either > 0, both / np.maximum(either, 1), 1).max(1)
    return float((match == 1).mean()), float(match.mean())


def drum_bars(score: Score) -> NDArray[np.bool_]:
    """Where in each bar there is a kick and where a snare, in sixteenths, shape (bars, 2 · sixteenths)."""
    lines, start = bar_ticks(score) // SIXTEENTH, nearest_sixteenths(score)
    bar = (np.searchsorted(lines, start, side="right") - 1).clip(0, len(lines) - 2)
    longest = max(int(np.diff(lines).max()), 1)
    bars = np.zeros((len(lines) - 1, 2, longest), np.bool_)
    is_drum = score.is_drum(score.notes)
    for place, pitches in enumerate((KICKS, SNARES)):
        hit = is_drum & np.isin(score.notes["pitch"], pitches)
        bars[bar[hit], place, start[hit] - lines[bar[hit]]] = True
    return bars.reshape(len(bars), -1)
