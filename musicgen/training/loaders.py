"""From a corpus to what the training loop asks for: parts of batches by step, and fixed windows to be judged on.

The hard choice: the loop's sampler is a range that begins where the run is. What was seen before need not be
remembered or skipped, because a batch is a function of its step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from musicgen.data.batches import Batch, Batches, pad_windows
from musicgen.data.groove_corpus import GrooveCorpus
from musicgen.data.groove_windows import GrooveWindows
from musicgen.data.open import AnyCorpus
from musicgen.data.windows import Windows
from musicgen.errors import UserError
from musicgen.training.config import DataConfig


class Part(NamedTuple):
    """Some rows of a step's batch.

    Attributes:
        inputs: Tokens, `(rows, length)`.
        targets: The tokens that follow them; `IGNORED` where there are none.
        step: The step.
        first_row: Which row of the whole batch the first is.
        num_targets: Tokens to predict in the whole batch.
    """

    inputs: Tensor
    targets: Tensor
    step: int
    first_row: int
    num_targets: int


class Parts(Dataset[Part]):
    """A process's parts of all batches: number i is part i % accumulate of step i // accumulate.

    Args:
        windows: The batches.
        steps: How many of them.
        accumulate: Parts in which this process takes its share.
        rank: Which process this is.
        world_size: Of how many.
    """

    def __init__(self, windows: Batches, steps: int, accumulate: int, rank: int, world_size: int) -> None:
        rows, rest = divmod(windows.batch_size, accumulate * world_size)
        if rest:
            raise UserError(
                f"batch_size={windows.batch_size}: cannot be divided among {world_size} processes, "
                f"each in {accumulate} part(s)"
            )
        self.windows, self.steps, self.accumulate = windows, steps, accumulate
        self.first_rows = [(rank * accumulate + part) * rows for part in range(accumulate)]
        self.rows = rows

    def __len__(self) -> int:
        return self.steps * self.accumulate

    def __getitem__(self, number: int) -> Part:
        step, part = divmod(number, self.accumulate)
        first = self.first_rows[part]
        batch = self.windows.part(step, range(first, first + self.rows))
        return Part(*batch, step, first, self.windows.num_targets(step))


def training_windows(corpus: AnyCorpus, config: DataConfig, batch_size: int, seed: int) -> Batches:
    """The batches that a corpus is trained on: crops of songs, or grooves mixed and thinned out anew each time."""
    length, transpose = config.length, config.transpose
    if isinstance(corpus, GrooveCorpus):
        return GrooveWindows(
            corpus,
            length=length,
            batch_size=batch_size,
            seed=seed,
            transpose=transpose,
            mix_drums=config.mix_drums,
        )
    return Windows(corpus, length=length, batch_size=batch_size, seed=seed, transpose=transpose)


class From(Sampler[int]):
    """Numbers from wherever the run is, when it begins to ask, to the last.

    Args:
        start: Says where the run is.
        total: One more than the last number.
    """

    def __init__(self, start: Callable[[], int], total: int) -> None:
        self.start, self.total = start, total

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start(), self.total))

    def __len__(self) -> int:
        return self.total


def training_loader(parts: Parts, step: Callable[[], int]) -> DataLoader[Part]:
    """The parts still to come.

    Args:
        parts: All parts.
        step: Says at which step the run is.
    """
    sampler = From(lambda: step() * parts.accumulate, len(parts))
    return DataLoader(parts, batch_size=None, sampler=sampler)


class FixedWindows(Dataset[Batch]):
    """Songs of a split from their beginning, each to a length, in batches.

    Args:
        corpus: The songs.
        split: Which of them.
        length: Tokens of each; no more than the longest has.
        batch_size: Songs in a batch.
        songs: How many; None for all.
        rank: Which process this is.
        world_size: Of how many; each takes every world_size-th song.

    Attributes:
        language: Of the tokens.
        songs: How many songs there are, over all processes.
    """

    def __init__(
        self,
        corpus: AnyCorpus,
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
        pieces = [tokens[: self.length + 1] for tokens in pieces[rank::world_size]]
        self.batches = [pieces[first : first + batch_size] for first in range(0, len(pieces), batch_size)]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Batch:
        return pad_windows(self.batches[number], self.length, self.language.end)
