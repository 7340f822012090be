"""The sustain pedal as lengths of notes.

Tokens know how long a note sounds, and nothing of pedals. While the pedal is down, a note sounds on after its key is
released: until the pedal is released, or the key is struck again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musicgen.midi.score import PEDAL, Score


class Held(NamedTuple):
    """How many notes a pedal held, and for how many beats on average after the release of their keys."""

    notes: int
    beats: float


def hold(score: Score) -> tuple[Score, Held]:
    """The music as it sounds with its pedals, and what they held.

    A pedal that is down at the end is released with the last key. Drums have no pedal.

    Returns:
        A score without pedals.
    """
    if not len(score.pedals):
        return score, Held(0, 0.0)
    notes = score.notes.copy()
    for number, track in enumerate(score.tracks):
        changes = score.pedals[score.pedals["track"] == number]
        own = np.flatnonzero(notes["track"] == number)
        if track.is_drum or not changes["is_down"].any():
            continue
        changes = changes[np.flatnonzero(np.diff(changes["is_down"], prepend=False))]  # down, up, down, up ...
        ticks = np.append(changes["tick"], score.end)
        place = np.searchsorted(changes["tick"], notes["end"][own], side="right")
        is_held = place % 2 == 1  # the last change before the release of the key was down
        ends = np.where(is_held, ticks[place], notes["end"][own])
        notes["end"][own] = np.maximum(notes["end"][own], np.minimum(ends, _struck_again(notes[own], score.end)))
    longer = notes["end"] - score.notes["end"]
    held = int((longer > 0).sum())
    beats = float(longer.sum()) / max(held, 1) / score.ticks_per_beat
    return score.replace(notes=notes, pedals=np.empty(0, PEDAL)), Held(held, beats)


def _struck_again(notes: np.ndarray, end: int) -> np.ndarray:
    """The tick at which the key of each note is next struck, or the end of the piece, shape (notes,)."""
    order = np.lexsort((notes["start"], notes["pitch"]))
    start, pitch = notes["start"][order], notes["pitch"][order]
    following = np.full(len(notes), end, np.int64)
    is_same = pitch[1:] == pitch[:-1]
    following[:-1][is_same] = start[1:][is_same]
    again = np.empty_like(following)
    again[order] = following
    return again
