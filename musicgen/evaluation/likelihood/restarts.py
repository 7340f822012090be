"""Restarted windows: a model reads them from an empty state, as if it forgot everything before them.

Design note: a restarted window begins as training windows do. Otherwise it would measure how a model copes with an
unusual beginning, and not what it gains by remembering. Training windows of pop piano begin with a `Bar` and its
metre, so windows restart there. Training windows of grooves begin with `BOS` at a bar line, and no note sounds across
their beginning. So windows restart with a `BOS` before the first note of a bar, where no note sounds if there is such a
bar. Each window is as long as it can be: it ends at the last such place within the trained length.
"""

from __future__ import annotations

import itertools
from typing import Literal, NamedTuple

import numpy as np

from musicgen.evaluation.likelihood.losses import Passage
from musicgen.languages.language import Language
from musicgen.languages.vocabulary import Tokens


class Window(NamedTuple):
    """A restarted window of a piece.

    Attributes:
        passage: What is read, and what is predicted.
        first: The number of its first target among those of the piece.
        begins: Where it begins: as training windows do (`well`), at a bar line where notes sound on (`amid`), or
            inside a bar (`cut`) because no better place was near enough.
    """

    passage: Passage
    first: int
    begins: Literal["well", "amid", "cut"]


def restarted_windows(language: Language, piece: Tokens, length: int, trained: int) -> list[Window]:
    """All restarted windows of a piece. The first window, which begins with the piece, is not among them.

    Together with the first window they predict each of the first `length` targets once, each at most `trained`.
    """
    places, stop = language.restarts(piece), min(length + 1, len(piece))
    starts, begins = [1], dict[int, Literal["well", "amid", "cut"]]()
    while stop - starts[-1] > trained:
        last = starts[-1] + trained
        reached = [place[np.searchsorted(place, last, side="right") - 1] for place in places if len(place)]
        start = next((int(place) for place in reached if starts[-1] < place <= last), last)
        begins[start] = "well" if start in places[0] else "amid" if start in places[-1] else "cut"
        starts.append(start)
    spans = list(itertools.pairwise([*starts, stop]))[1:]
    return [Window(_passage(language, piece, start, end), start - 1, begins[start]) for start, end in spans]


def _passage(language: Language, piece: Tokens, start: int, stop: int) -> Passage:
    """The passage that predicts the tokens from `start` to `stop` - 1."""
    context = language.restart_context(piece, start)
    inputs = np.concatenate([context, piece[start : stop - 1]])
    return Passage(inputs, np.append(inputs[1:], piece[stop - 1]), len(context) - 1)
