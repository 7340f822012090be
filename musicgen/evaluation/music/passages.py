"""The longest passages that pieces share with a corpus, up to transposition and tempo, from every note.

A piece is a line of notes, ordered by onset and pitch. A step leads from a note to the next: how many grid steps later
it begins, and how many semitones higher it is. Lengths and velocities do not count. A passage is shared if its steps
occur in a row in one line of the corpus.

Design note: the search uses no hashes, so nothing has to be verified. All windows of 1, 2, 4, 8 ... steps get ranks:
equal windows have equal ranks, and ranks are in sorted order. Each rank comes from two ranks of the length before
(Karp, Miller and Rosenberg), which sorts all suffixes. The longest passage from a note is the longest prefix that it
shares with one of its two corpus neighbours in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grid import nearest
from musicgen.midi.score import Score

Integers = NDArray[np.int64]
Ranks = NDArray[np.int32]

LONGEST_GAP = 254
"""Grid steps; all longer rests count as equal."""
SPEEDS = (1.0, 2.0, 0.5)
"""A piece is also looked for with notes twice and half as long."""
SMALL = 1 << 24
_NOWHERE = (LONGEST_GAP + 1) << 8
"""A step that occurs in no corpus."""
_BETWEEN = b"\xff\xff"
"""Separates lines; it is not a step."""


class Line(NamedTuple):
    """Notes of a song as a row; arrays are `(notes,)`.

    Attributes:
        owner: The number of the song.
        onset: In steps of the grid.
        pitch: MIDI pitches.
        tick: Onsets in the score.
    """

    owner: int
    onset: Integers
    pitch: Integers
    tick: Integers

    def top(self) -> Line:
        """The highest note at every onset: the melody, where there is one."""
        last = np.flatnonzero(np.diff(self.onset, append=-1))  # pitches ascend
        return Line(self.owner, self.onset[last], self.pitch[last], self.tick[last])

    def steps(self, speed: float = 1.0) -> Integers:
        """The step from each note to the next, as one number, `(notes - 1,)`."""
        gap = np.diff(self.onset)
        scaled = (gap * speed).astype(np.int64)
        steps = scaled.clip(max=LONGEST_GAP) << 8 | np.diff(self.pitch) + 128
        return np.where(scaled == gap * speed, steps, _NOWHERE)


def lines_of(score: Score, owner: int, grid: int, apart: bool) -> list[Line]:
    """The lines of a score, without its drums: every track is one if `apart`, otherwise all tracks together.

    Notes need not be on the grid, which has `grid` steps in a beat.
    """
    notes = score.notes[~score.is_drum(score.notes)]
    track = notes["track"].astype(np.int64) * apart
    onset, pitch = nearest(notes["start"], score.ticks_per_beat, grid), notes["pitch"].astype(np.int64)
    order = np.lexsort((pitch, onset, track))
    columns = np.stack([track, onset, pitch])[:, order]
    is_new = np.append(True, (np.diff(columns) != 0).any(0))[: len(order)]  # notes at the same place are one note
    (track, onset, pitch), tick = columns[:, is_new], notes["start"][order][is_new]
    return [
        Line(owner, onset[mine], pitch[mine], tick[mine]) for number in np.unique(track) for mine in [track == number]
    ]


def search(queries: Sequence[Integers], corpus: Sequence[Integers]) -> list[Integers]:
    """For every note of every query, the length of the longest passage from it that is in the corpus.

    Args:
        queries: Steps of lines.
        corpus: Steps of lines; a passage lies within one line.

    Returns:
        Notes of passages, `(steps + 1,)` for each query; 1 means only the note itself.
    """
    rows = [*corpus, *queries]
    sizes = np.array([len(row) for row in rows], np.int64)
    text, ends = np.concatenate(rows), np.cumsum(sizes)
    room = np.repeat(ends, sizes) - np.arange(len(text))  # steps from each to the end of its line
    border = int(sizes[: len(corpus)].sum())
    shared = _shared_steps(_number_windows(text, room, border), room, border)
    own = np.split(shared, ends[len(corpus) : -1] - border)
    return [np.append(steps, 0) + 1 for steps in own]  # no step begins at the last note


def covered(passages: Integers, shortest: int) -> NDArray[np.bool_]:
    """Which notes are in a passage of at least `shortest` notes, `(notes,)`, by what `search` gives."""
    begins = np.flatnonzero(passages >= shortest)
    depth = np.zeros(len(passages) + 1, np.int64)
    np.add.at(depth, begins, 1)
    np.add.at(depth, begins + passages[begins], -1)
    return np.cumsum(depth[:-1]) > 0


class Text:
    """Lines of a corpus as one row of bytes, to find the first occurrence of a passage."""

    def __init__(self, corpus: Sequence[Integers]) -> None:
        self._bytes = b"".join(row.astype("<u2").tobytes() + _BETWEEN for row in corpus)
        self._starts = np.cumsum([0, *(len(row) + 1 for row in corpus)])

    def first(self, passage: Integers) -> tuple[int, int]:
        """The number of the first line that has these steps, and where in it they begin."""
        pattern = passage.astype("<u2").tobytes()
        place = self._bytes.index(pattern)
        while place % 2:  # half of one step and half of the next
            place = self._bytes.index(pattern, place + 1)
        line = int(np.searchsorted(self._starts, place // 2, side="right")) - 1
        return line, place // 2 - int(self._starts[line])


def _number_windows(text: Integers, room: Integers, border: int) -> list[Ranks]:
    """Ranks of the windows of 1, 2, 4 ... steps at each place, as long as corpus and queries share a window.

    A window that reaches beyond the end of its line is shorter, and comes before longer ones that begin like it. Ranks
    are in the order of windows.
    """
    levels, size = [_ranks(text)], 1
    longest = int(room[border:].max(initial=0))
    while size < longest and _is_shared(levels[-1], border):
        numbers = levels[-1]
        following = np.zeros(len(text), np.int64)
        goes_on = np.flatnonzero(room > size)
        following[goes_on] = numbers[goes_on + size] + 1
        pairs = numbers.astype(np.int64) * (int(numbers.max()) + 2) + following
        levels.append(_ranks(pairs))
        size *= 2
    return levels


def _ranks(values: Integers) -> Ranks:
    """For each value, how many distinct smaller values there are."""
    if values.max(initial=0) >= SMALL:
        return np.unique(values, return_inverse=True)[1].astype(np.int32)
    occurs = np.zeros(int(values.max(initial=0)) + 1, np.bool_)  # few values: marking them is faster than sorting
    occurs[values] = True
    return (np.cumsum(occurs, dtype=np.int32) - 1)[values]


def _is_shared(numbers: Ranks, border: int) -> bool:
    occurs = np.zeros(int(numbers.max(initial=0)) + 1, np.bool_)
    occurs[numbers[:border]] = True
    return bool(occurs[numbers[border:]].any())


def _shared_steps(levels: list[Ranks], room: Integers, border: int) -> Integers:
    """How many steps each place of the queries has in common with some place of the corpus."""
    queries = np.arange(border, len(room))
    if not border:
        return np.zeros(len(queries), np.int64)
    known, first = np.unique(levels[-1][:border], return_index=True)
    following = np.searchsorted(known, levels[-1][border:], side="right")
    neighbours = (first[side.clip(0, len(known) - 1)] for side in (following - 1, following))
    return np.maximum(*(_common(levels, room, queries, place) for place in neighbours))


def _common(levels: list[Ranks], room: Integers, one: Integers, other: Integers) -> Integers:
    """How many steps two places have in common, of many pairs of places."""
    length, most = np.zeros(len(one), np.int64), np.minimum(room[one], room[other])
    for level in reversed(range(len(levels))):
        numbers, size = levels[level], 1 << level
        # A window that fits into neither line is compared by its end as well, and is then equal to the end.
        open_ = np.flatnonzero(length < most)
        here, there = one[open_] + length[open_], other[open_] + length[open_]
        alike = open_[numbers[here] == numbers[there]]
        length[alike] += size
    return np.minimum(length, most)
