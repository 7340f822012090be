"""Finds copies of a song: the same notes, or nearly the same, in any key.

Design note: songs are compared by sketches (MinHash). A song is seen as the set of its passages of eight notes. Each
passage is hashed from its intervals and the distances between its notes, so key, tempo, dynamics and the first bar do
not matter. A sketch keeps the few hundred smallest hashes. The share of hashes that two sketches have in common
estimates the share of passages that the songs have in common. Thousands of songs are compared in a second, because
songs without a common hash are never compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.score import Score

Sketch = NDArray[np.uint64]

PASSAGE = 8
"""Notes in a passage."""
SKETCH = 256
SAME = 0.2
"""Songs that share this much of their passages count as one song. Different songs of Pop1K7 share nothing."""
LONGEST_GAP = 32
COMMON = 32
"""If more songs than this share a passage (such as a scale), only neighbours among them are compared for it."""


def sketch(score: Score) -> Sketch:
    """The smallest hashes of a song's passages, at most `SKETCH` of them, in order."""
    intervals = np.diff(score.notes["pitch"].astype(np.int64)) + 128
    gaps = np.diff(score.notes["start"] // (score.ticks_per_beat // 4)).clip(0, LONGEST_GAP)
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
    """Mix the bits of each number. No two numbers give the same result (the finaliser of SplitMix64)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def similarity(first: Sketch, second: Sketch) -> float:
    """An estimate of the share of passages that two songs have in common: 1 for the same song."""
    union = np.union1d(first, second)[:SKETCH]
    shared = np.isin(union, first, assume_unique=True) & np.isin(union, second, assume_unique=True)
    return float(shared.mean())


def group_songs(sketches: Sequence[Sketch]) -> list[int]:
    """For each song, the number of the first song in its group. The songs of a group are copies, or nearly."""
    same = (pair for pair in _candidates(sketches) if similarity(*(sketches[song] for song in pair)) >= SAME)
    return join_pairs(len(sketches), same)


def join_pairs(count: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Groups of things that are linked by pairs, directly or through others.

    Args:
        count: How many things there are, numbered from 0.
        pairs: Numbers of two things that belong together.

    Returns:
        For each thing the lowest number in its group.
    """
    lower = list(range(count))

    def lowest(number: int) -> int:
        while lower[number] != number:
            lower[number] = number = lower[lower[number]]
        return number

    for pair in pairs:
        one, other = sorted(map(lowest, pair))
        lower[other] = one
    return [lowest(number) for number in range(count)]


def _candidates(sketches: Sequence[Sketch]) -> set[tuple[int, int]]:
    """Pairs of songs that share enough hashes to be worth comparing."""
    if not sketches:
        return set()
    hashes = np.concatenate(list(sketches))
    songs = np.repeat(np.arange(len(sketches)), [len(item) for item in sketches])
    # Songs with equal sketches are neighbours among the owners of a hash, so they are compared even if it is common.
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
