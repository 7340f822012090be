"""How similar two pieces are in style: the paper's measure of groove continuation.

Design note: a style stays a set of counts until it is compared. The counts of several continuations can then be added.
Similarity is a cosine, so the number of notes does not matter. Bars have four beats, as in the paper, and begin at the
first tick of the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from musicgen.evaluation.style.histograms import (
    BEATS_IN_BAR,
    Histogram,
    cosine,
    onset_duration,
    onset_pitch,
    time_pitch,
)
from musicgen.languages.grid import nearest
from musicgen.midi.parts import parts
from musicgen.midi.roles import PARTS
from musicgen.midi.score import Notes, Part, Score, Track

TICKS = 12
"""Ticks in a beat: the grid of the paper's grooves."""
METRICS: dict[str, tuple[Part, ...]] = {
    "time_pitch": ("bass", "other"),
    "onset_duration": ("bass", "other"),
    "onset_drum": ("drums",),
}
"""What is compared, and for which parts."""
QUARTERS = 4

Key = tuple[str, Part]
"""A metric and a part."""
Style = dict[Key, Histogram]
Similarity = dict[Key, float]
Roles = dict[Track, Part]
"""The parts that tracks play, by name and program; the tracks say no role themselves."""


def style(score: Score, published: bool = False) -> Style:
    """The style of a whole piece; for `published` see `quarters`."""
    score = _gridded(score) if published else score
    return _style(by_part(score, published), score.ticks_per_beat, published)


def quarters(score: Score, first: int = 0, published: bool = False, known: Roles | None = None) -> list[Style]:
    """The styles of the four quarters of a piece, equally long in beats. A note counts where it begins.

    Args:
        score: The piece.
        first: Notes that begin before this tick are the prompt and do not count. Bars are still those of the whole
            piece.
        published: Count as the paper's published code does: times are rounded to twelfths of a beat; onsets in ticks
            are put into bins of beats; only the other instrument with the most notes counts; each part has its own
            quarters; a note that begins where a quarter ends is counted in this quarter and in the next.
        known: What the tracks of its reference are; see `by_part`.
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
    """The styles of the first half of a piece's bars and of the second."""
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
    """The style of several pieces together."""
    return {key: np.sum([item[key] for item in styles], axis=0) for key in styles[0]}


def similarity(one: Style, other: Style) -> Similarity:
    """Cosine similarities from 0 to 1 by metric and part; nan where one of the two has no notes to compare."""
    return {key: cosine(one[key], other[key]) for key in one}


def over_parts(values: Similarity) -> dict[str, float]:
    """The mean of each metric over the parts for which it is defined; nan if there is no such part."""
    return {metric: mean(values[metric, part] for part in names) for metric, names in METRICS.items()}


def mean(values: Iterable[float]) -> float:
    """The mean of the values that are not nan; nan if there are none."""
    numbers = [value for value in values if not math.isnan(value)]
    return sum(numbers) / len(numbers) if numbers else math.nan


def roles(score: Score) -> Roles:
    """The parts of the tracks of a piece, without tracks of one name and program that play different parts."""
    found: dict[Track, set[Part]] = {}
    for track, part in zip(score.tracks, parts(score), strict=True):
        found.setdefault(track._replace(role=None), set()).add(part)
    return {track: part for track, (part, *others) in found.items() if not others}


def by_part(score: Score, published: bool = False, known: Roles | None = None) -> dict[Part, Notes]:
    """The notes of the bass, of the drums, and of the other instruments; if `published`, of that with the most notes.

    A track plays the part that the file says, or that its reference says (`known`), or that `parts` guesses.
    """
    stated = [(known or {}).get(track) for track in score.tracks]  # without tracks that state a role themselves
    played = [part if role is None else role for role, part in zip(stated, parts(score), strict=True)]
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
    # A note without length may begin at the last tick.
    number = ((notes["start"] - first) * QUARTERS // length).clip(max=QUARTERS - 1)
    return [notes[number == quarter] for quarter in range(QUARTERS)]


def _split_as_published(notes: Notes, first: int) -> list[Notes]:
    notes = notes[notes["start"] >= first]
    start = notes["start"] - first
    length = int((notes["end"] - first).max(initial=0)) // QUARTERS
    return [notes[(start >= number * length) & (start <= (number + 1) * length)] for number in range(QUARTERS)]


def _gridded(score: Score) -> Score:
    """The piece on the grid that the published code uses."""
    notes = score.notes.copy()
    for column in ("start", "end"):
        notes[column] = nearest(notes[column], score.ticks_per_beat, TICKS)
    return score.replace(notes=notes, ticks_per_beat=TICKS)
