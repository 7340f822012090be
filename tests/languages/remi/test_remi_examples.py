"""A batch is a function of (seed, step); a window is a crop of a song, from a bar on, in another key."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import encode_song, in_memory
from torch.utils.data import DataLoader

from musicgen.data.batches import IGNORED, Batch, Batches
from musicgen.data.corpus import Corpus
from musicgen.data.prepare import gather
from musicgen.errors import UserError
from musicgen.languages import Remi
from musicgen.languages.examples import Crops
from musicgen.midi.score import Score, make_notes

CORPUS = in_memory(14, 12)
BAR = CORPUS.language.vocabulary["Bar"]
PITCH = CORPUS.language.vocabulary.ids["Pitch"]


def windows(corpus: Corpus = CORPUS, **options: int) -> Batches:
    return Batches(corpus, **{"length": 100, "batch_size": 4, "transpose": 6, **options})  # type: ignore[arg-type]


def same(ours: Batch, theirs: Batch) -> bool:
    return torch.equal(ours.inputs, theirs.inputs) and torch.equal(ours.targets, theirs.targets)


def transpositions(window: np.ndarray) -> Iterator[tuple[int, str, int]]:
    """Where a window may have come from: semitones, song and place, for all of the corpus."""
    for semitones in range(-6, 7):
        original = CORPUS.language.transposition(-semitones)[window]
        for song in CORPUS.songs("train"):
            tokens = CORPUS[song]
            for place in np.flatnonzero(tokens == BAR):
                if np.array_equal(tokens[place : place + len(original)], original):
                    yield semitones, song.path, int(place)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("first", [0, 5])
def test_a_loader_gives_the_batches_of_its_steps_with_any_number_of_workers(workers: int, first: int) -> None:
    expected = [windows()[step] for step in range(first, first + 6)]
    loader = DataLoader(windows(), batch_size=None, sampler=range(first, first + 6), num_workers=workers)
    assert all(same(Batch(*ours), theirs) for ours, theirs in zip(loader, expected, strict=True))


def test_workers_that_are_started_afresh_give_the_same_batches(tmp_path: Path) -> None:
    in_memory(4, 4).write(tmp_path)
    data = windows(Corpus.open(tmp_path))
    loader = DataLoader(
        data, batch_size=None, sampler=range(2), num_workers=1, multiprocessing_context="spawn"
    )  # as on macOS and Windows
    assert all(same(Batch(*ours), data[step]) for step, ours in enumerate(loader))


def test_a_batch_does_not_depend_on_what_was_asked_before() -> None:
    data = windows()
    order = [7, 0, 1000, 7, 3, 999_999_999, 3]
    batches = {step: data[step] for step in order}
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002  (the global generator must not matter)
    for step in sorted(batches):
        assert same(windows()[step], batches[step])
    assert not same(batches[0], batches[7])


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_processes_share_out_the_rows_of_one_batch(world_size: int) -> None:
    data = windows(batch_size=12)
    share = 12 // world_size
    for step in (0, 3, 11):
        parts = [windows(batch_size=12).part(step, range(i * share, (i + 1) * share)) for i in range(world_size)]
        assert {part.inputs.shape for part in parts} == {(share, 100)}
        assert torch.equal(torch.cat([part.inputs for part in parts]), data[step].inputs)
        assert torch.equal(torch.cat([part.targets for part in parts]), data[step].targets)


def test_the_tokens_to_predict_are_counted_without_making_the_batch() -> None:
    data = windows(length=300)
    for step in range(8):
        assert data.num_targets(step) == int((data[step].targets != IGNORED).sum())


def test_a_crop_is_where_the_window_comes_from() -> None:
    data = windows(length=300, transpose=0)
    for number in range(30):
        song = data.song(number)
        assert isinstance(data.examples, Crops)
        start, stop = data.examples.crop(song, lambda purpose, number=number: data.random(number, purpose))
        assert np.array_equal(CORPUS[CORPUS.songs("train")[song]][start:stop], data.window(number))


def test_windows_begin_where_songs_do_as_often_as_is_asked_and_nothing_else_changes() -> None:
    plain, often = windows(length=100, transpose=0), windows(length=100, transpose=0, beginnings=0.5)
    moved = 0
    for number in range(200):
        song = CORPUS[CORPUS.songs("train")[often.song(number)]]
        if not np.array_equal(plain.window(number), often.window(number)):
            moved += 1
            assert np.array_equal(often.window(number), song[: len(often.window(number))])
    assert 70 < moved < 110  # some began there by chance


def test_windows_are_numbered_through_whatever_the_batch_size() -> None:
    small, large = windows(batch_size=2), windows(batch_size=6)
    assert torch.equal(torch.cat([small[step].inputs for step in range(3, 6)]), large[1].inputs)


def test_another_seed_gives_other_batches_and_the_same_seed_the_same() -> None:
    assert same(windows(seed=3)[2], windows(seed=3)[2])
    assert not same(windows(seed=3)[2], windows(seed=4)[2])


def test_in_an_epoch_every_song_is_taken_once_in_a_new_order() -> None:
    data = windows()
    count = len(CORPUS.songs("train"))
    assert count == 12
    orders = []
    for epoch in range(3):
        numbers = range(epoch * count, (epoch + 1) * count)
        orders.append([next(transpositions(data.window(number)))[1] for number in numbers])
        assert len(set(orders[-1])) == count
    assert orders[0] != orders[1] != orders[2]


def test_targets_are_the_inputs_one_token_later_and_the_rest_is_padding() -> None:
    end = CORPUS.language.end
    data = windows(length=300)
    padded = 0
    for step in range(6):
        batch = data[step]
        assert batch.inputs.dtype == batch.targets.dtype == torch.int64
        assert batch.inputs.shape == batch.targets.shape == (4, 300)
        for inputs, targets, place in zip(batch.inputs, batch.targets, range(4), strict=True):
            window = data.window(step * 4 + place).tolist()
            assert inputs.tolist() == window[:300] + [end] * (300 - len(window))
            assert targets.tolist() == window[1:] + [IGNORED] * (301 - len(window))
            assert IGNORED not in window
            padded += len(window) < 300
    assert padded


@pytest.mark.parametrize("length", [5, 50, 300, 2048])
def test_a_window_begins_at_a_bar_and_fills_up_if_it_can(length: int) -> None:
    data = windows(length=length)
    for number in range(60):
        window = data.window(number)
        assert window[0] == BAR
        semitones, path, place = next(transpositions(window))
        song = next(song for song in CORPUS.songs() if song.path == path)
        assert -6 <= semitones <= 6
        assert len(window) == min(length + 1, song.tokens - place)
        if song.tokens <= length + 1:
            assert place == 0
        assert len(window) > 2  # never the closing bar alone


def test_every_bar_that_can_begin_a_window_does_and_every_ending_is_seen() -> None:
    song = CORPUS.songs("train")[0]
    alone = Corpus(CORPUS.array, (song,), CORPUS.language, {})
    bars = np.flatnonzero(CORPUS[song] == BAR)
    length = song.tokens - int(bars[6])  # from this bar on, nothing but the token after the window is missing
    data = Batches(alone, length=length, batch_size=1, transpose=6)
    starts, endings = Counter[int](), 0
    for number in range(200):
        window = data.window(number)
        starts[next(transpositions(window))[2]] += 1
        endings += window[-1] == CORPUS.language.end
    full = [int(bar) for bar in bars if bar + length + 1 <= song.tokens]
    after = int(bars[len(full)])
    assert set(starts) == {*full, after}
    assert min(starts.values()) > 200 / len(starts) / 3
    assert endings >= starts[after] > 0


def test_windows_are_transposed_by_all_that_is_asked_and_chords_go_along() -> None:
    data = windows(length=120)
    seen = Counter(min(next(transpositions(data.window(number)))[:1]) for number in range(200))
    assert set(seen) == set(range(-6, 7))
    assert max(seen.values()) < 4 * min(seen.values()) + 10


def test_without_transposition_windows_are_as_the_songs_are() -> None:
    data = windows(transpose=0)
    assert all(next(transpositions(data.window(number)))[0] == 0 for number in range(24))


@pytest.mark.parametrize(("low", "high"), [(21, 108), (21, 60), (24, 108), (60, 107)])
def test_no_note_leaves_the_keyboard(low: int, high: int) -> None:
    start = np.arange(40) * 240
    pitches = np.linspace(low, high, 40).astype(int)
    score = Score(480, make_notes(start, start + 240, pitches, 64))
    corpus = gather(Remi(), [encode_song(score, "a.mid", "0" * 64)], 0, None, {})
    data = windows(corpus, length=500)
    original = corpus.array[(corpus.array >= PITCH.start) & (corpus.array < PITCH.stop)].astype(int)
    moves = set()
    for number in range(60):
        window = data.window(number).astype(int)
        moved = window[(window >= PITCH.start) & (window < PITCH.stop)] - original
        assert len(set(moved.tolist())) == 1
        moves.add(int(moved[0]))
    assert moves == set(range(max(-6, 21 - low), min(6, 108 - high) + 1))


def test_a_split_without_songs_is_one_sentence() -> None:
    with pytest.raises(UserError, match="no songs in the split 'valid'"):
        Batches(in_memory(2, 2), "valid", length=64, batch_size=4)


@pytest.mark.parametrize(("split", "count"), [("train", 12), ("valid", 1), ("test", 1)])
def test_windows_are_of_one_split(split: str, count: int) -> None:
    data = Batches(CORPUS, split, length=64, batch_size=4)
    paths = {song.path for song in CORPUS.songs(split)}
    assert len(paths) == count
    joined = [CORPUS[song] for song in CORPUS.songs(split)]
    for number in itertools.islice(itertools.count(), 2 * count):
        window = data.window(number)
        assert any(
            np.array_equal(tokens[place : place + len(window)], window)
            for tokens in joined
            for place in np.flatnonzero(tokens == BAR)
        )
