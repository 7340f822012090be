"""Training examples of grooves: a trio of an accompaniment, from some bar on, thinned out, transposed and mixed.

The hard choice: a note that began before the bars that are skipped is left out, and not cut to begin with them. A cut
note would be an onset that nobody played, always on the first beat. (The published code keeps it at a negative time,
which its tokens cannot say.)
"""

from __future__ import annotations

import numpy as np

from musicgen.data.batches import Batches
from musicgen.data.groove_corpus import GrooveCorpus, GrooveSong
from musicgen.data.groove_table import BAR
from musicgen.errors import UserError
from musicgen.midi.score import Notes
from musicgen.tokens import Tokens
from musicgen.tokens.groove_quantise import PITCHES, TRIO

SKIP = 0.25
"""The chance that bars are skipped."""
DROP = 0.1
"""The chance that an instrument but one is silent."""
MOST_SKIPPED = 64
PHRASE = 4
"""Bars are skipped by so many."""
_DRUMS = next(place for place, track in enumerate(TRIO) if track.is_drum)
_EXAMPLE = 1


class GrooveWindows(Batches):
    """Batches of examples, by step: `windows[step]`. Every example is the beginning of a piece.

    Args:
        corpus: The accompaniments.
        split: Which of them.
        length: Tokens in a window.
        batch_size: Windows in a batch, over all processes.
        seed: Of all randomness.
        transpose: Bass and other are transposed by up to this many semitones.
        mix_drums: The chance that the drums are those of another accompaniment.
    """

    def __init__(
        self,
        corpus: GrooveCorpus,
        split: str = "train",
        *,
        length: int = 512,
        batch_size: int = 10,
        seed: int = 0,
        transpose: int = 5,
        mix_drums: float = 0.0,
    ) -> None:
        self.corpus, self.songs = corpus, corpus.songs(split)
        if not self.songs:
            raise UserError(f"the corpus has no grooves in the split {split!r}; prepare more of them")
        super().__init__(len(self.songs), length, batch_size, seed, corpus.language.end)
        self.transpose, self.mix_drums = transpose, mix_drums
        self._made: dict[int, Tokens] = {}

    def window(self, number: int) -> Tokens:
        """An example's tokens and the one that follows them, at most length + 1.

        Args:
            number: Counts windows from the beginning of training.
        """
        if number not in self._made:
            if len(self._made) >= self.batch_size:  # those of one step are asked for again, to be counted
                self._made.clear()
            notes = self.example(number, self.length)
            self._made[number] = self.corpus.language.encode_notes(notes)[: self.length + 1]
        return self._made[number]

    def example(self, number: int, tokens: int | None = None) -> Notes:
        """The notes of an example.

        Args:
            number: Counts windows from the beginning of training.
            tokens: How many tokens, beside the first, are wanted of it; None for all.
        """
        random = self.random(number, _EXAMPLE)
        song = self.songs[self.song(number)]
        notes = draw_trio(self.corpus, song, random)
        if self.mix_drums and random.random() < self.mix_drums:
            notes = with_drums(notes, self.corpus.trio(self.songs[random.integers(len(self.songs))]), BAR * song.bars)
        notes = skip_bars(notes, song.bars, random)
        notes = drop_instruments(notes, random)
        if tokens is not None:
            notes = first_notes(notes, tokens)
        return transpose(notes, int(random.integers(-self.transpose, self.transpose, endpoint=True)))


def draw_trio(corpus: GrooveCorpus, song: GrooveSong, random: np.random.Generator) -> Notes:
    """Bass, drums and one of the others, each as likely."""
    others = [number for number, track in enumerate(song.tracks) if track.part == "other" and track.notes]
    return corpus.trio(song, others[random.integers(len(others))] if others else None)


def with_drums(notes: Notes, drummer: Notes, end: int) -> Notes:
    """A trio with the drums of another, if that has any: a style that nobody has played, and that has to be heard.

    Args:
        notes: Of the trio.
        drummer: The notes of the other.
        end: The tick at which the trio ends, and its drums with it.
    """
    drums = drummer[(drummer["track"] == _DRUMS) & (drummer["start"] < end)]
    return np.concatenate([notes[notes["track"] != _DRUMS], drums]) if len(drums) else notes


def skip_bars(notes: Notes, bars: int, random: np.random.Generator) -> Notes:
    """Sometimes without the first bars, at most half of them."""
    phrases = min(MOST_SKIPPED, bars // 2) // PHRASE
    if random.random() >= SKIP or not phrases:
        return notes
    skipped = BAR * PHRASE * int(random.integers(1, phrases, endpoint=True))
    rest = notes[notes["start"] >= skipped]
    if not len(rest):  # this trio has nothing to say after it
        return notes
    rest["start"] -= skipped
    rest["end"] -= skipped
    return rest


def drop_instruments(notes: Notes, random: np.random.Generator) -> Notes:
    """Sometimes without an instrument or two, never without all."""
    present = random.permutation(np.flatnonzero(np.bincount(notes["track"])))
    silent = present[1:][random.random(len(present) - 1) < DROP]
    if not len(silent):
        return notes
    is_heard = np.full(len(TRIO), True)
    is_heard[silent] = False
    return notes[is_heard[notes["track"]]]


def transpose(notes: Notes, semitones: int) -> Notes:
    """All but the drums in another key; what would leave the pitches that there are comes back by an octave."""
    moved = notes.copy()
    pitch = notes["pitch"] + np.array([0 if track.is_drum else semitones for track in TRIO])[notes["track"]]
    moved["pitch"] = pitch + 12 * (pitch < 0) - 12 * (pitch >= PITCHES)
    return moved


def first_notes(notes: Notes, count: int) -> Notes:
    """The notes that the first tokens of a piece can be of.

    A note has two events, and an event is a token; of twins that transposing has folded together, one is left. So
    what begins after twice as many events as tokens is not among them.

    Args:
        notes: Of a piece.
        count: How many tokens, beside the first, are wanted.
    """
    times = np.concatenate([notes["start"], notes["end"]])
    if len(times) <= 2 * count:
        return notes
    return notes[notes["start"] <= np.partition(times, 2 * count)[2 * count]]
