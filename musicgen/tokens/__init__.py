"""Token languages: vocabularies, encoding and decoding, and the grammar of each."""

from musicgen.tokens.grammar import Grammar, GrammarError, GrammarState
from musicgen.tokens.quantise import Quantisation, TokenError, quantise
from musicgen.tokens.remi import Encoded, Remi
from musicgen.tokens.vocabulary import Tokens, Vocabulary

__all__ = [
    "Encoded",
    "Grammar",
    "GrammarError",
    "GrammarState",
    "Quantisation",
    "Remi",
    "TokenError",
    "Tokens",
    "Vocabulary",
    "quantise",
]
