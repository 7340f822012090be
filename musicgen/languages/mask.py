"""What may come next in one piece: the contract between a token language under constraints and the sampler.

Design note: a mask looks ahead. A mask that only forbids what is wrong now can lead to a place where everything is
wrong. These masks leave only tokens after which the piece can still be finished as requested. So the sampler never
meets an empty mask and never has to go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.languages.constraints import LENGTHS, MUSICAL, Constraints
from musicgen.languages.grammar import C, Grammar

if TYPE_CHECKING:
    from musicgen.languages.language import Language

Mask = NDArray[np.bool_]
Bias = NDArray[np.float64]


class ConstraintMask(Protocol):
    """Follows one piece token by token."""

    @property
    def is_complete(self) -> bool:
        """Whether the piece has ended."""

    @property
    def bars(self) -> int:
        """Bars that are complete."""

    @property
    def is_given(self) -> bool:
        """Whether the next token is known and not chosen."""

    def mask(self) -> Mask:
        """Whether each token may follow, shape (vocabulary,). At least one may."""

    def bias(self) -> Bias | None:
        """What is added to logits before a token is chosen, shape (vocabulary,); None for nothing."""

    def advance(self, token: int) -> None:
        """Add a token to the piece."""


class PieceMask(Generic[C]):
    """A piece and its place in the grammar: what masks share."""

    def __init__(self, grammar: Grammar[C], constraints: Constraints) -> None:
        self._ids = {family: slice(ids.start, ids.stop) for family, ids in grammar.vocabulary.ids.items()}
        self._constraints, self._state, self._length = constraints, grammar.start(), 0

    @property
    def is_complete(self) -> bool:
        """Whether the piece has ended."""
        return self._state.is_complete

    @property
    def bars(self) -> int:
        """Complete bars, even if some tokens make no sense."""
        return self._state.counters.bars

    @property
    def is_given(self) -> bool:
        """No token is: only fills begin with some that are."""
        return False

    def bias(self) -> Bias | None:
        """Nothing: a language may lean towards some tokens."""
        return None

    def advance(self, token: int) -> None:
        """Add a token to the piece."""
        self._state.advance(token)
        self._length += 1

    @property
    def _has_enough_tokens(self) -> bool:
        return self._constraints.tokens is not None and self._length >= self._constraints.tokens

    def _only(self, mask: Mask, family: str) -> Mask:
        """The part of a mask that belongs to a family."""
        kept = np.zeros_like(mask)
        kept[self._ids[family]] = mask[self._ids[family]]
        return kept

    def _refuse_length(self, given: str, bars: int, more: str = "") -> NoReturn:
        name = next(name for name in LENGTHS if getattr(self._constraints, name) is not None)
        length = f"{name}={getattr(self._constraints, name):g}"
        raise UserError(f"{length}: no longer than {given} ({bars} bars, {self._length} tokens){more}")


class FreeMask(PieceMask[Any]):
    """Free sampling, as in the paper: every meaningful token may follow, and grammar errors are counted later.

    Raises:
        UserError: The beginning is already as long as the requested piece.
    """

    def __init__(self, language: Language, constraints: Constraints, tokens: Sequence[int]) -> None:
        super().__init__(language.grammar, constraints)
        self._mask = ~np.isin(np.arange(len(language.vocabulary)), language.meaningless)
        self._end, self._ended = language.end, False
        for token in tokens:
            self.advance(token)
        if self.is_complete or self._is_long_enough:
            self._refuse_length("what is given", self.bars)

    @property
    def is_complete(self) -> bool:
        """Whether the model ended the piece, or it is long enough."""
        return self._ended or self._is_long_enough

    @property
    def _is_long_enough(self) -> bool:
        bars = self._constraints.bars
        return (bars is not None and self.bars >= bars) or self._has_enough_tokens

    def mask(self) -> Mask:
        """All tokens that mean something."""
        return self._mask

    def advance(self, token: int) -> None:
        """Add a token to the piece."""
        super().advance(token)
        self._ended |= token == self._end


class GrammarMask(FreeMask):
    """The grammar and a length, which every language can keep.

    The piece ends as soon as the grammar allows it after the requested length, and not before.

    Raises:
        UserError: Other constraints are given, or the beginning is already as long as the requested piece.
    """

    def __init__(self, language: Language, constraints: Constraints, tokens: Sequence[int]) -> None:
        asked = [name for name in (*MUSICAL, "seconds") if getattr(constraints, name) is not None]
        if asked:
            raise UserError(f"{asked[0]}=: models of {language.name} tokens take only bars= and tokens=")
        super().__init__(language, constraints, tokens)

    @property
    def is_complete(self) -> bool:
        """Whether the piece has ended."""
        return self._state.is_complete

    def mask(self) -> Mask:
        """Whether each token may follow, shape (vocabulary,)."""
        mask = self._state.mask()
        if not mask[self._end]:
            return mask
        if self._is_long_enough:
            return np.arange(len(mask)) == self._end
        mask[self._end] = not np.delete(mask, self._end).any()
        return mask
