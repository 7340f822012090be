"""Training windows: random crops of songs, transposed, as batches.

The hard choice: a batch is a function of (seed, step) and of nothing else. Row i of step s is window number
s * batch_size + i; which song that is, where it is cropped and how it is transposed follow from the seed and this
number. No worker, no epoch seen, no world size and no clock enters, so a run that resumes sees the batches that it
would have seen, and any number of processes share out the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from musicgen.data.corpus import Corpus
from musicgen.errors import UserError

_ORDER, _CROP, _TRANSPOSITION = 0, 1, 2
"""What randomness is for: two uses of one seed must not meet."""


class Batch(NamedTuple):
    """Tokens, and the token that follows each; both (rows, length) of int64, padded with the id of `PAD`."""

    inputs: Tensor
    targets: Tensor


class Crop(NamedTuple):
    """A part of a song: its number among the songs, its first token and the one after its last."""

    song: int
    start: int
    stop: int


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
        self.corpus, self.length, self.batch_size, self.seed = corpus, length, batch_size, seed
        self.songs = corpus.songs(split)
        if not self.songs:
            raise UserError(f"the corpus has no songs in the split {split!r}; prepare more songs")
        self.transpose = transpose
        shifts = range(-transpose, transpose + 1)
        self._permutations = np.stack([corpus.language.transposition(semitones) for semitones in shifts])
        self._starts = [self._window_starts(song) for song in range(len(self.songs))]
        self._orders: dict[int, NDArray[np.int64]] = {}

    def __getitem__(self, step: int) -> Batch:
        """The batch of a step: any step from 0 on."""
        return self.part(step, range(self.batch_size))

    def part(self, step: int, rows: range) -> Batch:
        """Some rows of the batch of a step: a process's share, or as many as fit the memory at once."""
        windows = [self.window(step * self.batch_size + row) for row in rows]
        return pad_windows(windows, self.length, self.corpus.language.pad)

    def num_targets(self, step: int) -> int:
        """Tokens to predict in the whole batch of a step."""
        crops = (self.crop(step * self.batch_size + row) for row in range(self.batch_size))
        return sum(stop - start - 1 for _, start, stop in crops)

    def crop(self, number: int) -> Crop:
        """Where a window is taken.

        Args:
            number: Counts windows from the beginning of training.
        """
        epoch, place = divmod(number, len(self.songs))
        song = int(self._order(epoch)[place])
        starts = self._starts[song]
        start = int(starts[self._random(number).integers(len(starts))])
        return Crop(song, start, min(start + self.length + 1, self.songs[song].tokens))

    def window(self, number: int) -> NDArray[np.uint16]:
        """A window's tokens and the one that follows them, at most length + 1, transposed.

        Args:
            number: Counts windows from the beginning of training.
        """
        song, start, stop = self.crop(number)
        tokens = self.corpus[self.songs[song]][start:stop]
        down, up = self.corpus.language.headroom(tokens)
        lowest, highest = max(down, -self.transpose), min(up, self.transpose)
        semitones = self._random(number, _TRANSPOSITION).integers(lowest, highest, endpoint=True)
        transposed: NDArray[np.uint16] = self._permutations[semitones + self.transpose][tokens]
        return transposed

    def _random(self, number: int, purpose: int = _CROP) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose, number])

    def _order(self, epoch: int) -> NDArray[np.int64]:
        """The songs of an epoch; the last that was asked for is kept."""
        if epoch not in self._orders:
            self._orders = {epoch: self._random(epoch, _ORDER).permutation(len(self.songs))}
        return self._orders[epoch]

    def _window_starts(self, number: int) -> NDArray[np.int64]:
        """Bars of a song at which a window may begin."""
        tokens = self.corpus[self.songs[number]]
        bars = self.corpus.language.bar_starts(tokens)[:-1]  # nothing follows the last, which closes the piece
        full = int(np.searchsorted(bars, len(tokens) - self.length - 1, side="right"))
        return bars[: full + 1]


def pad_windows(windows: Sequence[NDArray[np.uint16]], length: int, pad: int) -> Batch:
    """Windows of at most length + 1 tokens as a batch."""
    padded = np.full((len(windows), length + 1), pad, np.int64)
    for row, window in enumerate(windows):
        padded[row, : len(window)] = window
    tokens = torch.from_numpy(padded)
    return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
