"""Any MIDI file as the beginning of a piece, read safely.

A prompt that was moved onto the grid or lost its drums is still a prompt, and a report says what happened. Only a file
that leaves nothing to continue is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.files import kind_of
from musicgen.languages.grid import TokenError, counted
from musicgen.languages.reading import bring_in
from musicgen.languages.vocabulary import Tokens
from musicgen.midi.pop909 import is_annotated, load_pop909
from musicgen.midi.read import parse_file
from musicgen.midi.score import Score
from musicgen.request import PromptReading
from musicgen.subprocess_call import SubprocessCall, SubprocessError


def load_file(path: str) -> Score:
    """Read a file, and the annotations if it is a song of POP909. Runs in a child process."""
    file = Path(path)
    return load_pop909(file) if is_annotated(file) else parse_file(file)


def load_prompt(source: Path | str | Score, reading: PromptReading) -> tuple[Score, str, str]:
    """A prompt; what to call it; and words for a report of what was done to it.

    Args:
        source: A MIDI file, or a score. For a song of POP909 the annotated beats and chords are read too.
        reading: How it is read.

    Raises:
        UserError: It cannot be read.
    """
    is_known = not isinstance(source, Score) and is_annotated(Path(source))
    score, name = (source, "the prompt") if isinstance(source, Score) else (_load(source), str(source))
    try:
        score, done = bring_in(score, reading, is_known, reading.prompt_tempo, reading.beats)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return score, name, ", ".join(done.values())


def report_of(name: str, *parts: str) -> str:
    """A report on a prompt; empty parts are left out."""
    return f"{name}: {'; '.join(part for part in parts if part)}"


def encode_bars(
    score: Score,
    bars: int,
    encode: Callable[[Score], tuple[Tokens, Any]],
    complete_bars: Callable[[Tokens], NDArray[np.int64]],
) -> tuple[Tokens, Any]:
    """The tokens of a piece up to some bar or later, and what quantising did to these bars.

    Args:
        score: The piece, which has at least so many bars.
        bars: How many bars.
        encode: The tokens of a piece, and a report of what quantising did to it.
        complete_bars: How many bars are complete after each token.
    """
    starts = np.unique(score.notes["start"])

    def first(size: int) -> tuple[Tokens, Any] | None:
        """The same for the notes that begin at the first of `starts`, if they are not too many."""
        try:
            found = encode(score.replace(notes=score.notes[score.notes["start"] <= starts[size - 1]]))
        except TokenError:  # these notes alone cannot be said
            return np.empty(0, np.uint16), ""
        return found if int(complete_bars(found[0])[-1]) <= bars else None

    low, high = 1, min(64, len(starts))
    while high < len(starts) and first(high) is not None:  # a short prompt of a long piece is found soon
        low, high = high, min(2 * high, len(starts))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first(middle) is not None else (low, middle - 1)
    tokens, quantisation = first(low) or encode(score)
    if not len(tokens) or int(complete_bars(tokens)[-1]) < bars:  # the last bars are rests
        tokens = encode(score)[0]
    return tokens, quantisation


def taken_bars(asked: int | None, available: int) -> tuple[int, str]:
    """How many bars of a prompt are taken (all by default), and a text that says so.

    Raises:
        UserError: No bar is taken.
    """
    if asked is not None and asked < 1:
        raise UserError(f"prompt_bars={asked}: takes 1 or more")
    taken = available if asked is None else min(asked, available)
    more = f" (prompt_bars={asked} is more than it has)" if asked is not None and asked > available else ""
    return taken, f"{taken:,} of {counted(available, 'bar')} taken{more}"


def _load(path: Path | str) -> Score:
    absolute = str(Path(path).absolute())
    if (kind := kind_of(Path(path))) != "file":
        raise UserError(f"{path}: {'not a file' if kind else 'there is no such file'}; give a MIDI file")
    child = SubprocessCall(load_file)
    try:
        score: Score = child(absolute)
    except SubprocessError as error:
        raise UserError(f"{path}: not a MIDI file that can be read (parsing it {error})") from None
    except UserError as error:
        raise UserError(str(error).replace(absolute, str(path))) from None
    finally:
        child.close()
    return score
