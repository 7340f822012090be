"""Harmony: written chords against the notes that sound, the bass against the other part, and how a piece ends.

Design note: what sounds is counted in time, by pitch class, from one table of sums over ticks. An ending
is judged by ear, from the notes that sound last, and not by a written chord. The key is that of the last bars, as many
as are compared, because songs often end in another key than they begin in.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from musicgen.evaluation.music.metrics import TICKS, bar_ticks, bars_of, from_tick
from musicgen.midi.bars import BarLines
from musicgen.midi.chord import NO_CHORD
from musicgen.midi.key import heard_key
from musicgen.midi.parts import parts
from musicgen.midi.score import ChordMark, Notes, Score
from musicgen.midi.tonality import Triad, find_triad, key_triad

LONG = 2 * TICKS
"""A note of at least two beats is a long note."""
OPENING = 2 * TICKS
"""The first chord is what sounds in this time from the first note on."""

HARMONY = {
    "chords per bar": "changes of the written chord, and the first chord, by bar",
    "notes in the chord": "share of sounding time, over all notes, in which a note is a tone of the written chord",
    "bass in the other part": "share of bass notes whose pitch class the other instruments play while they sound",
}
"""Name to meaning. Each is nan for pieces without chords, or without a bass and other instruments."""

ENDINGS = {
    "ends on the tonic": "the root of the last chord is that of the key",
    "ends with a long note": "a note that sounds last is at least two beats long",
    "ends at home": "both of these",
    "ends on the key's chord": "the last chord has the root of the key, and no third of the other mode",
    "ends on the first root": "the last chord has the root of the first",
    "ends on the first chord": "and its third does not differ",
}
"""Name to meaning: questions that a piece answers with yes (1) or no (0)."""


def measure_harmony(score: Score) -> dict[str, float]:
    """The metrics of harmony, for a piece on the grid."""
    return {
        "chords per bar": chords_per_bar(score),
        "notes in the chord": notes_in_chord(score),
        "bass in the other part": bass_in_other(score),
    }


def chords_per_bar(score: Score) -> float:
    """How many chords a bar has; a chord that goes on over a bar line is counted once."""
    chords = sum(item.chord != NO_CHORD for item in _changes(score))
    return chords / bars_of(score) if score.chords else math.nan


def notes_in_chord(score: Score) -> float:
    """The share of sounding time in which notes are tones of the chord; time without a chord does not count."""
    changes = _changes(score)
    if not changes:
        return math.nan
    totals = _heard_until(score, _pitched(score))
    by_chord = np.diff(totals[[*(item.tick for item in changes), -1]], axis=0)
    is_chord = np.array([item.chord != NO_CHORD for item in changes])
    tones = np.array([[tone in item.chord.pitch_classes for tone in range(12)] for item in changes])
    heard = by_chord[is_chord].sum()
    return float(by_chord[tones].sum() / heard) if heard else math.nan


def bass_in_other(score: Score) -> float:
    """The share of bass notes whose pitch class the other instruments play while the bass note sounds.

    A bass note during which they are silent does not count.
    """
    roles = np.array(parts(score))[score.notes["track"]]
    bass, other = score.notes[roles == "bass"], score.notes[roles == "other"]
    if not len(bass) or not len(other):
        return math.nan
    totals = _heard_until(score, other)
    during = totals[bass["end"]] - totals[bass["start"]]
    is_heard = during.any(1)
    shared = during[np.arange(len(bass)), bass["pitch"] % 12] > 0
    return float(shared[is_heard].mean()) if is_heard.any() else math.nan


def measure_ending(score: Score, bars: int) -> dict[str, float]:
    """The answers of a whole piece on the grid, whose last bars say its key; nan where there are no pitches."""
    lines = BarLines(score)
    last_bars = from_tick(score, lines.tick(max(bars_of(score) - bars, 0)))
    key = heard_key(_weights(_pitched(last_bars)))
    notes = _pitched(score)
    if key is None or not len(notes):
        return dict.fromkeys(ENDINGS, math.nan)
    first, last = int(notes["start"].min()), notes[notes["end"] > notes["start"].max()]
    opening, final, home = _heard(notes, first, first + OPENING), _heard(last, 0, score.end), key_triad(key)
    is_long = bool((last["end"] - last["start"]).max() >= LONG)
    answers = {
        "ends on the tonic": final.root == home.root,
        "ends with a long note": is_long,
        "ends at home": final.root == home.root and is_long,
        "ends on the key's chord": final.agrees(home),
        "ends on the first root": final.root == opening.root,
        "ends on the first chord": final.agrees(opening),
    }
    return {name: float(answers[name]) for name in ENDINGS}


def _heard(notes: Notes, first: int, last: int) -> Triad:
    """The chord of the notes that begin from tick `first` to `last`; there are some."""
    notes = notes[(notes["start"] >= first) & (notes["start"] < last)]
    return find_triad(_weights(notes), int(notes["pitch"].min()) % 12)


def _pitched(score: Score) -> Notes:
    return score.notes[~score.is_drum(score.notes)]


def _changes(score: Score) -> list[ChordMark]:
    """The chord changes of a piece up to the end of its last bar, each at another tick and to another chord."""
    end = int(bar_ticks(score)[-1])
    marks = list({item.tick: item for item in score.chords if item.tick < end}.values())
    return [mark for place, mark in enumerate(marks) if not place or mark.chord != marks[place - 1].chord]


def _weights(notes: Notes) -> NDArray[np.float64]:
    """For how many ticks each pitch class sounds, shape (12,)."""
    return np.bincount(notes["pitch"] % 12, notes["end"] - notes["start"], 12).astype(np.float64)


def _heard_until(score: Score, notes: Notes) -> NDArray[np.int64]:
    """How long each pitch class has sounded before each tick, summed over notes, shape (ticks + 1, 12)."""
    changes = np.zeros((max(int(bar_ticks(score)[-1]), score.end) + 2, 12), np.int64)
    np.add.at(changes, (notes["start"] + 1, notes["pitch"] % 12), 1)
    np.add.at(changes, (notes["end"] + 1, notes["pitch"] % 12), -1)
    return changes.cumsum(0).cumsum(0)[:-1]
