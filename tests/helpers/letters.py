"""A toy token language: melodies of sixteenths in 4/4, a token for each. What a new language needs, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.languages import Encoded, Grammar, Language, TokenError, Vocabulary
from musicgen.languages.grid import check_metre, nearest
from musicgen.midi.score import Score, TimeSignature, make_notes

STEPS = 16
"""Steps in a bar."""
PITCHES = range(48, 84)
VOCABULARY = Vocabulary({"Begin": [""], "End": [""], "Rest": [""], "Note": [str(pitch) for pitch in PITCHES]})
BEGIN, END, NOTE = VOCABULARY["Begin"], VOCABULARY["End"], VOCABULARY.first("Note")


@dataclass
class Place:
    """Where in a piece we are."""

    steps: int = 0

    @property
    def bars(self) -> int:
        """Bars that are complete."""
        return self.steps // STEPS

    def update(self, family: str, value: int) -> None:  # noqa: ARG002
        """Add a token to the piece."""
        self.steps += family in ("Rest", "Note")


@dataclass(frozen=True)
class Report:
    """What quantising did."""

    notes: int
    dropped: int


class Beats:
    """The time of a piece, token by token."""

    def __init__(self) -> None:
        self._steps = 0

    def advance(self, token: int) -> float:
        """The time after a token, in beats."""
        self._steps += token > END
        return self._steps / 4


class Letters(Language):
    """The language: `Begin`, a `Rest` or a `Note` for each sixteenth, `End` at a bar line."""

    name = source = "letters"
    title = "melodies"
    vocabulary, first, end, meaningless = VOCABULARY, BEGIN, END, (BEGIN,)
    note_family = "Note"

    @cached_property
    def grammar(self) -> Grammar[Place]:
        """A piece is whole bars."""
        table = {"start": {"Begin": ""}, "going": {"Rest": "", "Note": "", "End": "at a bar line"}}
        after = {"Begin": "going", "Rest": "going", "Note": "going", "End": "ended"}
        return Grammar(VOCABULARY, table, after, {"at a bar line": _at_a_bar_line}, Place, "ended")

    def encode(self, score: Score) -> Encoded:
        """The highest note that begins at each sixteenth."""
        check_metre(score)
        notes = score.notes[np.isin(score.notes["pitch"], PITCHES)]
        if not len(notes):
            raise TokenError("no notes that letters can express")
        step = nearest(notes["start"], score.ticks_per_beat, 4)
        top = np.full((step.max() // STEPS + 1) * STEPS, NOTE - 1)
        np.maximum.at(top, step, NOTE + notes["pitch"] - PITCHES[0])
        tokens = np.concatenate([[BEGIN], top, [END]]).astype(np.uint16)
        return Encoded(tokens, Report(len(score.notes), len(score.notes) - int((top >= NOTE).sum())))

    def decode(self, tokens: NDArray[Any] | Sequence[int]) -> Score:
        """A melody of sixteenths."""
        ids = np.asarray(tokens, np.int64)
        ids = ids[ids > END]
        step = np.flatnonzero(ids >= NOTE)
        notes = make_notes(120 * step, 120 * (step + 1), PITCHES[0] + ids[step] - NOTE, 64)
        return Score(480, notes, time_signatures=(TimeSignature(0, 4, 4),))

    def complete_bars(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        """Every sixteenth token completes a bar."""
        bars: NDArray[np.int64] = np.cumsum(np.asarray(tokens) > END) // STEPS
        return bars

    def clock(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """The time after each token, in beats."""
        time: NDArray[np.float64] = np.cumsum(np.asarray(tokens) > END) / 4
        return time

    def start_clock(self) -> Beats:
        """The same, token by token."""
        return Beats()


def _at_a_bar_line(place: Place, _: Any) -> bool:
    return place.steps > 0 and place.steps % STEPS == 0
