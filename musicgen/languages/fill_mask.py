"""What masks of fills share: the lead of a fill is given, and what follows it is free."""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from musicgen.languages.constraints import Constraints
from musicgen.languages.grammar import C, Grammar
from musicgen.languages.infill import LEADS
from musicgen.languages.mask import Mask, PieceMask


class FillMask(PieceMask[C], abc.ABC):
    """Follows one sequence with gaps.

    Args:
        grammar: The grammar of the language with gaps.
        constraints: What new music must keep to.
        setting: The setting of the prompt, with the leads of its fills.
    """

    def __init__(self, grammar: Grammar[C], constraints: Constraints, setting: Mapping[str, Any]) -> None:
        super().__init__(grammar, constraints)
        self._leads: deque[tuple[int, Sequence[int]]] = deque(setting.get(LEADS, ()))
        self._lead_bars, self._given = 0, deque[int]()

    @property
    def bars(self) -> int:
        """Bars of a fill are not counted: it is complete as a whole."""
        return 0

    @property
    def is_given(self) -> bool:
        """Whether the next token is one of a lead."""
        return bool(self._given)

    def advance(self, token: int) -> None:
        """Add a token to the sequence."""
        super().advance(token)
        if token == self._ids["Fill"].start:
            self._lead_bars, given = self._leads.popleft() if self._leads else (0, ())
            self._given = deque(given)
        elif self._given:
            self._given.popleft()
        else:
            return
        if not self._given:
            self._begin_gap()

    def mask(self) -> Mask:
        """Whether each token may follow, shape (vocabulary,)."""
        if not self._given:
            return self._free_mask()
        mask = np.zeros_like(self._state.mask())
        mask[self._given[0]] = True
        return mask

    @abc.abstractmethod
    def _begin_gap(self) -> None:
        """The lead of a fill is complete: what comes now is new."""

    @abc.abstractmethod
    def _free_mask(self) -> Mask:
        """Whether each token may follow where nothing is given, shape (vocabulary,)."""
