"""Examples as batches.

As for songs, a batch is a function of (seed, step): row i of step s is example number s * batch_size + i, and every
epoch has its own order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from musicgen.arena.config import ClassifierConfig
from musicgen.arena.dataset import Dataset


class Examples(NamedTuple):
    """Examples, padded to the longest of them.

    Attributes:
        tokens: Token ids, `(rows, sequences, length)`.
        lengths: How many are real, `(rows, sequences)`.
        labels: `(rows,)`.
    """

    tokens: Tensor
    lengths: Tensor
    labels: Tensor


class ExamplePart(NamedTuple):
    """Some rows of the batch of a step: `Examples`, then the same as in `musicgen.training.loaders.Part`."""

    tokens: Tensor
    lengths: Tensor
    labels: Tensor
    step: int
    first_row: int
    num_targets: int


def collate(dataset: Dataset, config: ClassifierConfig, split: str, numbers: Sequence[int]) -> Examples:
    """Examples of a split, by their numbers.

    With the published quirks attention reads padding, so all are padded to the same length.
    """
    examples = dataset.splits[split]
    rows = [[dataset.sequence(place, config.length) for place in examples.sequences[number]] for number in numbers]
    lengths = np.array([[len(sequence) for sequence in row] for row in rows], np.int64)
    width = config.length if config.published else max(1, int(lengths.max()))
    tokens = np.zeros((*lengths.shape, width), np.int64)
    for row, sequences in enumerate(rows):
        for column, sequence in enumerate(sequences):
            tokens[row, column, : len(sequence)] = sequence.astype(np.int64) + config.first_token
    labels = examples.labels[np.asarray(numbers)]
    return Examples(torch.from_numpy(tokens), torch.from_numpy(lengths), torch.from_numpy(labels))


class ExampleBatches:
    """The training batches, by step.

    Args:
        dataset: The data.
        config: The classifier.
        batch_size: Examples in a batch, over all processes.
        seed: Seed of the order.
    """

    def __init__(self, dataset: Dataset, config: ClassifierConfig, batch_size: int, seed: int) -> None:
        self.dataset, self.config, self.batch_size, self.seed = dataset, config, batch_size, seed
        self._count = len(dataset.splits["train"])
        self._orders: dict[int, NDArray[np.int64]] = {}

    def part(self, step: int, rows: range) -> Examples:
        """Some rows of the batch of a step."""
        numbers = [self._example(step * self.batch_size + row) for row in rows]
        return collate(self.dataset, self.config, "train", numbers)

    def num_targets(self, step: int) -> int:  # noqa: ARG002 - the same in every step
        """Number of examples in the batch of a step."""
        return self.batch_size

    def _example(self, number: int) -> int:
        epoch, place = divmod(number, self._count)
        if epoch not in self._orders:
            self._orders = {epoch: np.random.default_rng([self.seed, epoch]).permutation(self._count)}
        return int(self._orders[epoch][place])
