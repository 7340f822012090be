"""What every token language is: names for tokens, a grammar, and a way there and back.

The hard choice: only what all have in common is here. What to pad with, where bars begin and how to transpose differ,
and who needs them asks for the language that has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from musicgen.midi.score import Score
from musicgen.tokens.grammar import Grammar
from musicgen.tokens.groove_quantise import TrioQuantisation
from musicgen.tokens.quantise import Quantisation
from musicgen.tokens.vocabulary import Tokens, Vocabulary


class Encoded(NamedTuple):
    """A piece in tokens, and what quantising did to it."""

    tokens: Tokens
    quantisation: Quantisation | TrioQuantisation


class Language(Protocol):
    """A token language.

    Attributes:
        name: What `tokenizer.json` calls it.
        vocabulary: Its tokens.
        end: The id of the token that ends a piece.
    """

    name: str
    vocabulary: Vocabulary
    end: int

    @property
    def grammar(self) -> Grammar[Any]:
        """What may follow what."""

    def encode(self, score: Score) -> Encoded:
        """A piece in tokens.

        Raises:
            TokenError: The language cannot say it.
        """

    def decode(self, tokens: NDArray[Any] | Sequence[int]) -> Score:
        """The piece that tokens say; of tokens that no piece has, what can be understood."""
