"""A performance put on the metrical grid that its annotated beats make.

The hard choice: annotations of real music have bars that are too short or too long, some of them played so and
some of them mistakes. Beats are counted through, and a bar line is moved to an annotated downbeat only where the
bar after it is whole: a slip that is made good at once (a bar of three and one of five) moves nothing, and a bar
that is really short is filled with rests, so that what follows is again in step with the bars.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.score import BEAT, TEMPO, ChordMark, Score, TimeSignature

TICKS_PER_BEAT = 480


def to_grid(score: Score) -> Score:
    """The same music with annotated beat i at tick 480 i, downbeats on bar lines, and a tempo for every beat.

    Args:
        score: Has `beats`, at least two of them, some of them downbeats.

    Returns:
        A score without `beats`, which its own grid now says. Its time signature is the commonest distance of
        downbeats.

    Raises:
        ValueError: The beats make no grid.
    """
    beats = score.beats
    downbeats = np.flatnonzero(beats["is_downbeat"])
    if len(downbeats) < 2 or not (np.diff(beats["tick"]) > 0).all():
        raise ValueError("the annotated beats make no grid: two downbeats at least, and times that grow")
    ticks, seconds = beats["tick"], score.seconds(beats["tick"])
    beats_per_bar = Counter(np.diff(downbeats).tolist()).most_common(1)[0][0]
    place = _places(len(beats), downbeats, beats_per_bar)

    def warp(moments: NDArray[Any]) -> NDArray[np.float64]:
        """Beats of the grid, as real numbers, at ticks of the performance."""
        where = np.clip(np.searchsorted(ticks, moments, side="right") - 1, 0, len(ticks) - 2)
        return place[where] + (moments - ticks[where]) / (ticks[where + 1] - ticks[where])

    start, end = warp(score.notes["start"]), warp(score.notes["end"])
    lead = -min(0.0, float(start.min(initial=0.0)))  # notes before the first beat that was heard
    shift = beats_per_bar * int(np.ceil(lead / beats_per_bar))
    notes = score.notes.copy()
    notes["start"] = np.rint((start + shift) * TICKS_PER_BEAT)
    notes["end"] = np.maximum(np.rint((end + shift) * TICKS_PER_BEAT), notes["start"] + 1)
    tempos = np.empty(len(beats) - 1, TEMPO)
    tempos["tick"] = (place[:-1] + shift) * TICKS_PER_BEAT
    tempos["bpm"] = 60.0 / np.diff(seconds)
    tempos["tick"][0] = 0  # the pace of the first beat holds for what precedes it
    chords = []
    if score.chords:
        moments = warp(np.array([mark.tick for mark in score.chords]))
        chords = np.rint((moments + shift) * TICKS_PER_BEAT).clip(0).astype(int).tolist()
    return score.replace(
        ticks_per_beat=TICKS_PER_BEAT,
        notes=notes,
        tempos=tempos,
        time_signatures=(TimeSignature(0, beats_per_bar, 4),),
        chords=tuple(ChordMark(tick, mark.chord) for tick, mark in zip(chords, score.chords, strict=True)),
        beats=np.empty(0, BEAT),
    )


def _places(count: int, downbeats: NDArray[np.int64], beats_per_bar: int) -> NDArray[np.int64]:
    """The beat of the grid for each annotated beat, shape (count,). The first downbeat is on a bar line."""
    pickup = int(downbeats[0])
    place = np.arange(count) - pickup + beats_per_bar * -(-pickup // beats_per_bar)
    for downbeat, following in pairwise(downbeats):
        late = int(place[downbeat]) % beats_per_bar
        if late and following - downbeat == beats_per_bar:
            place[downbeat:] += beats_per_bar - late
    return place
