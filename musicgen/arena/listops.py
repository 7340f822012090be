"""ListOps: nested lists of digits, such as `[MAX 4 [MIN 2 3 ] 0 ]`, whose value is the class.

The rules are those of the Long-Range Arena: a node is an operator with probability ¼ while it is above the greatest
depth, and a digit otherwise. An operator has 2 to N arguments. A closing bracket is a token of its own.

Design note: examples are numbers drawn one after the other from one seed, and duplicates are left out where they
appear. No order follows from a hash. The test set is drawn first, so it does not depend on the size of the others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from musicgen.errors import UserError

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
TOKENS = (*map(str, range(10)), *OPERATORS, "]")
"""All tokens; id 0 of a model is padding, so the id of each is its place plus 1."""
IDS = {token: place for place, token in enumerate(TOKENS)}
OPERATOR_SHARE = 0.25
_FIRST, _CLOSE = IDS[OPERATORS[0]], IDS["]"]
_PATIENCE = 100_000
"""Draws in a row without a new example after which the rules are considered to allow no more."""


def middle(values: list[int]) -> int:
    """The median; between two numbers it is rounded down."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) // 2


APPLY: tuple[Callable[[list[int]], int], ...] = (min, max, middle, lambda values: sum(values) % 10)
"""What each operator does."""


@dataclass(frozen=True)
class Rules:
    """Which expressions are drawn.

    Attributes:
        depth: Levels of an expression, those of its digits included.
        arguments: Most arguments of an operator.
        shortest: Fewest tokens.
        longest: Most tokens.
    """

    depth: int
    arguments: int
    shortest: int
    longest: int


RULES = {
    "listops": Rules(5, 10, 32, 255),
    "listops_tiny": Rules(4, 5, 16, 63),
    "listops_paper": Rules(10, 10, 501, 1999),
}


class _TooLongError(Exception):
    """An expression has more tokens than are allowed."""


def expressions(rules: Rules, seed: int) -> Iterator[tuple[bytes, int]]:
    """Different expressions, each as the places of its tokens in `TOKENS`, and its value.

    Raises:
        UserError: The rules allow no more expressions.
    """
    chance = random.Random(seed).random  # noqa: S311 - its numbers are the same in every version of Python
    seen: set[bytes] = set()
    in_vain = 0
    while in_vain < _PATIENCE:
        tokens = bytearray()
        try:
            value = _operator(chance, rules, 1, tokens)  # a digit alone is always too short
        except _TooLongError:
            continue
        whole = bytes(tokens)
        if len(whole) < rules.shortest or whole in seen:
            in_vain += 1
            continue
        seen.add(whole)
        in_vain = 0
        yield whole, value
    raise UserError(f"ListOps: there are no more than {len(seen):,} different expressions; ask for fewer examples")


def _operator(chance: Callable[[], float], rules: Rules, depth: int, tokens: bytearray) -> int:
    """Write an operator with its arguments, and return its value."""
    if len(tokens) + 2 > rules.longest:
        raise _TooLongError
    kind = int(4 * chance())
    tokens.append(_FIRST + kind)
    values = []
    for _ in range(2 + int((rules.arguments - 1) * chance())):
        if depth + 1 < rules.depth and chance() < OPERATOR_SHARE:
            values.append(_operator(chance, rules, depth + 1, tokens))
        else:
            digit = int(10 * chance())
            tokens.append(digit)
            values.append(digit)
    tokens.append(_CLOSE)
    if len(tokens) > rules.longest:
        raise _TooLongError
    return APPLY[kind](values)


def parse(text: str) -> bytes:
    """The tokens of a written expression; the round brackets of the published files mean nothing.

    Raises:
        ValueError: A word is no token.
    """
    words = [word for word in text.split() if word not in ("(", ")")]
    unknown = [word for word in words if word not in IDS]
    if unknown or not words:
        raise ValueError(f"{unknown[0]!r} is no token of ListOps" if words else "there is no expression")
    return bytes(IDS[word] for word in words)


def written(tokens: bytes) -> str:
    """An expression as text."""
    return " ".join(TOKENS[token] for token in tokens)


def value(tokens: bytes) -> int:
    """The value of an expression.

    Raises:
        ValueError: It is not a whole expression.
    """
    stack: list[tuple[int, list[int]]] = [(-1, [])]
    for token in tokens:
        if token < _FIRST:
            stack[-1][1].append(token)
        elif token < _CLOSE:
            stack.append((token - _FIRST, []))
        else:
            kind, values = stack.pop()
            if not stack or not values:
                raise ValueError("a bracket closes nothing")
            stack[-1][1].append(APPLY[kind](values))
    if len(stack) > 1 or len(stack[0][1]) != 1:
        raise ValueError("it is not one whole expression")
    return stack[0][1][0]


def top_level(tokens: bytes) -> tuple[int, list[int]]:
    """The operator at the root, as a number from 0 to 3, and the digits that are its direct arguments."""
    digits, depth = [], 0
    for token in tokens:
        if token < _FIRST:
            if depth == 1:
                digits.append(token)
        else:
            depth += 1 if token < _CLOSE else -1
    return tokens[0] - _FIRST, digits
