"""Moving a performance onto the metrical grid of its annotated beats.

Design note: annotated bars are sometimes too short or too long, because they were played so or by mistake. Beats are
counted on, and a bar line moves to an annotated downbeat only if the bar after it is complete. So a slip that is
corrected at once (a bar of three and one of five) moves nothing, and a bar that is really short is filled with rests.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.score import BEAT, TEMPO, ChordMark, Marker, Score, TimeSignature

TICKS_PER_BEAT = 480


def to_grid(score: Score) -> Score:
    """The same music with annotated beat i at tick 480 i, downbeats on bar lines, and a tempo for every beat.

    Args:
        score: A score with `beats`, at least two of them downbeats.

    Returns:
        A score on the grid, without `beats`. Its time signature is the most common distance of downbeats.

    Raises:
        ValueError: The beats make no grid.
    """
    beats = score.beats
    downbeats = np.flatnonzero(beats["is_downbeat"])
    if len(downbeats) < 2 or not (np.diff(beats["tick"]) > 0).all():
        raise ValueError("the annotated beats make no grid: it takes at least two downbeats, and times that increase")
    ticks, seconds = beats["tick"], score.seconds(beats["tick"])
    beats_per_bar = Counter(np.diff(downbeats).tolist()).most_common(1)[0][0]
    place = _places(len(beats), downbeats, beats_per_bar)

    def warp(moments: NDArray[Any]) -> NDArray[np.float64]:
        """The place on the grid, in beats, of ticks of the performance."""
        where = np.clip(np.searchsorted(ticks, moments, side="right") - 1, 0, len(ticks) - 2)
        return place[where] + (moments - ticks[where]) / (ticks[where + 1] - ticks[where])

    start, end = warp(score.notes["start"]), warp(score.notes["end"])
    lead = -min(0.0, float(start.min(initial=0.0)))  # notes before the first annotated beat
    shift = beats_per_bar * int(np.ceil(lead / beats_per_bar))
    notes = score.notes.copy()
    notes["start"] = np.rint((start + shift) * TICKS_PER_BEAT)
    notes["end"] = np.maximum(np.rint((end + shift) * TICKS_PER_BEAT), notes["start"] + 1)
    tempos = np.empty(len(beats) - 1, TEMPO)
    tempos["tick"] = (place[:-1] + shift) * TICKS_PER_BEAT
    tempos["bpm"] = 60.0 / np.diff(seconds)
    tempos["tick"][0] = 0  # the first tempo also holds before the first beat
    pedals = score.pedals.copy()
    pedals["tick"] = np.rint((warp(pedals["tick"]) + shift) * TICKS_PER_BEAT)
    chords, texts = (
        np.rint((warp(np.array([mark.tick for mark in marks], np.int64)) + shift) * TICKS_PER_BEAT).clip(0).astype(int)
        for marks in (score.chords, score.markers)
    )
    return score.replace(
        ticks_per_beat=TICKS_PER_BEAT,
        notes=notes,
        tempos=tempos,
        time_signatures=(TimeSignature(0, beats_per_bar, 4),),
        markers=tuple(Marker(tick, marker.text) for tick, marker in zip(texts.tolist(), score.markers, strict=True)),
        chords=tuple(ChordMark(tick, mark.chord) for tick, mark in zip(chords.tolist(), score.chords, strict=True)),
        beats=np.empty(0, BEAT),
        pedals=pedals,
    )


def _places(count: int, downbeats: NDArray[np.int64], beats_per_bar: int) -> NDArray[np.int64]:
    """The grid beat of each annotated beat, shape (count,). The first downbeat is on a bar line."""
    pickup = int(downbeats[0])
    place = np.arange(count) - pickup + beats_per_bar * -(-pickup // beats_per_bar)
    for downbeat, following in pairwise(downbeats):
        late = int(place[downbeat]) % beats_per_bar
        if late and following - downbeat == beats_per_bar:
            place[downbeat:] += beats_per_bar - late
    return place
