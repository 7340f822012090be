from __future__ import annotations

import pytest
import torch

from musicgen.data.batches import IGNORED, Batches
from musicgen.data.corpus import Corpus
from musicgen.data.prepare import compose_songs, gather
from musicgen.errors import UserError
from musicgen.languages import Remi
from musicgen.training.loaders import FixedWindows, Parts, training_loader


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return gather(Remi(), compose_songs(Remi(), 30, 4, 0), 0, None, {})


@pytest.mark.parametrize(("world", "accumulate"), [(1, 1), (2, 1), (1, 4), (2, 2), (4, 2)])
def test_parts_of_all_processes_are_the_batch(corpus: Corpus, world: int, accumulate: int) -> None:
    windows = Batches(corpus, length=200, batch_size=8, seed=3, transpose=6)
    for step in range(5):
        whole = windows[step]
        rows: dict[int, torch.Tensor] = {}
        for rank in range(world):
            parts = Parts(windows, 10, accumulate, rank, world)
            for number in range(accumulate):
                part = parts[step * accumulate + number]
                assert part.step == step
                assert part.num_targets == (whole.targets != IGNORED).sum()
                rows |= {part.first_row + row: tokens for row, tokens in enumerate(part.inputs)}
        assert torch.equal(torch.stack([rows[row] for row in range(8)]), whole.inputs)


def test_a_batch_that_cannot_be_divided_is_refused(corpus: Corpus) -> None:
    with pytest.raises(UserError, match="batch_size=8: cannot be divided among 3 processes"):
        Parts(Batches(corpus, length=64, batch_size=8), 10, 1, 0, 3)


@pytest.mark.parametrize("start", [0, 3, 9, 10])
def test_a_loader_begins_where_the_run_is(corpus: Corpus, start: int) -> None:
    parts = Parts(Batches(corpus, length=20, batch_size=4), 10, 2, 0, 1)
    loader = training_loader(parts, lambda: start)
    steps = [part.step for part in loader]
    assert steps == [step for step in range(start, 10) for _ in range(2)]


@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_song_is_judged_once_from_its_beginning(corpus: Corpus, world: int) -> None:
    length, beginnings = 50, []
    for rank in range(world):
        windows = FixedWindows(corpus, "train", length, 4, 10, rank, world)
        for number in range(len(windows)):
            batch = windows[number]
            assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
            beginnings += [tuple(row) for row in batch.inputs.tolist()]
    expected = [tuple(corpus[song][:length].tolist()) for song in corpus.songs("train")[:10]]
    assert sorted(beginnings) == sorted(expected)
