"""Training batches by step.

Design note: a batch is a function of (seed, step) and of nothing else. Row i of step s is window number
s * batch_size + i. Which song that is and how it is varied follow from the seed and this number. No worker, epoch,
number of processes or clock plays a part. So a resumed run sees the batches that it would have seen, any number of
processes share the same batches, and no two workers draw the same randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from musicgen.data.corpus import Corpus
from musicgen.errors import UserError
from musicgen.languages.language import Language
from musicgen.languages.vocabulary import Tokens

IGNORED = -100
"""A target that is not predicted: no token of any language, and what torch's losses ignore."""
_ORDER = 0
"""The purpose of the random numbers that order songs. The purposes of examples begin at 1."""


class Batch(NamedTuple):
    """Tokens, the token that follows each, and the musical time of each; all (rows, length).

    A shorter row is filled up with the language's `end` in the inputs and `IGNORED` in the targets.
    """

    inputs: Tensor
    targets: Tensor
    times: Tensor


class Batches(Dataset[Batch]):
    """Batches of windows, by step: `batches[step]`. In every epoch each song is taken once, in a new order.

    Args:
        corpus: The songs.
        split: Which of them.
        length: Tokens in a window.
        batch_size: Windows in a batch, over all processes.
        seed: Seed of all randomness.
        transpose: Most semitones by which windows are transposed.
        mix_drums: Chance that an example has the drums of another song, where the language has drums.
        infill: Chance that an example has gaps to fill.
        beginnings: Chance that a window begins where its song does, where windows begin anywhere.

    Raises:
        UserError: The split has no songs, or the vocabulary has no gaps.
    """

    def __init__(
        self,
        corpus: Corpus,
        split: str = "train",
        *,
        length: int,
        batch_size: int,
        seed: int = 0,
        transpose: int = 0,
        mix_drums: float = 0.0,
        infill: float = 0.0,
        beginnings: float = 0.0,
    ) -> None:
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self._songs, self._language = len(corpus.songs(split)), corpus.language
        if not self._songs:
            raise UserError(f"the corpus has no songs in the split {split!r}; prepare more songs")
        if infill and corpus.language.infill is None:
            raise UserError(f"data.infill={infill:g}: the tokens have none for gaps; add data.tokens=extended")
        augmentation = {
            "transpose": transpose,
            "mix_drums": mix_drums,
            "infill": infill,
            "beginnings": beginnings,
        }
        self.examples = corpus.language.examples(corpus, split, length, augmentation)
        self._orders: dict[int, NDArray[np.int64]] = {}
        self._made: dict[int, Tokens] = {}

    def __getitem__(self, step: int) -> Batch:
        """The batch of a step: any step from 0 on."""
        return self.part(step, range(self.batch_size))

    def part(self, step: int, rows: range) -> Batch:
        """Some rows of the batch of a step: the share of a process, or as many as fit into memory at once."""
        windows = [self.window(step * self.batch_size + row) for row in rows]
        return pad_windows(windows, self.length, self._language)

    def num_targets(self, step: int) -> int:
        """Tokens to predict in the whole batch of a step."""
        first = step * self.batch_size
        return sum(len(self.window(number)) - 1 for number in range(first, first + self.batch_size))

    def window(self, number: int) -> Tokens:
        """The tokens of a window and the one that follows them, at most length + 1.

        Args:
            number: Counts windows from the beginning of training.
        """
        if number not in self._made:
            if len(self._made) >= self.batch_size:  # `num_targets` asks for the windows of a step again
                self._made.clear()
            self._made[number] = self.examples.draw(self.song(number), lambda purpose: self.random(number, purpose))
        return self._made[number]

    def song(self, number: int) -> int:
        """Which song a window comes from."""
        epoch, place = divmod(number, self._songs)
        if epoch not in self._orders:  # only the latest order is kept
            self._orders = {epoch: self.random(epoch, _ORDER).permutation(self._songs)}
        return int(self._orders[epoch][place])

    def random(self, number: int, purpose: int) -> np.random.Generator:
        """Random numbers of a window, for a purpose."""
        return np.random.default_rng([self.seed, purpose, number])


def pad_windows(windows: Sequence[Tokens], length: int, language: Language) -> Batch:
    """Windows of at most length + 1 tokens as a batch."""
    inputs = np.full((len(windows), length), language.end, np.int64)
    targets = np.full((len(windows), length), IGNORED, np.int64)
    for row, window in enumerate(windows):
        inputs[row, : len(window)] = window[:length]
        targets[row, : len(window) - 1] = window[1:]
    return Batch(torch.from_numpy(inputs), torch.from_numpy(targets), times_of(language, inputs))


def times_of(language: Language, tokens: NDArray[Any]) -> Tensor:
    """The musical time of each token in beats, for rows that are read from their beginning; `(rows, length)`."""
    return torch.from_numpy(np.stack([language.clock(row) for row in tokens]))
