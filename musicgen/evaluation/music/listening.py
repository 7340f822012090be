"""The listening page: generated pieces and real songs, under the same look, to hear and see beside their numbers.

Design note: nobody picks what is shown. It is the first pieces of each set, and real songs at equal distances in their
order, cut to the number of bars that is compared. Pieces and songs take turns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import PurePosixPath

import numpy as np

from musicgen.evaluation.music.metrics import cropped
from musicgen.evaluation.music.statistics import Measured
from musicgen.evaluation.resampling import quartiles
from musicgen.midi.score import Score
from musicgen.sampling.bar_data import score_json
from musicgen.sampling.gallery import title_of
from musicgen.sampling.page import Entry, page

FACTS = (
    "notes per bar",
    "scale consistency",
    "best earlier bar",
    "notes alike at 4",
    "chords per bar",
    "notes in the chord",
    "bass in the other part",
    "last bar",
    "density jump",
    "tempo jump",
    "kick and snare kept",
    "kick and snare match",
)
"""Metrics that stand beside a piece."""
Quartiles = Mapping[str, tuple[float, float]]
"""Lower and upper quartile of the real songs, by metric."""


def listening_page(made: Sequence[Measured], real: Measured, bars: int, most: int) -> str:
    """The page as HTML: at most `most` pieces of each set, and as many songs, of which the first bars are shown."""
    quarters = {metric: quartiles(real.defined(metric)) for metric in FACTS}
    middle = {metric: (float(low), float(high)) for metric, (low, _, high) in quarters.items()}
    columns = [
        [_entry(f"{item.name}/{name}", item, place, item.songs[place].whole, middle) for place, name in first]
        for item in made
        for first in [list(enumerate(item.pieces))[:most]]
    ]
    spaced = np.linspace(0, len(real.songs) - 1, min(most, len(real.songs))).astype(int).tolist()
    columns.append(
        [
            _entry(f"a real song/{real.pieces[place]}", real, place, cropped(real.songs[place].score, bars), middle)
            for place in spaced
        ]
    )
    notes = [
        "Nothing here was picked by hand: these are the first pieces of each set, and real songs at equal distances in "
        "their order.",
        "↓ and ↑ mean: lower or higher than the middle half of all real songs.",
        f"Songs are cut after {bars:,} bars, but their last bar and their end are those of the whole song.",
    ]
    shown = [entry for row in zip_longest(*columns) for entry in row if entry is not None]
    return page("Pieces and songs", {}, shown, notes, offers_sound=False)


def _entry(name: str, item: Measured, place: int, score: Score, middle: Quartiles) -> Entry:
    values = {metric: float(item.values[metric][place]) for metric in (*FACTS, "ends at home")}
    facts = {metric: _fact(values[metric], *middle[metric]) for metric in FACTS if not math.isnan(values[metric])}
    if not math.isnan(values["ends at home"]):
        facts["ends"] = "on the tonic, with a long note" if values["ends at home"] else "elsewhere, or short"
    title = title_of(PurePosixPath(name).with_suffix("").as_posix())
    return Entry(title, {}, facts, (), (), music=score_json(score))


def _fact(value: float, low: float, high: float) -> str:
    """A number, and on which side of the songs' quartiles it is."""
    return f"{value:.2f}{' ↓' * (value < low)}{' ↑' * (value > high)}"
