"""What happens to every file before a language sees it, whether it is a prompt or part of a corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from musicgen.errors import UserError
from musicgen.languages.grid import counted
from musicgen.midi.pedal import hold
from musicgen.midi.performance import follow_beats, follow_file, is_on_grid
from musicgen.midi.score import Score
from musicgen.request import Reading

DONE = {"beat": "live playing, put on the beat that was found in it", "pedal": "notes held by the pedal"}
"""What may be done to a file: a short name, and words for it."""
UNCLEAR = "unclear beat"
"""The name of what is done to a prompt that has hardly a beat. Corpora leave such files out."""
HELP = "prompt_tempo= or beats= says it better, and grid=file takes the grid of the file"


def bring_in(
    score: Score,
    reading: Reading,
    is_annotated: bool = False,
    tempo: float | None = None,
    beats: Path | None = None,
) -> tuple[Score, dict[str, str]]:
    """The music of a file as languages take it, and what was done to it.

    Args:
        score: The file.
        reading: The user's options.
        is_annotated: Whether it is a song of a data set that other work uses as it is: on its annotated beats, and
            without its pedal.
        tempo: The tempo of live playing, if the user gives it.
        beats: A file of beats, if the user gives one.

    Returns:
        The music, and a text for each thing that was done, by its name in `DONE`.

    Raises:
        UserError: It is live playing, and no beat is found.
    """
    done = dict[str, str]()
    if reading.pedal or (reading.pedal is None and not is_annotated):
        score, held = hold(score)
        if held.notes:
            done["pedal"] = f"{counted(held.notes, 'note')} of the file held by the pedal"
    if reading.grid == "file" and (tempo or beats):
        raise UserError(f"grid=file and {'prompt_tempo' if tempo else 'beats'}=: leave out one of them")
    if beats is not None:
        score = follow_file(score, beats)
        done["beat"] = f"live playing, put on the beats of {beats} ({_tempo(score)})"
    elif tempo is not None or (reading.grid == "auto" and not is_annotated and not is_on_grid(score)):
        found = follow_beats(score, tempo)
        if found is None:
            raise UserError("live playing in which no beat is found (grid=file takes the grid of the file)")
        score, is_clear = found
        if is_clear:
            done["beat"] = f"live playing, put on the beat that was found in it ({_tempo(score)})"
        else:
            done[UNCLEAR] = f"live playing without a clear beat, put on the likeliest one ({_tempo(score)}); {HELP}"
    return score, done


def _tempo(score: Score) -> str:
    """The tempo and the metre of a performance on its grid, in words."""
    metre = score.time_signatures[0]
    return f"{np.median(score.tempos['bpm']):.0f} beats per minute, in {metre.numerator}/{metre.denominator}"
