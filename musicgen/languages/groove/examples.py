"""Training examples of grooves: a trio of an accompaniment, from some bar on, thinned out, transposed and mixed.

A note that began before the bars that are skipped is left out. It is not cut to begin with them: a cut note would be an
onset that nobody played, always on the first beat. (The published code keeps it at a negative time, which its tokens
cannot express.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musicgen.languages.examples import Random
from musicgen.languages.groove.codec import encode_notes
from musicgen.languages.groove.quantise import PITCHES, TRIO
from musicgen.languages.groove.song import GrooveSong, choose_notes
from musicgen.languages.groove.time import BAR
from musicgen.languages.infill import GapShare
from musicgen.languages.song import Songs
from musicgen.languages.vocabulary import Tokens
from musicgen.midi.score import Notes

SKIP = 0.25
"""Chance that bars are skipped."""
DROP = 0.1
"""Chance that an instrument is silent; one always plays."""
MOST_SKIPPED = 64
TWO_DRUMMERS = 0.5
"""Chance that drums of another accompaniment are those of two others."""
KICKS_AND_SNARES = (35, 40)
"""The lowest and the highest drum of these, in General MIDI."""
PHRASE = 4
"""Bars are skipped in groups of this size."""
_DRUMS = next(place for place, track in enumerate(TRIO) if track.is_drum)
_EXAMPLE = 1


class GrooveExamples:
    """Examples of accompaniments. Every example is the beginning of a piece.

    Args:
        corpus: The corpus.
        songs: The accompaniments of the split.
        length: Tokens in a window.
        transpose: Bass and other are transposed by up to this many semitones.
        mix_drums: Chance that the drums are those of another accompaniment.
        with_gaps: Takes bars out of some examples.
    """

    def __init__(
        self,
        corpus: Songs,
        songs: Sequence[GrooveSong],
        length: int,
        transpose: int,
        mix_drums: float,
        with_gaps: GapShare,
    ) -> None:
        self._corpus, self._songs, self._length = corpus, songs, length
        self._transpose, self._mix_drums, self._with_gaps = transpose, mix_drums, with_gaps

    def draw(self, song: int, random: Random) -> Tokens:
        """An example of an accompaniment."""
        return self._with_gaps(encode_notes(self.notes(song, random, self._length)), random)

    def notes(self, song: int, random: Random, tokens: int | None = None) -> Notes:
        """The notes of an example.

        Args:
            song: Which accompaniment.
            random: Random numbers.
            tokens: How many tokens are needed besides the first; None means all.
        """
        chance, record = random(_EXAMPLE), self._songs[song]
        notes = draw_trio(self._corpus[record], record, chance)
        if self._mix_drums and chance.random() < self._mix_drums:
            drummers = [self._songs[int(number)] for number in chance.integers(len(self._songs), size=2)]
            drummer, another = (choose_notes(self._corpus[theirs], theirs) for theirs in drummers)
            drums = two_drummers(drummer, another) if chance.random() < TWO_DRUMMERS else drummer
            notes = with_drums(notes, drums, BAR * record.bars)
        notes = skip_bars(notes, record.bars, chance)
        notes = drop_instruments(notes, chance)
        if tokens is not None:
            notes = first_notes(notes, tokens)
        return transpose(notes, int(chance.integers(-self._transpose, self._transpose, endpoint=True)))


def draw_trio(rows: Notes, song: GrooveSong, random: np.random.Generator) -> Notes:
    """Bass, drums and one of the other instruments, all equally likely."""
    others = song.others()
    return choose_notes(rows, song, others[random.integers(len(others))] if others else None)


def with_drums(notes: Notes, drummer: Notes, end: int) -> Notes:
    """A trio with the drums of another, if that has any: a style that nobody has played.

    Args:
        notes: Notes of the trio.
        drummer: Notes of the other trio.
        end: The tick at which the trio ends. The drums end there too.
    """
    drums = drummer[(drummer["track"] == _DRUMS) & (drummer["start"] < end)]
    return np.concatenate([notes[notes["track"] != _DRUMS], drums]) if len(drums) else notes


def two_drummers(drummer: Notes, another: Notes) -> Notes:
    """Kicks and snares of one trio with the cymbals and percussion of another: a pattern that nobody has played."""
    low, high = KICKS_AND_SNARES
    parts = []
    for notes, is_wanted in ((drummer, True), (another, False)):
        is_low = (low <= notes["pitch"]) & (notes["pitch"] <= high)
        parts.append(notes[(notes["track"] == _DRUMS) & (is_low == is_wanted)])
    return np.concatenate(parts)


def skip_bars(notes: Notes, bars: int, random: np.random.Generator) -> Notes:
    """Sometimes skip the first bars, at most half of them."""
    phrases = min(MOST_SKIPPED, bars // 2) // PHRASE
    if random.random() >= SKIP or not phrases:
        return notes
    skipped = BAR * PHRASE * int(random.integers(1, phrases, endpoint=True))
    rest = notes[notes["start"] >= skipped]
    if not len(rest):  # this trio has no notes after it
        return notes
    rest["start"] -= skipped
    rest["end"] -= skipped
    return rest


def drop_instruments(notes: Notes, random: np.random.Generator) -> Notes:
    """Sometimes silence an instrument or two, never all."""
    present = random.permutation(np.flatnonzero(np.bincount(notes["track"])))
    silent = present[1:][random.random(len(present) - 1) < DROP]
    if not len(silent):
        return notes
    is_heard = np.full(len(TRIO), True)
    is_heard[silent] = False
    return notes[is_heard[notes["track"]]]


def transpose(notes: Notes, semitones: int) -> Notes:
    """Move all but the drums to another key. A pitch that would leave 0 to 127 moves back by an octave."""
    moved = notes.copy()
    pitch = notes["pitch"] + np.array([0 if track.is_drum else semitones for track in TRIO])[notes["track"]]
    moved["pitch"] = pitch + 12 * (pitch < 0) - 12 * (pitch >= PITCHES)
    return moved


def first_notes(notes: Notes, count: int) -> Notes:
    """The notes that the first tokens of a piece can come from.

    A note has two events, and an event is a token. Transposing may fold two notes into one. So a note that begins after
    twice as many events as tokens cannot be among them.

    Args:
        notes: Notes of a piece.
        count: How many tokens are needed besides the first.
    """
    times = np.concatenate([notes["start"], notes["end"]])
    if len(times) <= 2 * count:
        return notes
    return notes[notes["start"] <= np.partition(times, 2 * count)[2 * count]]
