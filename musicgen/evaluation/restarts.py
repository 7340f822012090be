"""Windows that begin anew: what a model makes of tokens if it forgets what is further back than it was trained on.

The hard choice: a restarted window begins as training windows do, or a model would be judged by how it begins and not
by what it remembers. Pop piano is trained on crops that begin with a `Bar`, so windows restart there. Grooves are
trained on pieces that begin with `BOS`, at a bar line, in which no note ends that did not begin: windows restart with a
`BOS` before the first note of a bar, where nothing sounds on if there is such a bar. Each window goes on for as long as
it may, to the last such place within the trained length.
"""

from __future__ import annotations

import itertools
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.evaluation.likelihood import Passage
from musicgen.sampling.groove_dialect import clock
from musicgen.sampling.groove_guide import BAR
from musicgen.tokens import Remi, Tokens
from musicgen.tokens.groove import Groove

Places = NDArray[np.int64]


class Window(NamedTuple):
    """A restarted window of a piece.

    Attributes:
        passage: What is read, and what is predicted.
        first: The number of its first target among those of the piece.
        begins: Where: as training windows do (`well`), at a bar line where notes sound on (`amid`), or inside a bar
            (`cut`), since no better place was in reach.
    """

    passage: Passage
    first: int
    begins: Literal["well", "amid", "cut"]


def restarted_windows(language: Remi | Groove, piece: Tokens, length: int, trained: int) -> list[Window]:
    """The windows of a piece, but for the first, which begins with the piece and so has nothing to forget.

    Together with it they predict each of the first targets once.

    Args:
        language: Of the tokens.
        piece: All of it.
        length: How many targets there are to be.
        trained: The most that a window may have.
    """
    places, stop = _places(language, piece), min(length + 1, len(piece))
    starts, begins = [1], dict[int, Literal["well", "amid", "cut"]]()
    while stop - starts[-1] > trained:
        last = starts[-1] + trained
        reached = [place[np.searchsorted(place, last, side="right") - 1] for place in places if len(place)]
        start = next((int(place) for place in reached if starts[-1] < place <= last), last)
        begins[start] = "well" if start in places[0] else "amid" if start in places[-1] else "cut"
        starts.append(start)
    spans = list(itertools.pairwise([*starts, stop]))[1:]
    return [Window(_passage(language, piece, start, end), start - 1, begins[start]) for start, end in spans]


def _passage(language: Remi | Groove, piece: Tokens, start: int, stop: int) -> Passage:
    """Tokens from `start` on, which is the first to be predicted."""
    inputs = piece[start - 1 : stop - 1].copy()
    if isinstance(language, Groove):
        inputs[0] = language.begin
    return Passage(inputs, piece[start:stop])


def _places(language: Remi | Groove, piece: Tokens) -> list[Places]:
    """Tokens that may be the first to be predicted in a window, in order: first the good places, then the passable."""
    if isinstance(language, Groove):
        return _groove_places(language, piece)
    return [language.bar_starts(piece)[:-1] + 1]  # nothing follows the last bar, which closes the piece


def _groove_places(language: Groove, piece: Tokens) -> list[Places]:
    """First notes of bars that begin with the bar: those before which all is silent, and all of them."""
    begins, ends = (np.isin(piece, language.vocabulary.ids[family]) for family in ("NoteOn", "NoteOff"))
    is_first = begins & ~np.append(False, begins[:-1]) & (clock(piece) % BAR == 0)
    sounding = np.cumsum(begins.astype(np.int64) - ends)
    is_silent = np.append(0, sounding[:-1]) == 0
    return [np.flatnonzero(is_first & is_silent), np.flatnonzero(is_first)]
