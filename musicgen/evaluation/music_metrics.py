"""What can be counted in a piece: muspy's metrics, and some that it lacks.

The hard choice: everything is counted on one grid of 24 ticks a beat, in 4/4, from the first bar with a note on.
Sixteenths, triplets and the half sixteenths of durations are whole numbers there, so music from tokens of either
language is counted exactly. Where notes begin is compared in sixteenths: on a finer grid most places are empty in any
two bars, and all bars look alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.convert import to_muspy
from musicgen.midi.score import Notes, Score, TimeSignature
from musicgen.tokens.groove_quantise import quantise_trio
from musicgen.tokens.quantise import check_metre, nearest, quantise

if TYPE_CHECKING:
    import muspy

Numbers = NDArray[np.float64]

TICKS = 24
"""In a beat."""
BAR = 4 * TICKS
SIXTEENTH = TICKS // 4
PLACES = 16
"""In a bar, where notes begin."""
DISTANCES = 16
"""The farthest bars that are compared."""
LOOP = 8
"""Bars back within which a copy is a loop."""

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
    "groove consistency": "like places of notes in neighbouring bars, in sixteenths (muspy)",
    "groove similarity": "like places of notes in any two bars, in sixteenths (MusDr's GS)",
    "notes per bar": "notes, drums among them",
    "note duration": "mean, in beats, without drums",
    "bars repeated at once": "share of bars that are exactly the bar before",
    "bars repeated within 8": "share of bars that are exactly one of the eight before",
    "grammar error rate": "share of tokens that the grammar does not allow, by the record of the piece",
}
"""Name to what it is. The last is no matter of notes: `musicgen.evaluation.music` reads it."""


def on_grid(score: Score, language: str | None = None) -> Score:
    """A piece at 24 ticks a beat, from its first bar.

    Args:
        score: In 4/4.
        language: Put it into the nearest that the tokens of this language (`remi`, `groove`) can say, so that it can be
            compared with music from such tokens; None keeps all tracks, and the nearest ticks.

    Raises:
        TokenError: It is not in 4/4, or has no notes for this language.
    """
    if language == "remi":
        score, _ = quantise(score)
    elif language == "groove":
        score, _ = quantise_trio(score)
    check_metre(score)
    notes = score.notes.copy()
    notes["start"] = nearest(score.notes["start"], score.ticks_per_beat, TICKS)
    notes["end"] = np.maximum(nearest(score.notes["end"], score.ticks_per_beat, TICKS), notes["start"] + 1)
    skipped = int(notes["start"].min()) // BAR * BAR
    notes["start"] -= skipped
    notes["end"] -= skipped
    return Score(TICKS, notes, score.tracks, time_signatures=(TimeSignature(0, 4, 4),))


def bars_of(score: Score) -> int:
    """To the last in which a note begins, of a piece on the grid."""
    return int(score.notes["start"].max()) // BAR + 1


def cropped(score: Score, bars: int) -> Score:
    """The first bars of a piece on the grid; what sounds at their end ends there."""
    notes = score.notes[score.notes["start"] < bars * BAR].copy()
    notes["end"] = notes["end"].clip(max=bars * BAR)
    return score.replace(notes=notes)


def measure(score: Score) -> dict[str, float]:
    """Every metric but the last of a piece on the grid, in the order of `METRICS`; nan where one is not defined."""
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
        "groove consistency": float(muspy.groove_consistency(to_muspy(_onsets_alone(score)), PLACES)),
        "groove similarity": groove_similarity(notes, bars),
        "notes per bar": len(notes) / bars,
        "note duration": float((notes["end"] - notes["start"])[~is_drum].mean()) / TICKS if pitched else math.nan,
        "bars repeated at once": repeated(contents, 1),
        "bars repeated within 8": repeated(contents, LOOP),
    }
    return {name: values[name] for name in list(METRICS)[:-1]}


def _asked(metric: Callable[[muspy.Music], float], music: muspy.Music, is_defined: bool = True) -> float:
    return float(metric(music)) if is_defined else math.nan


def _sixteenths(notes: Notes, bars: int) -> NDArray[np.int64]:
    """Where notes begin, in sixteenths; one just before the end of the last bar stays in it."""
    return nearest(notes["start"], TICKS, 4).clip(max=bars * PLACES - 1)


def _onsets_alone(score: Score) -> Score:
    """Notes without length in sixteenths: muspy counts a bar more if a note ends where the last bar does."""
    notes = score.notes.copy()
    notes["start"] = notes["end"] = _sixteenths(score.notes, bars_of(score))
    return Score(4, notes, score.tracks)


def groove_similarity(notes: Notes, bars: int) -> float:
    """MusDr's GS: the share of sixteenths at which two bars both have a note that begins, or both none.

    It is the mean over all pairs of bars, and nan if there is only one.
    """
    if bars < 2:
        return math.nan
    begins = np.zeros(bars * PLACES)
    begins[_sixteenths(notes, bars)] = 1
    # Of a place at which n of the bars have a note, n (bars - n) pairs differ.
    have = begins.reshape(bars, PLACES).sum(0)
    return float(1 - (have * (bars - have)).sum() / (PLACES * bars * (bars - 1) / 2))


def bar_contents(score: Score) -> NDArray[np.bool_]:
    """Which notes are in which bar, `(bars, different notes)`.

    Notes are the same if they begin at the same place of their bars, last equally long, are of the same pitch, and are
    both drums or both not.
    """
    notes = score.notes
    bar, place = np.divmod(notes["start"], BAR)
    columns = np.stack([place, notes["pitch"], notes["end"] - notes["start"], score.is_drum(notes)])
    kinds, kind = np.unique(columns, axis=1, return_inverse=True)
    contents = np.zeros((bars_of(score), kinds.shape[1]), np.bool_)
    contents[bar, kind.ravel()] = True
    return contents


def repeated(contents: NDArray[np.bool_], within: int) -> float:
    """The share of bars, from the second on, that have exactly the notes of one of the bars before.

    Bars without notes are not counted, and are no copies. It is nan if there are none to count.

    Args:
        contents: As `bar_contents` gives it.
        within: How many bars before count.
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
    """How alike bars are by their distance, `(DISTANCES,)`: the notes that both have, of those that either has.

    The mean over all pairs of bars at a distance of 1, 2, 3 ... of which one has notes; nan where there are none.
    """
    similarity = np.full(DISTANCES, math.nan)
    for distance in range(1, min(DISTANCES, len(contents) - 1) + 1):
        both = (contents[distance:] & contents[:-distance]).sum(1)
        either = (contents[distance:] | contents[:-distance]).sum(1)
        if either.any():
            similarity[distance - 1] = (both[either > 0] / either[either > 0]).mean()
    return similarity
