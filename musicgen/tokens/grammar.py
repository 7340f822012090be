"""A grammar as one table, from which come the sampler's mask, the validator, the error rate and the diagram.

The hard choice: a state is where we are in the table *and* counters (the beat, the notes that sound), because no
finite table says "later than the last beat". A rule names a condition; a condition is one function of the counters
and of values, and answers for one value as well as for an array of all values of a family. So the mask and the
validator cannot disagree: they call the same function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from musicgen.tokens.vocabulary import Vocabulary


class Counters(Protocol):
    """What a grammar remembers of a piece besides the state."""

    def update(self, family: str, value: int) -> None:
        """Take note of a token."""


C = TypeVar("C", bound=Counters)


class Rule(NamedTuple):
    """In `state`, a token of `family` may follow if `condition` holds (always, if it is empty); `then` is next."""

    state: str
    family: str
    then: str
    condition: str = ""


@dataclass(frozen=True)
class GrammarError:
    """A token that may not stand where it stands, or a piece that does not end.

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
        rules: The table. The first rule's state is the start. All rules of a family lead to one state, so that
            a validator knows where it is after a token that should not have been there.
        conditions: Name to a function of counters and of a value (or an array of values) of the rule's family.
        start: Makes the counters of a piece that has not begun.
        end: The state of a complete piece.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        rules: Sequence[Rule],
        conditions: Mapping[str, Callable[[C, Any], Any]],
        start: Callable[[], C],
        end: str,
    ) -> None:
        self.vocabulary, self.rules, self.conditions, self.end = vocabulary, tuple(rules), dict(conditions), end
        self._start = start
        self.after = {rule.family: rule.then for rule in rules}
        if any(self.after[rule.family] != rule.then for rule in rules):
            raise ValueError("every rule of a family must lead to the same state")
        states = dict.fromkeys([*(rule.state for rule in rules), end])
        self.table = {state: {rule.family: rule for rule in rules if rule.state == state} for state in states}
        self.values = {family: np.arange(len(ids)) for family, ids in vocabulary.ids.items()}
        names = np.array(vocabulary.families)[vocabulary.family]
        self.meaning = list(zip(names.tolist(), vocabulary.value.tolist(), strict=True))

    def start(self) -> GrammarState[C]:
        """The state before the first token of a piece."""
        return GrammarState(self, self.rules[0].state, self._start())

    def errors(self, tokens: Iterable[Any], complete: bool = True) -> list[GrammarError]:
        """All that is wrong with a piece; nothing, if the grammar accepts it.

        Args:
            tokens: Ids.
            complete: Whether the piece must have ended.
        """
        state, errors, place = self.start(), [], -1
        for place, token in enumerate(np.asarray(tokens).tolist()):
            before = state.name
            if not state.advance(token):
                name = self.vocabulary.names[token] if 0 <= token < len(self.vocabulary) else f"id {token}"
                errors.append(GrammarError(place, f"{name} may not follow there (after {before!r})"))
        if complete and state.name != self.end:
            errors.append(GrammarError(place + 1, "the piece does not end"))
        return errors

    def error_rate(self, tokens: Sequence[Any] | NDArray[Any]) -> float:
        """The part of tokens that may not stand where they stand."""
        return len(self.errors(tokens, complete=False)) / max(len(tokens), 1)

    def diagram(self) -> str:
        """The table as a state diagram in Mermaid's language, which code hosts draw."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.rules[0].state}"]
        for rule in self.rules:
            note = f" ({rule.condition})" if rule.condition else ""
            lines.append(f"    {rule.state} --> {rule.then}: {rule.family}{note}")
        return "\n".join([*lines, f"    {self.end} --> [*]"])


class GrammarState(Generic[C]):
    """Where a piece is in its grammar. `advance` changes it; `copy` it to go two ways.

    Attributes:
        name: The state in the table.
        counters: What else is remembered.
    """

    def __init__(self, grammar: Grammar[C], name: str, counters: C) -> None:
        self.grammar, self.name, self.counters = grammar, name, counters

    @property
    def is_complete(self) -> bool:
        """Whether the piece has ended."""
        return self.name == self.grammar.end

    def copy(self) -> GrammarState[C]:
        """A state of its own, equal to this one."""
        return GrammarState(self.grammar, self.name, copy.deepcopy(self.counters))

    def mask(self) -> NDArray[np.bool_]:
        """Whether each token may follow, shape (vocabulary,). Until the piece has ended, there is one."""
        grammar = self.grammar
        mask = np.zeros(len(grammar.vocabulary), np.bool_)
        for family, rule in grammar.table[self.name].items():
            ids = grammar.vocabulary.ids[family]
            allowed = (
                grammar.conditions[rule.condition](self.counters, grammar.values[family]) if rule.condition else True
            )
            mask[ids.start : ids.stop] = allowed
        return mask

    def admits(self, token: int) -> bool:
        """Whether a token may follow."""
        if not 0 <= token < len(self.grammar.meaning):
            return False
        family, value = self.grammar.meaning[token]
        rule = self.grammar.table[self.name].get(family)
        if rule is None:
            return False
        return not rule.condition or bool(self.grammar.conditions[rule.condition](self.counters, value))

    def advance(self, token: int) -> bool:
        """Go on by a token, and say whether it may follow; where it may not, go on as if it might."""
        admitted = self.admits(token)
        if 0 <= token < len(self.grammar.meaning):
            family, value = self.grammar.meaning[token]
            self.name = self.grammar.after[family]
            self.counters.update(family, value)
        return admitted
