"""Training examples: windows of songs, varied anew each time a song is seen.

Design note: an example is a function of the song and of random numbers that belong to the window's number. It does not
depend on workers, epochs or what was drawn before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.infill import GapShare
from musicgen.languages.song import Songs
from musicgen.languages.vocabulary import Tokens

if TYPE_CHECKING:
    from musicgen.languages.language import Language

Random = Callable[[int], np.random.Generator]
"""Random numbers of a window for a purpose, numbered from 1 on: different purposes have independent numbers."""
_CROP, _TRANSPOSITION = 1, 2


class Examples(Protocol):
    """Examples of the songs of a split."""

    def draw(self, song: int, random: Random) -> Tokens:
        """An example of a song: the tokens of a window and the one that follows, at most length + 1."""


class Crops:
    """Songs from a random bar on, transposed.

    The bar is drawn from those after which the song still fills the window, and the first after which it does not. So
    endings are seen as often as any other bar. A song that is shorter than a window is taken whole.

    Args:
        language: The language of the songs.
        corpus: The corpus.
        songs: The songs of the split.
        length: Tokens in a window.
        transpose: The most semitones by which windows are transposed; they always stay in range.
        infill: The share of examples that have gaps.
        beginnings: The share of windows that begin where their song does, besides those that do by chance. A song
            has many bars and one beginning, so a model sees few of them otherwise.
    """

    def __init__(
        self,
        language: Language,
        corpus: Songs,
        songs: Sequence[Any],
        length: int,
        transpose: float,
        infill: float = 0.0,
        beginnings: float = 0.0,
    ) -> None:
        self._language, self._corpus, self._songs = language, corpus, songs
        self._with_gaps = GapShare(language.infill, infill, length)
        self._length, self._transpose, self._beginnings = length, int(transpose), beginnings
        shifts = range(-self._transpose, self._transpose + 1)
        self._permutations = np.stack([language.transposition(semitones) for semitones in shifts])
        self._starts = [self._window_starts(song) for song in songs]

    def draw(self, song: int, random: Random) -> Tokens:
        """An example of a song."""
        start, _ = self.crop(song, random)
        tokens = self._language.window(self._corpus[self._songs[song]], start, self._length + 1)
        down, up = self._language.headroom(tokens)
        lowest, highest = max(down, -self._transpose), min(up, self._transpose)
        semitones = random(_TRANSPOSITION).integers(lowest, highest, endpoint=True)
        transposed: Tokens = self._permutations[semitones + self._transpose][tokens]
        return self._with_gaps(transposed, random)

    def crop(self, song: int, random: Random) -> tuple[int, int]:
        """Where an example is taken from: its first token and the one after its last."""
        starts = self._starts[song]
        chance = random(_CROP)
        start = int(starts[chance.integers(len(starts))])
        if self._beginnings and chance.random() < self._beginnings:
            start = 0
        return start, min(start + self._length + 1, self._songs[song].rows)

    def _window_starts(self, song: Any) -> NDArray[np.int64]:
        tokens = self._corpus[song]
        starts = self._language.window_starts(tokens)
        full = int(np.searchsorted(starts, len(tokens) - self._length - 1, side="right"))
        return starts[: full + 1]
