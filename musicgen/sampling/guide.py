"""What may come next in one piece: the contract between a token language under constraints and the sampler.

The hard choice: a guide looks ahead. A mask that only forbids what is wrong now can lead to where everything is
wrong; a guide's masks leave only tokens after which the piece can still be finished as it was asked for, so the
sampler never meets an empty one, and never has to go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from musicgen.sampling.constraints import Constraints
from musicgen.sampling.remi_guide import RemiGuide
from musicgen.tokens import Remi


class Guide(Protocol):
    """Follows one piece token by token."""

    @property
    def is_complete(self) -> bool:
        """Whether the piece has ended."""

    @property
    def bars(self) -> int:
        """Bars begun."""

    def mask(self) -> NDArray[np.bool_]:
        """Whether each token may follow, shape (vocabulary,). There is always one that may."""

    def advance(self, token: int) -> None:
        """Take note of a token."""


class FreeGuide:
    """Free sampling, as in the paper: everything but padding may follow, and mistakes are counted afterwards.

    Args:
        language: The token language.
        constraints: A length.
        tokens: What the piece begins with.
    """

    def __init__(self, language: Remi, constraints: Constraints, tokens: Sequence[int]) -> None:
        self._language, self._constraints = language, constraints
        self._mask = np.arange(len(language.vocabulary)) != language.pad
        self._bar = language.vocabulary["Bar"]
        self._length, self._ended, self.bars = 0, False, 0
        for token in tokens:
            self.advance(token)

    @property
    def is_complete(self) -> bool:
        """Whether the model ended the piece, or it is as long as it was to be."""
        bars, tokens = self._constraints.bars, self._constraints.tokens
        too_long = (bars is not None and self.bars > bars) or (tokens is not None and self._length >= tokens)
        return self._ended or too_long

    def mask(self) -> NDArray[np.bool_]:
        """All tokens but padding."""
        return self._mask

    def advance(self, token: int) -> None:
        """Take note of a token."""
        self._length += 1
        self._ended |= token == self._language.end
        self.bars += token == self._bar


def make_guide(language: Remi, constraints: Constraints, tokens: Sequence[int]) -> Guide:
    """The guide of a piece that begins with some tokens.

    Raises:
        UserError: The constraints cannot be kept.
    """
    return (RemiGuide if constraints.grammar else FreeGuide)(language, constraints, tokens)
