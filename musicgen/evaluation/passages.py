"""Passages that pieces share with a corpus, up to transposition and tempo: the longest from every note on.

A piece is a line of notes in the order of onset and pitch. A step is what leads from a note to the next: how many grid
steps later it begins and how many semitones higher it is; lengths and velocities do not count. A passage is shared if
its steps stand in a row in the corpus, in one line of it.

The hard choice: no hashes, so nothing has to be verified. Windows of 1, 2, 4, 8 ... steps of the corpus and the pieces
together get numbers, equal for equal windows and in their order, each from two numbers of the length before (Karp,
Miller and Rosenberg; it sorts all suffixes). The passage that a note begins is the longest prefix that it shares with
one of its two neighbours from the corpus in that order, which the numbers tell bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.score import Score
from musicgen.tokens.quantise import nearest

Integers = NDArray[np.int64]
Ranks = NDArray[np.int32]

LONGEST_GAP = 254
"""Grid steps; longer rests are alike."""
SPEEDS = (1.0, 2.0, 0.5)
"""A piece is also looked for as if it were written in notes twice and half as long."""
SMALL = 1 << 24
_NOWHERE = (LONGEST_GAP + 1) << 8
"""A step that no corpus has."""
_BETWEEN = b"\xff\xff"
"""What stands between lines: no step at all."""


class Line(NamedTuple):
    """Notes of a song that are looked at as a row, all `(notes,)`.

    Attributes:
        owner: The number of the song.
        onset: In steps of the grid.
        pitch: MIDI pitches.
        tick: Where they begin in the score, to find them there.
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
        """What leads from each note to the next, in one number, `(notes - 1,)`."""
        gap = np.diff(self.onset)
        scaled = (gap * speed).astype(np.int64)
        steps = scaled.clip(max=LONGEST_GAP) << 8 | np.diff(self.pitch) + 128
        return np.where(scaled == gap * speed, steps, _NOWHERE)


def lines_of(score: Score, owner: int, grid: int, apart: bool) -> list[Line]:
    """The lines of a score, without its drums.

    Args:
        score: Its notes need not be on the grid.
        owner: The number of the song.
        grid: Steps in a beat.
        apart: Whether every track is a line of its own; otherwise all are one.
    """
    notes = score.notes[~score.is_drum(score.notes)]
    track = notes["track"].astype(np.int64) * apart
    onset, pitch = nearest(notes["start"], score.ticks_per_beat, grid), notes["pitch"].astype(np.int64)
    order = np.lexsort((pitch, onset, track))
    columns = np.stack([track, onset, pitch])[:, order]
    is_new = np.append(True, (np.diff(columns) != 0).any(0))[: len(order)]  # what falls on another is one note
    (track, onset, pitch), tick = columns[:, is_new], notes["start"][order][is_new]
    return [
        Line(owner, onset[mine], pitch[mine], tick[mine]) for number in np.unique(track) for mine in [track == number]
    ]


def search(queries: Sequence[Integers], corpus: Sequence[Integers]) -> list[Integers]:
    """For every note of every query the length of the longest passage from it on that is in the corpus.

    Args:
        queries: Steps of lines.
        corpus: Steps of lines, which no passage leaves.

    Returns:
        Notes of passages, `(steps + 1,)` for each query; 1 where it is the note alone.
    """
    rows = [*corpus, *queries]
    sizes = np.array([len(row) for row in rows], np.int64)
    text, ends = np.concatenate(rows), np.cumsum(sizes)
    room = np.repeat(ends, sizes) - np.arange(len(text))  # steps from each on to the end of its line
    border = int(sizes[: len(corpus)].sum())
    shared = _shared_steps(_number_windows(text, room, border), room, border)
    own = np.split(shared, ends[len(corpus) : -1] - border)
    return [np.append(steps, 0) + 1 for steps in own]  # the last note begins no step


def covered(passages: Integers, shortest: int) -> NDArray[np.bool_]:
    """Which notes are in a passage of at least so many, `(notes,)`.

    Args:
        passages: The longest from each note on, as `search` gives them.
        shortest: Notes that a passage needs.
    """
    begins = np.flatnonzero(passages >= shortest)
    depth = np.zeros(len(passages) + 1, np.int64)
    np.add.at(depth, begins, 1)
    np.add.at(depth, begins + passages[begins], -1)
    return np.cumsum(depth[:-1]) > 0


class Text:
    """Lines of a corpus as one row of bytes, in which the first occurrence of a passage is found."""

    def __init__(self, corpus: Sequence[Integers]) -> None:
        self._bytes = b"".join(row.astype("<u2").tobytes() + _BETWEEN for row in corpus)
        self._starts = np.cumsum([0, *(len(row) + 1 for row in corpus)])

    def first(self, passage: Integers) -> tuple[int, int]:
        """The number of the first line that has these steps, and where in it they begin.

        Raises:
            ValueError: None has them.
        """
        pattern = passage.astype("<u2").tobytes()
        place = self._bytes.index(pattern)
        while place % 2:  # half of one step and half of the next
            place = self._bytes.index(pattern, place + 1)
        line = int(np.searchsorted(self._starts, place // 2, side="right")) - 1
        return line, place // 2 - int(self._starts[line])


def _number_windows(text: Integers, room: Integers, border: int) -> list[Ranks]:
    """Numbers of the windows of 1, 2, 4 ... steps from each place on, as long as the corpus has one of the queries'.

    Windows that reach beyond the end of their line are shorter ones, and come before those that go on. Numbers are in
    the order of windows.
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
    """For each value, how many smaller ones there are among the different ones."""
    if values.max(initial=0) >= SMALL:
        return np.unique(values, return_inverse=True)[1].astype(np.int32)
    occurs = np.zeros(int(values.max(initial=0)) + 1, np.bool_)  # so few can be ticked off, which is faster
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
