"""What may come next in one piece: the contract between a token language under constraints and the sampler.

The hard choice: a guide looks ahead. A mask that only forbids what is wrong now can lead to where everything is
wrong; a guide's masks leave only tokens after which the piece can still be finished as it was asked for, so the
sampler never meets an empty one, and never has to go back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.sampling.constraints import Constraints
from musicgen.tokens.language import Language


class Guide(Protocol):
    """Follows one piece token by token."""

    @property
    def is_complete(self) -> bool:
        """Whether the piece has ended."""

    @property
    def bars(self) -> int:
        """Bars that are complete."""

    def mask(self) -> NDArray[np.bool_]:
        """Whether each token may follow, shape (vocabulary,). There is always one that may."""

    def advance(self, token: int) -> None:
        """Take note of a token."""


class FreeGuide:
    """Free sampling, as in the paper: everything may follow but what means nothing, and mistakes are counted later.

    Args:
        language: The token language.
        constraints: A length.
        tokens: What the piece begins with.
        meaningless: Tokens that say nothing of music.
        bars: How many bars are complete, from the counters of the grammar.

    Raises:
        UserError: It is as long as it was to be already.
    """

    def __init__(
        self,
        language: Language,
        constraints: Constraints,
        tokens: Sequence[int],
        meaningless: Sequence[int],
        bars: Callable[[Any], int],
    ) -> None:
        self._end, self._constraints, self._bars = language.end, constraints, bars
        self._mask = ~np.isin(np.arange(len(language.vocabulary)), meaningless)
        self._state = language.grammar.start()
        self._length, self._ended = 0, False
        for token in tokens:
            self.advance(token)
        if self.is_complete:
            name = "bars" if constraints.bars is not None else "tokens"
            raise UserError(
                f"{name}={getattr(constraints, name)}: no longer than what is given "
                f"({self.bars} bars, {len(tokens)} tokens)"
            )

    @property
    def bars(self) -> int:
        """Bars that are complete, as far as the tokens can be understood."""
        return self._bars(self._state.counters)

    @property
    def is_complete(self) -> bool:
        """Whether the model ended the piece, or it is as long as it was to be."""
        bars, tokens = self._constraints.bars, self._constraints.tokens
        too_long = (bars is not None and self.bars >= bars) or (tokens is not None and self._length >= tokens)
        return self._ended or too_long

    def mask(self) -> NDArray[np.bool_]:
        """All tokens that mean something."""
        return self._mask

    def advance(self, token: int) -> None:
        """Take note of a token."""
        self._length += 1
        self._ended |= token == self._end
        self._state.advance(token)
