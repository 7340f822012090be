"""How much a piece is in the style of another: the paper's measure of groove continuation.

The hard choice: a style is a set of counts, kept as counts to the end. Those of several continuations are added and
those of quarters of a piece are taken alike, and similarity is a cosine, for which it is no matter how many notes
there are. Bars have four beats, as in the paper, and begin with the first tick of the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

import numpy as np

from musicgen.evaluation.histograms import BEATS_IN_BAR, Histogram, cosine, onset_duration, onset_pitch, time_pitch
from musicgen.midi.parts import Part, parts
from musicgen.midi.score import Notes, Score, Track
from musicgen.tokens.groove_quantise import TICKS
from musicgen.tokens.quantise import nearest

PARTS: tuple[Part, ...] = get_args(Part)
METRICS: dict[str, tuple[Part, ...]] = {
    "time_pitch": ("bass", "other"),
    "onset_duration": ("bass", "other"),
    "onset_drum": ("drums",),
}
"""What is compared, and of which parts."""
QUARTERS = 4

Key = tuple[str, Part]
"""A metric and a part."""
Style = dict[Key, Histogram]
Similarity = dict[Key, float]
Roles = dict[Track, Part]
"""What tracks are, by name and program."""


def style(score: Score, published: bool = False) -> Style:
    """The style of a whole piece.

    Args:
        score: The piece.
        published: As the paper's published code counts, mistakes included: see `quarters`.
    """
    score = _gridded(score) if published else score
    return _style(by_part(score, published), score.ticks_per_beat, published)


def quarters(score: Score, first: int = 0, published: bool = False, known: Roles | None = None) -> list[Style]:
    """The styles of four parts of a piece that last equally long in beats, each of the notes that begin in it.

    Args:
        score: The piece.
        first: The tick at which it begins to count. What begins before, a prompt, is left out; bars are those of the
            whole piece all the same.
        published: As the paper's published code counts: times are rounded to twelfths of a beat, onsets in ticks are
            put into bins of beats, of other instruments the one with the most notes is taken, the quarters are those
            of each part by itself, and a note that begins where a quarter ends is in that one and in the next.
        known: What the tracks of its reference are: see `by_part`.
    """
    if not published:
        length = max(score.end - first, 1)
        pieces = {name: _split(notes, first, length) for name, notes in by_part(score, known=known).items()}
    else:
        first, score = int(nearest(np.array(first), score.ticks_per_beat, TICKS)), _gridded(score)
        pieces = {name: _split_as_published(notes, first) for name, notes in by_part(score, True, known).items()}
    return [
        _style({name: split[number] for name, split in pieces.items()}, score.ticks_per_beat, published)
        for number in range(QUARTERS)
    ]


def halves(score: Score, published: bool = False) -> tuple[Style, Style]:
    """The styles of the first half of a piece's bars and of the rest."""
    score = _gridded(score) if published else score
    bar = BEATS_IN_BAR * score.ticks_per_beat
    middle = -(-score.end // bar) // 2 * bar
    both = [
        {name: notes[(notes["start"] < middle) == is_first] for name, notes in by_part(score, published).items()}
        for is_first in (True, False)
    ]
    one, other = (_style(half, score.ticks_per_beat, published) for half in both)
    return one, other


def pool(styles: Sequence[Style]) -> Style:
    """The style of several pieces taken together."""
    return {key: np.sum([item[key] for item in styles], axis=0) for key in styles[0]}


def similarity(one: Style, other: Style) -> Similarity:
    """Cosine similarities from 0 to 1 by metric and part; nan where one of the two has nothing to compare."""
    return {key: cosine(one[key], other[key]) for key in one}


def over_parts(values: Similarity) -> dict[str, float]:
    """The mean of each metric over the parts for which it is defined; nan if it is for none."""
    return {metric: mean(values[metric, part] for part in names) for metric, names in METRICS.items()}


def mean(values: Iterable[float]) -> float:
    """The mean of those values that are numbers; nan if none is."""
    numbers = [value for value in values if not math.isnan(value)]
    return sum(numbers) / len(numbers) if numbers else math.nan


def roles(score: Score) -> Roles:
    """What the tracks of a piece are; without those that share name and program and are different things."""
    found: dict[Track, set[Part]] = {}
    for track, part in zip(score.tracks, parts(score), strict=True):
        found.setdefault(track, set()).add(part)
    return {track: part for track, (part, *others) in found.items() if not others}


def by_part(score: Score, published: bool = False, known: Roles | None = None) -> dict[Part, Notes]:
    """The notes of the bass, of the drums, and of all other instruments together; of one of them, if as published.

    Args:
        score: The piece.
        published: Of the other instruments take the one with the most notes.
        known: What tracks are, whatever they play: those of the reference that a piece continues. Tracks that are not
            in it are judged by themselves.
    """
    played = [(known or {}).get(track, part) for track, part in zip(score.tracks, parts(score), strict=True)]
    tracks = {part: [number for number, role in enumerate(played) if role == part] for part in PARTS}
    if published:
        counts = np.bincount(score.notes["track"], minlength=len(played))
        tracks["other"] = sorted(tracks["other"], key=lambda number: -counts[number])[:1]
    return {part: score.notes[np.isin(score.notes["track"], own)] for part, own in tracks.items()}


def _style(notes: Mapping[Part, Notes], ticks_per_beat: int, published: bool) -> Style:
    counts: Style = {}
    for part in METRICS["time_pitch"]:
        counts["time_pitch", part] = time_pitch(notes[part], ticks_per_beat)
    for part in METRICS["onset_duration"]:
        counts["onset_duration", part] = onset_duration(notes[part], ticks_per_beat, published)
    for part in METRICS["onset_drum"]:
        counts["onset_drum", part] = onset_pitch(notes[part], ticks_per_beat, published)
    return counts


def _split(notes: Notes, first: int, length: int) -> list[Notes]:
    notes = notes[notes["start"] >= first]
    # A note of no length may begin with the last tick.
    number = ((notes["start"] - first) * QUARTERS // length).clip(max=QUARTERS - 1)
    return [notes[number == quarter] for quarter in range(QUARTERS)]


def _split_as_published(notes: Notes, first: int) -> list[Notes]:
    notes = notes[notes["start"] >= first]
    start = notes["start"] - first
    length = int((notes["end"] - first).max(initial=0)) // QUARTERS
    return [notes[(start >= number * length) & (start <= (number + 1) * length)] for number in range(QUARTERS)]


def _gridded(score: Score) -> Score:
    """On the grid on which the published code has all music."""
    notes = score.notes.copy()
    for column in ("start", "end"):
        notes[column] = nearest(notes[column], score.ticks_per_beat, TICKS)
    return score.replace(notes=notes, ticks_per_beat=TICKS)
