"""Data for the training loop: parts of batches by step, and fixed windows for validation.

Design note: a batch is a function of its step. So the sampler is a range that starts at the current step, and resuming
needs no record of what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from musicgen.data.batches import Batch, Batches, pad_windows
from musicgen.data.corpus import Corpus
from musicgen.errors import UserError
from musicgen.languages.vocabulary import Tokens
from musicgen.training.config import DataConfig


class Part(NamedTuple):
    """Some rows of the batch of a step.

    Attributes:
        inputs: Tokens, `(rows, length)`.
        targets: The tokens that follow them, `(rows, length)`; `IGNORED` after the end of a piece.
        times: Their musical times in beats, `(rows, length)`.
        step: The step.
        first_row: The index of the first row in the whole batch.
        num_targets: Number of tokens to predict in the whole batch.
    """

    inputs: Tensor
    targets: Tensor
    times: Tensor
    step: int
    first_row: int
    num_targets: int


class Source(Protocol):
    """Batches by step: the whole batch of a step is a function of the step."""

    batch_size: int

    def part(self, step: int, rows: range) -> tuple[Any, ...]:
        """Some rows of the batch of a step."""
        ...

    def num_targets(self, step: int) -> int:
        """Number of targets in the whole batch of a step."""
        ...


class Parts(Dataset[Any]):
    """The parts of all batches that one process computes: number i is part i % accumulate of step i // accumulate.

    Args:
        windows: The batches.
        steps: Number of batches.
        accumulate: Number of parts per step in this process.
        rank: The index of this process.
        world_size: The number of processes.
        kind: What a part is: made of its rows, the step, the first row, and the number of targets.
    """

    def __init__(
        self,
        windows: Source,
        steps: int,
        accumulate: int,
        rank: int,
        world_size: int,
        kind: Callable[..., Any] = Part,
    ) -> None:
        rows, rest = divmod(windows.batch_size, accumulate * world_size)
        if rest:
            raise UserError(
                f"batch_size={windows.batch_size}: cannot be divided among {world_size} processes, "
                f"each in {accumulate} part(s)"
            )
        self.windows, self.steps, self.accumulate = windows, steps, accumulate
        self.first_rows = [(rank * accumulate + part) * rows for part in range(accumulate)]
        self.rows, self.kind = rows, kind

    def __len__(self) -> int:
        return self.steps * self.accumulate

    def __getitem__(self, number: int) -> Any:
        step, part = divmod(number, self.accumulate)
        first = self.first_rows[part]
        batch = self.windows.part(step, range(first, first + self.rows))
        return self.kind(*batch, step, first, self.windows.num_targets(step))


def training_windows(corpus: Corpus, config: DataConfig, batch_size: int, seed: int) -> Batches:
    """The batches that a corpus is trained on."""
    return Batches(
        corpus,
        length=config.length,
        batch_size=batch_size,
        seed=seed,
        transpose=config.transpose,
        mix_drums=config.mix_drums,
        infill=config.infill,
        beginnings=config.beginnings,
    )


class From(Sampler[int]):
    """Numbers from the current place of the run to the last.

    Args:
        start: Returns the current number.
        total: One more than the last number.
    """

    def __init__(self, start: Callable[[], int], total: int) -> None:
        self.start, self.total = start, total

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start(), self.total))

    def __len__(self) -> int:
        return self.total


def training_loader(parts: Parts, step: Callable[[], int]) -> DataLoader[Any]:
    """A loader of the remaining parts."""
    sampler = From(lambda: step() * parts.accumulate, len(parts))
    return DataLoader(parts, batch_size=None, sampler=sampler)


class FixedWindows(Dataset[Batch]):
    """The first tokens of each song of a split, in batches.

    Args:
        corpus: The corpus.
        split: The split.
        length: Tokens per song, at most those of the longest song.
        batch_size: Songs per batch.
        songs: Number of songs. None means all.
        rank: The index of this process.
        world_size: The number of processes. Each takes every world_size-th song.

    Attributes:
        language: The token language.
        songs: Number of songs over all processes.
    """

    def __init__(
        self,
        corpus: Corpus,
        split: str,
        length: int,
        batch_size: int,
        songs: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        pieces = corpus.pieces(split, songs)
        self.language, self.songs = corpus.language, len(pieces)
        self.length = min(length, max((len(tokens) - 1 for tokens in pieces), default=length))
        pieces = [tokens for piece in pieces[rank::world_size] if (tokens := self.window(piece)) is not None]
        self.batches = [pieces[first : first + batch_size] for first in range(0, len(pieces), batch_size)]

    def window(self, piece: Tokens) -> Tokens | None:
        """The tokens of a song's window and the one that follows; None if it has none."""
        return piece[: self.length + 1]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Batch:
        return pad_windows(self.batches[number], self.length, self.language)


class GapWindows(FixedWindows):
    """The beginnings of songs with bars taken out, always the same ones, and their fills after them."""

    def window(self, piece: Tokens) -> Tokens | None:
        """A sequence with gaps; None if the song has fewer than two bars."""
        assert self.language.infill is not None  # noqa: S101
        return self.language.infill.example(piece, self.length, np.random.default_rng(len(piece)))
