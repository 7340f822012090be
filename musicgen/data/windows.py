"""Training windows of songs in tokens: random crops, transposed.

The hard choice: windows begin at bars, and a song's ending is as likely to be seen as any bar that can begin one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.data.batches import Batches
from musicgen.data.corpus import Corpus
from musicgen.errors import UserError
from musicgen.tokens import Tokens

_CROP, _TRANSPOSITION = 1, 2


class Crop(NamedTuple):
    """A part of a song: its number among the songs, its first token and the one after its last."""

    song: int
    start: int
    stop: int


class Windows(Batches):
    """Batches of windows, by step: `windows[step]`.

    A song is taken from a random bar on. The bar is drawn from those after which the song still fills the window, and
    the first after which it does not, so that endings are seen too; a song that is shorter is taken whole.

    Args:
        corpus: The songs.
        split: Which of them.
        length: Tokens in a window.
        batch_size: Windows in a batch, over all processes.
        seed: Of all randomness.
        transpose: Windows are transposed by up to this many semitones, as far as they stay on the keyboard.
    """

    def __init__(
        self,
        corpus: Corpus,
        split: str = "train",
        *,
        length: int = 2048,
        batch_size: int = 4,
        seed: int = 0,
        transpose: int = 6,
    ) -> None:
        self.corpus, self.songs = corpus, corpus.songs(split)
        if not self.songs:
            raise UserError(f"the corpus has no songs in the split {split!r}; prepare more songs")
        super().__init__(len(self.songs), length, batch_size, seed, corpus.language.end)
        self.transpose = transpose
        shifts = range(-transpose, transpose + 1)
        self._permutations = np.stack([corpus.language.transposition(semitones) for semitones in shifts])
        self._starts = [self._window_starts(song) for song in range(len(self.songs))]

    def crop(self, number: int) -> Crop:
        """Where a window is taken.

        Args:
            number: Counts windows from the beginning of training.
        """
        song = self.song(number)
        starts = self._starts[song]
        start = int(starts[self.random(number, _CROP).integers(len(starts))])
        return Crop(song, start, min(start + self.length + 1, self.songs[song].tokens))

    def window(self, number: int) -> Tokens:
        """A window's tokens and the one that follows them, at most length + 1, transposed.

        Args:
            number: Counts windows from the beginning of training.
        """
        song, start, stop = self.crop(number)
        tokens = self.corpus[self.songs[song]][start:stop]
        down, up = self.corpus.language.headroom(tokens)
        lowest, highest = max(down, -self.transpose), min(up, self.transpose)
        semitones = self.random(number, _TRANSPOSITION).integers(lowest, highest, endpoint=True)
        transposed: Tokens = self._permutations[semitones + self.transpose][tokens]
        return transposed

    def window_length(self, number: int) -> int:
        """How many tokens `window` gives."""
        _, start, stop = self.crop(number)
        return stop - start

    def _window_starts(self, number: int) -> NDArray[np.int64]:
        """Bars of a song at which a window may begin."""
        tokens = self.corpus[self.songs[number]]
        bars = self.corpus.language.bar_starts(tokens)[:-1]  # nothing follows the last, which closes the piece
        full = int(np.searchsorted(bars, len(tokens) - self.length - 1, side="right"))
        return bars[: full + 1]
