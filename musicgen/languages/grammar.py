"""A grammar as one table. The sampler's mask, the validator, the error rate and the diagram all come from it.

Design note: a state is a place in the table *and* counters (the beat, the notes that sound), because no finite table
can say "later than the last beat". An entry of the table names a condition. A condition is one function of the counters
and of values; it answers for one value and for an array of all values of a family. So the mask and the validator cannot
disagree: they call the same function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.vocabulary import Vocabulary


class Counters(Protocol):
    """What a grammar remembers of a piece besides the state."""

    @property
    def bars(self) -> int:
        """Bars that are complete."""

    def update(self, family: str, value: int) -> None:
        """Add a token to the piece."""


C = TypeVar("C", bound=Counters)


@dataclass(frozen=True)
class GrammarError:
    """A token in a place where it may not be, or a piece that does not end.

    Attributes:
        place: The index of the token; the length of the piece if its end is missing.
        sentence: What is wrong.
    """

    place: int
    sentence: str


class Grammar(Generic[C]):
    """The rules of a token language.

    Args:
        vocabulary: Its tokens.
        table: For each state the families that may follow, each with the name of a condition ("" for always). The
            first state is the start.
        after: The state that a token of each family leads to, from any state. So a validator knows where it is after a
            wrong token.
        conditions: Functions by name. They take the counters and a value (or an array of values) of a family.
        start: Makes the counters of a piece that has not begun.
        end: The state of a complete piece.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        table: Mapping[str, Mapping[str, str]],
        after: Mapping[str, str],
        conditions: Mapping[str, Callable[[C, Any], Any]],
        start: Callable[[], C],
        end: str,
    ) -> None:
        self.vocabulary, self.after, self.conditions, self.end = vocabulary, after, conditions, end
        self.table = {**table, end: table.get(end, {})}
        self._start = start
        if set(after) != set(vocabulary.families) or not set(after.values()) <= set(self.table):
            raise ValueError("every family of the vocabulary must lead to a state of the table")
        self.values = {family: np.arange(len(ids)) for family, ids in vocabulary.ids.items()}
        names = np.array(vocabulary.families)[vocabulary.family]
        self.meaning = list(zip(names.tolist(), vocabulary.value.tolist(), strict=True))

    def start(self) -> GrammarState[C]:
        """The state before the first token of a piece."""
        return GrammarState(self, next(iter(self.table)), self._start())

    def errors(self, tokens: Iterable[Any], complete: bool = True) -> list[GrammarError]:
        """Everything that is wrong with a piece; an empty list if the grammar accepts it."""
        state, errors, place = self.start(), [], -1
        for place, token in enumerate(np.asarray(tokens).tolist()):
            before = state.name
            if not state.advance(token):
                name = self.vocabulary.names[token] if 0 <= token < len(self.vocabulary) else f"id {token}"
                errors.append(GrammarError(place, f"{name} may not follow there (after {before!r})"))
        if complete and state.name != self.end:
            errors.append(GrammarError(place + 1, "the piece does not end"))
        return errors

    def diagram(self) -> str:
        """The table as a Mermaid state diagram, which code hosts draw."""
        lines = ["stateDiagram-v2", f"    [*] --> {next(iter(self.table))}"]
        for state, choices in self.table.items():
            for family, condition in choices.items():
                note = f" ({condition})" if condition else ""
                lines.append(f"    {state} --> {self.after[family]}: {family}{note}")
        return "\n".join([*lines, f"    {self.end} --> [*]"])


class GrammarState(Generic[C]):
    """Where a piece is in its grammar. `advance` changes it; `copy` makes a second one.

    Attributes:
        name: The state in the table.
        counters: What else the grammar remembers.
    """

    def __init__(self, grammar: Grammar[C], name: str, counters: C) -> None:
        self.grammar, self.name, self.counters = grammar, name, counters

    @property
    def is_complete(self) -> bool:
        """Whether the piece has ended."""
        return self.name == self.grammar.end

    def copy(self) -> GrammarState[C]:
        """An independent state, equal to this one."""
        return GrammarState(self.grammar, self.name, copy.deepcopy(self.counters))

    def mask(self) -> NDArray[np.bool_]:
        """Whether each token may follow, shape (vocabulary,). At least one may until the piece has ended."""
        grammar = self.grammar
        mask = np.zeros(len(grammar.vocabulary), np.bool_)
        for family, condition in grammar.table[self.name].items():
            ids = grammar.vocabulary.ids[family]
            holds = grammar.conditions[condition](self.counters, grammar.values[family]) if condition else True
            mask[ids.start : ids.stop] = holds
        return mask

    def admits(self, token: int) -> bool:
        """Whether a token may follow."""
        if not 0 <= token < len(self.grammar.meaning):
            return False
        family, value = self.grammar.meaning[token]
        condition = self.grammar.table[self.name].get(family)
        if condition is None:
            return False
        return not condition or bool(self.grammar.conditions[condition](self.counters, value))

    def advance(self, token: int) -> bool:
        """Add a token and say whether it was allowed. A forbidden token is added too."""
        admitted = self.admits(token)
        if 0 <= token < len(self.grammar.meaning):
            family, value = self.grammar.meaning[token]
            self.name = self.grammar.after[family]
            self.counters.update(family, value)
        return admitted
