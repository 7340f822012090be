"""Training batches by step, whatever they are made of.

The hard choice: a batch is a function of (seed, step) and of nothing else. Row i of step s is window number
s * batch_size + i; which song that is and what becomes of it follow from the seed and this number. No worker, no
epoch seen, no world size and no clock enters, so a run that resumes sees the batches that it would have seen, any
number of processes share out the same ones, and no two workers draw the same randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from musicgen.tokens import Tokens

IGNORED = -100
"""A target that is not to be predicted: no token of any language, and what torch's losses ignore."""
_ORDER = 0
"""What randomness is for: two uses of one seed must not meet. Subclasses have numbers of their own, from 1 on."""


class Batch(NamedTuple):
    """Tokens, and the token that follows each; both (rows, length) of int64.

    A row that is shorter goes on with the language's `end` in the inputs and `IGNORED` in the targets.
    """

    inputs: Tensor
    targets: Tensor


class Batches(Dataset[Batch]):
    """Batches of windows, by step: `batches[step]`. In every epoch each song is taken once, in a new order.

    Args:
        songs: How many there are.
        length: Tokens in a window.
        batch_size: Windows in a batch, over all processes.
        seed: Of all randomness.
        end: The token to fill up with.
    """

    def __init__(self, songs: int, length: int, batch_size: int, seed: int, end: int) -> None:
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self._songs, self._end = songs, end
        self._orders: dict[int, NDArray[np.int64]] = {}

    def __getitem__(self, step: int) -> Batch:
        """The batch of a step: any step from 0 on."""
        return self.part(step, range(self.batch_size))

    def part(self, step: int, rows: range) -> Batch:
        """Some rows of the batch of a step: a process's share, or as many as fit the memory at once."""
        windows = [self.window(step * self.batch_size + row) for row in rows]
        return pad_windows(windows, self.length, self._end)

    def num_targets(self, step: int) -> int:
        """Tokens to predict in the whole batch of a step."""
        first = step * self.batch_size
        return sum(self.window_length(number) - 1 for number in range(first, first + self.batch_size))

    def window(self, number: int) -> Tokens:
        """A window's tokens and the one that follows them, at most length + 1.

        Args:
            number: Counts windows from the beginning of training.
        """
        raise NotImplementedError

    def window_length(self, number: int) -> int:
        """How many tokens `window` gives."""
        return len(self.window(number))

    def song(self, number: int) -> int:
        """Which song a window is of."""
        epoch, place = divmod(number, self._songs)
        if epoch not in self._orders:  # the last that was asked for is kept
            self._orders = {epoch: self.random(epoch, _ORDER).permutation(self._songs)}
        return int(self._orders[epoch][place])

    def random(self, number: int, purpose: int) -> np.random.Generator:
        """The randomness of a window, for a purpose."""
        return np.random.default_rng([self.seed, purpose, number])


def pad_windows(windows: Sequence[Tokens], length: int, end: int) -> Batch:
    """Windows of at most length + 1 tokens as a batch."""
    inputs = np.full((len(windows), length), end, np.int64)
    targets = np.full((len(windows), length), IGNORED, np.int64)
    for row, window in enumerate(windows):
        inputs[row, : len(window)] = window[:length]
        targets[row, : len(window) - 1] = window[1:]
    return Batch(torch.from_numpy(inputs), torch.from_numpy(targets))
