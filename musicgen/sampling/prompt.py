"""Any MIDI file as the beginning of a piece: read safely, and in 4/4 if that can be said of it.

The hard choice: what a prompt lost on its way into tokens is part of the answer. A prompt that was moved onto the grid
or lost its drums is still a prompt, and a report says so; only what leaves nothing to go on from is refused.
"""

from __future__ import annotations

from pathlib import Path

from musicgen.data.layouts import load_file
from musicgen.errors import UserError
from musicgen.guard import Guarded, GuardError
from musicgen.midi.score import Score, TimeSignature

SECONDS = 60.0
"""For reading a file. The longest song that anybody plays takes less than one."""


def load_prompt(source: Path | str | Score) -> tuple[Score, str, str]:
    """A prompt in 4/4 if it can be, what to call it, and words to add to a report if its metre was read as another.

    Args:
        source: A MIDI file, or a score. Of a song of POP909 the annotated beats and chords beside it are read too.

    Raises:
        UserError: It cannot be read.
    """
    if isinstance(source, Score):
        score, metre = _in_common_time(source)
        return score, "the prompt", metre
    score, metre = _in_common_time(_load(source))
    return score, str(source), metre


def taken_bars(asked: int | None, available: int) -> tuple[int, str]:
    """How many bars of a prompt are taken, all if nothing is asked for, and words that say so.

    Raises:
        UserError: It is none.
    """
    if asked is not None and asked < 1:
        raise UserError(f"prompt_bars={asked}: takes 1 or more")
    taken = available if asked is None else min(asked, available)
    more = f" (prompt_bars={asked} is more than it has)" if asked is not None and asked > available else ""
    return taken, f"{taken} of {available} bars taken{more}"


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
