"""Token languages: vocabularies, encoding and decoding, and the grammar of each."""

from musicgen.tokens.grammar import Grammar, GrammarError, GrammarState
from musicgen.tokens.groove import Groove, GrooveReport
from musicgen.tokens.groove_quantise import TrioQuantisation, quantise_trio
from musicgen.tokens.language import Encoded, Language
from musicgen.tokens.quantise import Quantisation, TokenError, quantise
from musicgen.tokens.remi import Remi
from musicgen.tokens.vocabulary import Tokens, Vocabulary

__all__ = [
    "Encoded",
    "Grammar",
    "GrammarError",
    "GrammarState",
    "Groove",
    "GrooveReport",
    "Language",
    "Quantisation",
    "Remi",
    "TokenError",
    "Tokens",
    "TrioQuantisation",
    "Vocabulary",
    "quantise",
    "quantise_trio",
]
