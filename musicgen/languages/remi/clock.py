"""The musical time of REMI tokens, and the windows of a song in which a metre that was said before is said again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.remi.codec import lay_out
from musicgen.languages.remi.tokens import TokenSet


def clock(ids: Sequence[int] | NDArray[Any], tokens: TokenSet) -> NDArray[np.float64]:
    """The time after each token, in quarter notes: the bar, and the position that was named last in it."""
    ids = np.asarray(ids, np.int64)
    layout, beats = lay_out(ids, tokens), tokens.vocabulary.ids["Beat"]
    offset = np.where((ids >= beats.start) & (ids < beats.stop), tokens.step * (ids - beats.start), 0)
    time = layout.start + np.where(offset < layout.length, offset, 0)
    return np.maximum.accumulate(time) / tokens.units


class RemiClock:
    """The time of a piece, token by token."""

    def __init__(self, tokens: TokenSet) -> None:
        words = tokens.vocabulary
        self._tokens, self._bar, self._beats = tokens, words["Bar"], words.ids["Beat"]
        self._metres = words.ids["Metre"] if tokens.has_metres else range(0)
        self._bars, self._start, self._length = 0, 0, tokens.bar_lengths[tokens.common]
        self._before, self._latest = -1, 0

    def advance(self, token: int) -> float:
        """The time after a token, in quarter notes."""
        if token == self._bar:
            self._start += self._length if self._bars else 0
            self._bars += 1
        elif token in self._metres and self._before == self._bar:
            self._length = self._tokens.bar_lengths[token - self._metres.start]
        offset = self._tokens.step * (token - self._beats.start) if token in self._beats else 0
        self._latest = max(self._latest, self._start + (offset if offset < self._length else 0))
        self._before = token
        return self._latest / self._tokens.units
