"""Any MIDI file as the beginning of a piece: its first bars, in the nearest tokens.

The hard choice: what a prompt lost on its way into tokens is part of the answer. A prompt that was moved onto the grid
or lost its drums is still a prompt, and the report says so; only what leaves nothing to go on from is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from musicgen.data.layouts import load_file
from musicgen.errors import UserError
from musicgen.guard import Guarded, GuardError
from musicgen.midi.harmony import find_chords
from musicgen.midi.score import Score, TimeSignature
from musicgen.tokens import Remi
from musicgen.tokens.quantise import TokenError

SECONDS = 60.0
"""For reading a file. The longest song that anybody plays takes less than one."""


class Prompt(NamedTuple):
    """A prompt in tokens.

    Attributes:
        tokens: Its own, and the `Bar` that follows.
        bars: How many bars it has.
        report: What was read, and what putting it in tokens did to it.
    """

    tokens: Sequence[int]
    bars: int
    report: str


def read_prompt(source: Path | str | Score, language: Remi, bars: int | None = None) -> Prompt:
    """Put the beginning of a piece in tokens.

    Args:
        source: A MIDI file, or a score. Of a song of POP909 the annotated beats and chords beside it are read too.
        language: Of the model that is to go on.
        bars: How many bars to take, from the first in which a note begins; all if None.

    Raises:
        UserError: It cannot be used, and why.
    """
    if bars is not None and bars < 1:
        raise UserError(f"prompt_bars={bars}: takes 1 or more")
    name = "the prompt" if isinstance(source, Score) else str(source)
    score, metre = _in_common_time(source if isinstance(source, Score) else _load(source))
    if not score.chords and len(score.notes):
        score = score.replace(chords=find_chords(score))
    try:
        tokens, quantisation = language.encode(score)
    except TokenError as error:
        raise UserError(f"{name}: cannot be a prompt for a model that speaks {language.name}: {error}") from None
    starts = language.bar_starts(tokens)
    available = len(starts) - 1  # the last bar line ends the piece
    taken = available if bars is None else min(bars, available)
    report = f"{name}: {quantisation}{metre}; {taken} of {available} bars taken"
    if bars is not None and bars > available:
        report += f" (prompt_bars={bars} is more than it has)"
    return Prompt(np.asarray(tokens[: starts[taken] + 1], np.int64).tolist(), taken, report)


def _load(path: Path | str) -> Score:
    whole = str(Path(path).absolute())
    child = Guarded(load_file, SECONDS)
    try:
        score: Score = child(whole)
    except GuardError as error:
        raise UserError(f"{path}: not a MIDI file that can be read (parsing it {error})") from None
    except UserError as error:
        raise UserError(str(error).replace(whole, str(path))) from None
    finally:
        child.close()
    return score


def _in_common_time(score: Score) -> tuple[Score, str]:
    """A piece whose bars of one metre fit into those of 4/4 (1/4, 2/4, 2/2 ...) in 4/4, and words that say so."""
    metres = {(item.numerator, item.denominator) for item in score.time_signatures}
    if len(metres) != 1 or metres == {(4, 4)}:
        return score, ""
    ((numerator, denominator),) = metres
    if numerator < 1 or denominator % numerator:
        return score, ""
    start = score.time_signatures[0].tick
    return score.replace(time_signatures=(TimeSignature(start, 4, 4),)), f", {numerator}/{denominator} read as 4/4"
