"""Which songs are the same song: the same notes up to transposition, or nearly.

The hard choice: songs are compared by sketches. A song is the set of its passages of eight notes, each hashed from
the intervals and the distances between them, so that key, tempo, dynamics and the bar it begins in do not matter;
of the set, the few hundred smallest hashes are kept, and the part of them that two songs share estimates the part
of passages that they share. Thousands of songs are compared in a second, and songs that share nothing never meet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.score import Score
from musicgen.tokens.quantise import POSITION_TICKS

Sketch = NDArray[np.uint64]

PASSAGE = 8
"""Notes in a passage."""
SKETCH = 256
SAME = 0.2
"""Songs that share this part of their passages are taken for one. Different songs of Pop1K7 share none."""
LONGEST_GAP = 32
COMMON = 32
"""A passage in more songs than this is compared between neighbours only: scales and repeated notes are everywhere."""


def sketch(score: Score) -> Sketch:
    """The smallest hashes of a song's passages, at most `SKETCH` of them, in order.

    Args:
        score: On the grid of tokens.
    """
    intervals = np.diff(score.notes["pitch"].astype(np.int64)) + 128
    gaps = np.diff(score.notes["start"] // POSITION_TICKS).clip(0, LONGEST_GAP)
    steps = (intervals * (LONGEST_GAP + 1) + gaps).astype(np.uint64)
    length = min(PASSAGE - 1, max(len(steps), 1))
    if len(steps) == 0:
        steps = np.zeros(1, np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(steps, length)
    hashes = np.zeros(len(windows), np.uint64)
    for column in windows.T:
        hashes = _mix(hashes ^ column)
    return np.unique(hashes)[:SKETCH]


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection of 64 bits that leaves no trace of order (the finaliser of SplitMix64)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def similarity(first: Sketch, second: Sketch) -> float:
    """An estimate of the part of passages that two songs share: 1 for the same song."""
    union = np.union1d(first, second)[:SKETCH]
    shared = np.isin(union, first, assume_unique=True) & np.isin(union, second, assume_unique=True)
    return float(shared.mean())


def group_songs(sketches: Sequence[Sketch]) -> list[int]:
    """For each song the number of the first song of its group; songs of a group are one song, or nearly."""
    group = list(range(len(sketches)))

    def root(song: int) -> int:
        while group[song] != song:
            song = group[song]
        return song

    for first, second in sorted(_candidates(sketches)):
        one, other = sorted((root(first), root(second)))
        if one != other and similarity(sketches[first], sketches[second]) >= SAME:
            group[other] = one
    return [root(song) for song in range(len(sketches))]


def _candidates(sketches: Sequence[Sketch]) -> set[tuple[int, int]]:
    """Pairs of songs that share enough hashes to be worth comparing."""
    if not sketches:
        return set()
    hashes = np.concatenate(list(sketches))
    songs = np.repeat(np.arange(len(sketches)), [len(item) for item in sketches])
    # Twins stand side by side among the owners of a hash, so that they are compared however common it is.
    kinds = {item.tobytes(): number for number, item in enumerate(sketches)}
    twins = np.array([kinds[item.tobytes()] for item in sketches])
    order = np.lexsort((songs, twins[songs], hashes))
    hashes, songs = hashes[order], songs[order]
    borders = np.flatnonzero(np.diff(hashes)) + 1
    shared: dict[tuple[int, int], int] = defaultdict(int)
    for owners in np.split(songs, borders):
        if len(owners) > 1:
            names = owners.tolist()
            for one, other in pairwise(names) if len(names) > COMMON else combinations(names, 2):
                shared[min(one, other), max(one, other)] += 1
    smaller = [len(item) for item in sketches]
    return {(a, b) for (a, b), count in shared.items() if count >= SAME / 2 * min(smaller[a], smaller[b])}
