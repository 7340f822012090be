"""Music beside its tokens: what is read from a file, and the nearest that tokens can express."""

from __future__ import annotations

from typing import NamedTuple

from musicgen.languages.language import Language
from musicgen.languages.prompt import load_prompt
from musicgen.midi.score import Score
from musicgen.request import PromptReading


class Comparison(NamedTuple):
    """A piece before and after quantising.

    Attributes:
        before: What tokens take of it, as it is read: with the pedal, and on the beat that was found in live playing.
        after: The nearest music that tokens can express, in the same bars.
        report: What quantising did, and what was left out.
    """

    before: Score
    after: Score
    report: str


def compare(language: Language, source: Score) -> Comparison:
    """A piece beside its tokens.

    Raises:
        UserError: Tokens cannot express it; the message says why.
    """
    report = language.read_prompt(source, None).report
    score = language.complete(load_prompt(source, PromptReading())[0])
    return Comparison(language.unquantised(score), language.quantise(score), report)
