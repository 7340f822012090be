"""Token languages: one folder each, one contract (`Language`), one registry.

    languages/remi      pop piano as bars, positions, chords and notes
    languages/groove    bass, drums and one other instrument as events in time

Languages share the other files: vocabularies, grammars, constraints, masks, prompts, splits.
"""

from musicgen.languages.grammar import Grammar, GrammarError, GrammarState
from musicgen.languages.grid import TokenError
from musicgen.languages.groove.codec import GrooveReport
from musicgen.languages.groove.language import Groove
from musicgen.languages.groove.quantise import TrioQuantisation, quantise_trio
from musicgen.languages.language import Encoded, Language
from musicgen.languages.remi.extended import ExtendedRemi
from musicgen.languages.remi.language import Remi
from musicgen.languages.remi.quantise import Quantisation, quantise
from musicgen.languages.vocabulary import Tokens, Vocabulary

__all__ = [
    "Encoded",
    "ExtendedRemi",
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
