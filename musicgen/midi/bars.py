"""Bar lines of a piece, by number and by tick, while it grows."""

from __future__ import annotations

from bisect import bisect_right

from musicgen.midi.score import Score, TimeSignature
from musicgen.midi.write import signatures


class BarLines:
    """The bar lines of a score whose time signatures stand on bar lines. The last time signature holds forever.

    Args:
        score: The score, or its beginning.
    """

    def __init__(self, score: Score) -> None:
        self._resolution = score.ticks_per_beat
        self._signatures: list[TimeSignature] = []
        self._ticks: list[int] = []
        self._bars: list[int] = []
        for signature in signatures(score):
            self._append(signature)

    def add(self, part: Score) -> None:
        """Add the time signatures of a later part of the piece."""
        for signature in part.time_signatures:
            if signature.tick > self._ticks[-1]:
                self._append(signature)
            elif signature.tick == self._ticks[-1] and signature != self._signatures[-1]:
                del self._signatures[-1], self._ticks[-1], self._bars[-1]
                self._append(signature)

    def tick(self, bar: int) -> int:
        """The tick at which a bar begins, counted from 0."""
        place = bisect_right(self._bars, bar) - 1
        length = 4 * self._resolution * self._signatures[place].numerator
        return self._ticks[place] + (bar - self._bars[place]) * length // self._signatures[place].denominator

    def bar(self, tick: int) -> int:
        """The number of the bar that a tick is in."""
        place = bisect_right(self._ticks, tick) - 1
        signature, since = self._signatures[place], tick - self._ticks[place]
        # Lines are rounded down, so a tick is in a bar if the tick after it is beyond the exact line.
        return self._bars[place] + ((since + 1) * signature.denominator - 1) // (
            4 * self._resolution * signature.numerator
        )

    def _append(self, signature: TimeSignature) -> None:
        # A time signature inside a bar begins a new one.
        self._bars.append(self.bar(signature.tick - 1) + 1 if self._signatures and signature.tick else 0)
        self._signatures.append(signature)
        self._ticks.append(signature.tick)
