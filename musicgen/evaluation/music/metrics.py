"""Metrics of a piece: those of muspy, and some that muspy lacks.

Design note: everything is counted on one grid of 24 ticks per beat, from the first bar with a note. Sixteenths,
triplets and half sixteenths are whole numbers of ticks there, so music from tokens is counted exactly. Onsets are
compared in sixteenths: on a finer grid most places are empty in any two bars, and all bars look alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from musicgen.evaluation.resampling import Numbers
from musicgen.languages.grid import nearest
from musicgen.languages.language import Language
from musicgen.midi.bars import BarLines
from musicgen.midi.convert import to_muspy
from musicgen.midi.score import ChordMark, Score, TimeSignature
from musicgen.midi.write import signatures

if TYPE_CHECKING:
    import muspy

Sign = TypeVar("Sign", TimeSignature, ChordMark)

TICKS = 24
"""Ticks in a beat."""
SIXTEENTH = TICKS // 4
DISTANCES = 16
"""Bars up to this distance are compared."""
LOOP = 8
"""A bar that equals one of this many bars before it is part of a loop."""

METRICS = {
    "pitch range": "semitones from the lowest note to the highest (muspy)",
    "pitches used": "different pitches (muspy)",
    "pitch classes used": "different pitch classes (muspy)",
    "pitch entropy": "bits, of the pitches of notes (muspy)",
    "pitch-class entropy": "bits, of the pitch classes of notes (muspy)",
    "scale consistency": "share of notes in the best-fitting major or minor scale (muspy)",
    "polyphony": "pitches at once, where there are any (muspy)",
    "polyphony rate": "share of time with three pitches or more (muspy)",
    "empty-beat rate": "share of beats in which nothing sounds (muspy)",
    "drum pattern consistency": "share of drum hits on sixteenths, or on triplets if that is more (muspy)",
    "groove consistency": "similarity of onsets in neighbouring bars, in sixteenths (muspy)",
    "groove similarity": "similarity of onsets in any two bars, in sixteenths (MusDr's GS)",
    "notes per bar": "number of notes, including drums",
    "note duration": "mean, in beats, without drums",
    "bars repeated at once": "share of bars that are exactly the bar before",
    "bars repeated within 8": "share of bars that are exactly one of the eight before",
    "grammar error rate": "share of tokens that break the grammar, by the record of the piece",
}
"""Name to meaning. The last does not come from notes: `musicgen.evaluation.music.statistics` reads it."""


def on_grid(score: Score, language: Language | None = None) -> Score:
    """A piece at 24 ticks per beat, from its first bar.

    Args:
        score: In any metre that the language can say.
        language: Quantise it as the tokens of this language do, so that it can be compared with music from such tokens.
            None keeps all tracks and the nearest ticks.
    """
    if language is not None:
        score = language.quantise(score)
    notes = score.notes.copy()
    notes["start"] = nearest(score.notes["start"], score.ticks_per_beat, TICKS)
    notes["end"] = np.maximum(nearest(score.notes["end"], score.ticks_per_beat, TICKS), notes["start"] + 1)
    metres = [item._replace(tick=round(item.tick * TICKS / score.ticks_per_beat)) for item in signatures(score)]
    chords = [item._replace(tick=round(item.tick * TICKS / score.ticks_per_beat)) for item in score.chords]
    tempos = score.tempos.copy()
    tempos["tick"] = nearest(tempos["tick"], score.ticks_per_beat, TICKS)
    whole = Score(TICKS, notes, score.tracks, tempos, tuple(metres), tuple(chords))
    lines = BarLines(whole)
    return from_tick(whole, lines.tick(lines.bar(int(notes["start"].min()))))


def from_tick(score: Score, tick: int) -> Score:
    """A piece on the grid from a bar line on: notes that begin there or later, and the signs that hold there."""
    notes, tempos = score.notes[score.notes["start"] >= tick].copy(), score.tempos.copy()
    notes["start"] -= tick
    notes["end"] -= tick
    tempos["tick"] -= tick  # the last before the first tick holds there
    metres, chords = _held(score.time_signatures, tick), _held(score.chords, tick)
    return Score(TICKS, notes, score.tracks, tempos, metres, chords)


def _held(signs: tuple[Sign, ...], tick: int) -> tuple[Sign, ...]:
    """The signs of a piece that begins at a tick, with the one that holds there."""
    before: list[Sign] = [item._replace(tick=0) for item in signs if item.tick <= tick][-1:]
    later: list[Sign] = [item._replace(tick=item.tick - tick) for item in signs if item.tick > tick]
    return tuple(before + later)


def bars_of(score: Score) -> int:
    """How many bars a piece on the grid has, up to the last in which a note begins."""
    return BarLines(score).bar(int(score.notes["start"].max())) + 1


def bar_ticks(score: Score) -> NDArray[np.int64]:
    """Where the bars of a piece on the grid begin, and where the last ends, shape (bars + 1,)."""
    lines = BarLines(score)
    return np.array([lines.tick(bar) for bar in range(bars_of(score) + 1)])


def cropped(score: Score, bars: int) -> Score:
    """The first bars of a piece on the grid; notes that sound at their end are cut there."""
    end = BarLines(score).tick(bars)
    notes = score.notes[score.notes["start"] < end].copy()
    notes["end"] = notes["end"].clip(max=end)
    return score.replace(notes=notes)


def measure(score: Score) -> dict[str, float]:
    """All metrics except the last for a piece on the grid, in the order of `METRICS`; nan where one is not defined."""
    import muspy

    music, notes, is_drum = to_muspy(score), score.notes, score.is_drum(score.notes)
    pitched, drummed = not is_drum.all(), bool(is_drum.any())
    bars, contents = bars_of(score), bar_contents(score)
    values = {
        "pitch range": _asked(muspy.pitch_range, music, pitched),
        "pitches used": _asked(muspy.n_pitches_used, music, pitched),
        "pitch classes used": _asked(muspy.n_pitch_classes_used, music, pitched),
        "pitch entropy": _asked(muspy.pitch_entropy, music, pitched),
        "pitch-class entropy": _asked(muspy.pitch_class_entropy, music, pitched),
        "scale consistency": _asked(muspy.scale_consistency, music, pitched),
        "polyphony": _asked(muspy.polyphony, music, pitched),
        "polyphony rate": _asked(muspy.polyphony_rate, music, pitched),
        "empty-beat rate": _asked(muspy.empty_beat_rate, music),
        "drum pattern consistency": _asked(muspy.drum_pattern_consistency, music, drummed),
        "groove consistency": float(muspy.groove_consistency(to_muspy(_onsets_alone(score)), _usual(score))),
        "groove similarity": groove_similarity(score),
        "notes per bar": len(notes) / bars,
        "note duration": float((notes["end"] - notes["start"])[~is_drum].mean()) / TICKS if pitched else math.nan,
        "bars repeated at once": repeated(contents, 1),
        "bars repeated within 8": repeated(contents, LOOP),
    }
    return {name: values[name] for name in list(METRICS)[:-1]}


def _asked(metric: Callable[[muspy.Music], float], music: muspy.Music, is_defined: bool = True) -> float:
    return float(metric(music)) if is_defined else math.nan


def _usual(score: Score) -> int:
    """Sixteenths in the most common kind of bar."""
    lengths, counts = np.unique(np.diff(bar_ticks(score)), return_counts=True)
    return max(int(lengths[counts.argmax()]) // SIXTEENTH, 1)


def nearest_sixteenths(score: Score) -> NDArray[np.int64]:
    """Onsets in sixteenths; a note just before the end of the last bar stays in that bar."""
    return nearest(score.notes["start"], TICKS, 4).clip(max=max(int(bar_ticks(score)[-1]) // SIXTEENTH - 1, 0))


def _onsets_alone(score: Score) -> Score:
    """Notes without length, in sixteenths: muspy counts one bar more if a note ends where the last bar ends."""
    notes = score.notes.copy()
    notes["start"] = notes["end"] = nearest_sixteenths(score)
    return Score(4, notes, score.tracks)


def groove_similarity(score: Score) -> float:
    """MusDr's GS: the share of sixteenths at which two bars both have a note that begins, or both none.

    It is the mean over all pairs of bars of the same length, and nan if there are none.
    """
    lines = bar_ticks(score) // SIXTEENTH
    begins = np.zeros(max(int(lines[-1]), 1), np.int64)
    begins[nearest_sixteenths(score)] = 1
    differ, places = 0.0, 0.0
    for length in np.unique(np.diff(lines)).tolist():
        starts = lines[:-1][np.diff(lines) == length]
        # At a place where n of the bars have an onset, n (bars - n) pairs of bars differ.
        have = begins[starts[:, None] + np.arange(length)].sum(0)
        differ += float((have * (len(starts) - have)).sum())
        places += length * len(starts) * (len(starts) - 1) / 2
    return 1 - differ / places if places else math.nan


def bar_contents(score: Score) -> NDArray[np.bool_]:
    """Which notes are in which bar, `(bars, different notes)`.

    Notes are the same if they have the same place in their bars, the same length and pitch, and are both drums or
    both not drums.
    """
    notes = score.notes
    lines = bar_ticks(score)
    bar = np.searchsorted(lines, notes["start"], side="right") - 1
    place = notes["start"] - lines[bar]
    columns = np.stack([place, notes["pitch"], notes["end"] - notes["start"], score.is_drum(notes)])
    kinds, kind = np.unique(columns, axis=1, return_inverse=True)
    contents = np.zeros((bars_of(score), kinds.shape[1]), np.bool_)
    contents[bar, kind.ravel()] = True
    return contents


def repeated(contents: NDArray[np.bool_], within: int) -> float:
    """The share of bars, from the second on, that have exactly the notes of one of the bars before.

    Bars without notes do not count. It is nan if there are no bars to count.
    """
    _, kind = np.unique(contents, axis=0, return_inverse=True)
    kind = kind.ravel()
    counts = contents.sum(1) > 0
    counts[0] = False
    if not counts.any():
        return math.nan
    is_copy = np.zeros(len(kind), np.bool_)
    for distance in range(1, min(within, len(kind) - 1) + 1):
        is_copy[distance:] |= kind[distance:] == kind[:-distance]
    return float(is_copy[counts].mean())


def bar_similarity(contents: NDArray[np.bool_]) -> Numbers:
    """Similarity of bars by distance, `(DISTANCES,)`: notes that both bars have, divided by notes that either has.

    It is the mean over all pairs of bars at a distance of 1, 2, 3 ... that have notes; nan without such pairs.
    """
    return np.array([similarity_at(contents, distance) for distance in range(1, DISTANCES + 1)])


def similarity_at(contents: NDArray[np.bool_], distance: int) -> float:
    """The same at one distance."""
    both = (contents[distance:] & contents[:-distance]).sum(1)
    either = (contents[distance:] | contents[:-distance]).sum(1)
    return float((both[either > 0] / either[either > 0]).mean()) if either.any() else math.nan
