"""The music of a piece while it is written, as it becomes certain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from musicgen.midi.bars import BarLines
from musicgen.midi.score import Score
from musicgen.sampling.in_progress import PieceInProgress
from musicgen.sampling.sampler import Step

FOREVER = 1 << 40


class LiveDecoder:
    """Decodes a piece in progress, bar line by bar line, even if the way it sounds changes.

    Attributes:
        lines: The bar lines of the piece so far.
    """

    def __init__(self, piece: PieceInProgress) -> None:
        self._piece, self._rendering, self._decoder = piece, piece.rendering, piece.rendering.decoder()
        self._rest: list[Score] = []
        self._fed = self._until = 0
        self.lines = BarLines(piece.rendering.decode([]))

    def feed(self) -> tuple[Score, int]:
        """What begins before the tick up to which everything is known, and that tick. Call it at bar lines."""
        piece = self._piece
        if piece.rendering is not self._rendering:  # decodes everything again, and skips what was returned before
            self._rendering, self._decoder = piece.rendering, piece.rendering.decoder()
            self._rest, self._fed = [], 0
        part, until = self._decoder.feed(piece.tokens[self._fed :])
        self.lines.add(part)
        if piece.at_bar_line:  # a tempo may still change there, even if time has passed it
            until = min(until, self.lines.tick(piece.bars))
        parts, since = [*self._rest, part], self._until
        self._rest, self._fed, self._until = [between(parts, until, FOREVER)], len(piece.tokens), until
        return between(parts, since, until), until

    def close(self) -> Score:
        """What is left at the end of the piece."""
        part = self._decoder.close()
        self.lines.add(part)
        return between([*self._rest, part], self._until, FOREVER)


class BarStream:
    """The bars of a piece in progress, each when all its notes are known.

    Args:
        piece: The piece.
        first: The first bar to return.
    """

    def __init__(self, piece: PieceInProgress, first: int = 0) -> None:
        self._piece, self._decoder, self._bar = piece, LiveDecoder(piece), first
        self._known: list[Score] = []

    @property
    def lines(self) -> BarLines:
        """The bar lines of the piece so far."""
        return self._decoder.lines

    def feed(self, is_last: bool) -> Iterator[Score]:
        """The bars that have become known. Call it at bar lines and at the end."""
        lines = self.lines
        part, until = self._decoder.feed()
        known = [*self._known, part]
        if is_last:
            known.append(self._decoder.close())
            last = max(int(part.notes["start"].max(initial=0)) for part in known)
            until = lines.tick(max(self._piece.bars, lines.bar(last) + 1))
        while lines.tick(self._bar + 1) <= until:
            yield between(known, lines.tick(self._bar), lines.tick(self._bar + 1))
            self._bar += 1
        self._known = [between(known, lines.tick(self._bar), FOREVER)]


def bar_by_bar(steps: Iterable[Step], first: int) -> Iterator[Score]:
    """The bars of one piece from its tokens as they come, from a given bar on, each when all its notes are known."""
    stream: BarStream | None = None
    for piece, _, is_last in steps:
        stream = stream or BarStream(piece, first)
        if piece.at_bar_line or is_last:
            yield from stream.feed(is_last)


def between(parts: Sequence[Score], start: int, end: int) -> Score:
    """What begins between two ticks, and the time signature that holds there."""
    notes = np.concatenate([part.notes for part in parts])
    tempos = np.concatenate([part.tempos for part in parts])
    metres = {item.tick: item for part in parts for item in part.time_signatures}
    held = max((tick for tick in metres if tick <= start), default=start)
    return parts[0].replace(
        time_signatures=tuple(metres[tick] for tick in sorted(metres) if held <= tick < max(end, held + 1)),
        notes=notes[(notes["start"] >= start) & (notes["start"] < end)],
        tempos=tempos[(tempos["tick"] >= start) & (tempos["tick"] < end)],
        chords=tuple(mark for part in parts for mark in part.chords if start <= mark.tick < end),
    )
