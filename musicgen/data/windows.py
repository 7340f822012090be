"""Training windows: random crops of songs, transposed, as batches.

The hard choice: a batch is a function of (seed, step) and of nothing else. Row i of step s is window number
s * batch_size + i; which song that is, where it is cropped and how it is transposed follow from the seed and this
number. No worker, no epoch seen, no world size and no clock enters, so a run that resumes sees the batches that it
would have seen, and any number of processes share out the same ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from musicgen.data.corpus import Corpus
from musicgen.errors import UserError

_ORDER, _WINDOW = 0, 1
"""What randomness is for: two uses of one seed must not meet."""


class Batch(NamedTuple):
    """Tokens, and the token that follows each; both (rows, length) of int64, padded with the id of `PAD`."""

    inputs: Tensor
    targets: Tensor


class Windows(Dataset[Batch]):
    """Batches of windows, by step: `windows[step]`.

    In every epoch each song is taken once, in a new order, from a random bar on. The bar is drawn from those after
    which the song still fills the window, and the first after which it does not, so that endings are seen too; a
    song that is shorter is taken whole.

    Args:
        corpus: The songs.
        split: Which of them.
        length: Tokens in a window.
        batch_size: Windows in a batch, over all processes.
        seed: Of all randomness.
        transpose: Windows are transposed by up to this many semitones, as far as they stay on the keyboard.
        rank: Which part of each batch to give.
        world_size: In how many parts batches are divided.
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
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.corpus, self.length, self.batch_size, self.seed = corpus, length, batch_size, seed
        self.songs = corpus.songs(split)
        if not self.songs:
            raise UserError(f"the corpus has no songs in the split {split!r}; prepare more songs")
        if batch_size % world_size:
            raise UserError(f"a batch of {batch_size} windows cannot be divided among {world_size} processes")
        share = batch_size // world_size
        self.rows = range(rank * share, (rank + 1) * share)
        self.transpose = transpose
        shifts = range(-transpose, transpose + 1)
        self._permutations = np.stack([corpus.language.transposition(semitones) for semitones in shifts])
        self._starts = [self._window_starts(song_number) for song_number in range(len(self.songs))]
        self._order = lru_cache(maxsize=2)(self._draw_order)

    def __getitem__(self, step: int) -> Batch:
        """The batch of a step: any step from 0 on."""
        padded = np.full((len(self.rows), self.length + 1), self.corpus.language.pad, np.int64)
        for row, place in enumerate(self.rows):
            window = self.window(step * self.batch_size + place)
            padded[row, : len(window)] = window
        tokens = torch.from_numpy(padded)
        return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())

    def window(self, number: int) -> NDArray[np.uint16]:
        """A window's tokens and the one that follows them, at most length + 1.

        Args:
            number: Counts windows from the beginning of training.
        """
        epoch, place = divmod(number, len(self.songs))
        song = int(self._order(epoch)[place])
        random = np.random.default_rng([self.seed, _WINDOW, number])
        starts = self._starts[song]
        start = int(starts[random.integers(len(starts))])
        tokens = self.corpus[self.songs[song]][start : start + self.length + 1]
        down, up = self.corpus.language.headroom(tokens)
        semitones = random.integers(max(down, -self.transpose), min(up, self.transpose), endpoint=True)
        transposed: NDArray[np.uint16] = self._permutations[semitones + self.transpose][tokens]
        return transposed

    def _draw_order(self, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([self.seed, _ORDER, epoch]).permutation(len(self.songs))

    def _window_starts(self, number: int) -> NDArray[np.int64]:
        """Bars of a song at which a window may begin."""
        tokens = self.corpus[self.songs[number]]
        bars = self.corpus.language.bar_starts(tokens)[:-1]  # nothing follows the last, which closes the piece
        full = int(np.searchsorted(bars, len(tokens) - self.length - 1, side="right"))
        return bars[: full + 1]
