"""An example is a function of (seed, step, row): a trio of a groove from a bar on, some instruments, in another key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from grooves import grooves_in_memory
from torch.utils.data import DataLoader

from musicgen.data.batches import IGNORED, Batch, Batches
from musicgen.data.corpus import Corpus
from musicgen.errors import UserError
from musicgen.languages.groove import examples
from musicgen.languages.groove.examples import (
    GrooveExamples,
    draw_trio,
    drop_instruments,
    first_notes,
    skip_bars,
    transpose,
    two_drummers,
    with_drums,
)
from musicgen.languages.groove.song import GrooveSong, choose_notes
from musicgen.midi.score import Notes, make_notes

CORPUS = grooves_in_memory(30, 24)
SONG = CORPUS.songs("train")[0]


def windows(corpus: Corpus = CORPUS, **options: float) -> Batches:
    return Batches(corpus, **{"length": 100, "batch_size": 6, "transpose": 5, **options})  # type: ignore[arg-type]


def example(data: Batches, number: int) -> Notes:
    assert isinstance(data.examples, GrooveExamples)
    return data.examples.notes(data.song(number), lambda purpose: data.random(number, purpose))


def trio_of(song: GrooveSong) -> Notes:
    return choose_notes(CORPUS[song], song)


def same(ours: Batch, theirs: Batch) -> bool:
    return torch.equal(ours.inputs, theirs.inputs) and torch.equal(ours.targets, theirs.targets)


def rows(notes: Notes) -> set[tuple[int, ...]]:
    return {(*tuple(note)[:3], note["track"]) for note in notes}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_the_batches_of_its_steps_with_any_number_of_workers(workers: int) -> None:
    expected = [windows()[step] for step in range(3, 9)]
    loader = DataLoader(windows(), batch_size=None, sampler=range(3, 9), num_workers=workers)
    assert all(same(Batch(*ours), theirs) for ours, theirs in zip(loader, expected, strict=True))


def test_workers_that_are_started_afresh_give_the_same_batches(tmp_path: Path) -> None:
    grooves_in_memory(6, 4).write(tmp_path)
    data = windows(Corpus.open(tmp_path))
    loader = DataLoader(data, batch_size=None, sampler=range(2), num_workers=1, multiprocessing_context="spawn")
    assert all(same(Batch(*ours), data[step]) for step, ours in enumerate(loader))


def test_a_batch_does_not_depend_on_what_was_asked_before() -> None:
    data = windows()
    batches = {step: data[step] for step in (7, 0, 1000, 7, 3, 999_999_999, 3)}
    for step in sorted(batches):
        assert same(windows()[step], batches[step])
    assert not same(batches[0], batches[7])


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_processes_share_out_the_rows_of_one_batch_and_know_how_much_is_to_predict(world_size: int) -> None:
    share = 6 // world_size
    for step in (0, 3):
        whole = windows()[step]
        parts = [windows().part(step, range(i * share, (i + 1) * share)) for i in range(world_size)]
        assert torch.equal(torch.cat([part.inputs for part in parts]), whole.inputs)
        assert torch.equal(torch.cat([part.targets for part in parts]), whole.targets)
        assert windows().num_targets(step) == int((whole.targets != IGNORED).sum())


def test_no_two_epochs_give_a_groove_the_same_randomness() -> None:
    data = windows(length=300)
    count = len(CORPUS.songs("train"))
    for song in range(3):
        numbers = [next(n for n in range(e * count, (e + 1) * count) if data.song(n) == song) for e in range(6)]
        assert len({data.window(number).tobytes() for number in numbers}) > 3


def test_in_an_epoch_every_groove_is_taken_once() -> None:
    data = windows()
    count = len(CORPUS.songs("train"))
    orders = [[data.song(number) for number in range(epoch * count, (epoch + 1) * count)] for epoch in range(2)]
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("length", [5, 100, 512, 5000])
def test_a_window_is_the_beginning_of_its_example_and_ends_with_the_end_if_it_fits(length: int) -> None:
    data, language = windows(length=length), CORPUS.language
    for number in range(40):
        whole = language.encode_notes(example(data, number))
        assert np.array_equal(data.window(number), whole[: length + 1])
        assert not language.grammar.errors(whole)


def test_the_end_is_learnt() -> None:
    short = grooves_in_memory(6, 1)
    batch = Batches(short, length=400, batch_size=4, transpose=5)[0]
    end = short.language.end
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        place = targets.index(end)
        assert targets[place + 1 :] == [IGNORED] * (399 - place)
        assert inputs[place + 1 :] == [end] * (399 - place)


def test_a_trio_is_bass_drums_and_any_of_the_others() -> None:
    song = max(CORPUS.songs("train"), key=lambda song: len(song.tracks))
    seen = Counter[frozenset[tuple[int, ...]]]()
    for seed in range(100):
        trio = draw_trio(CORPUS[song], song, np.random.default_rng(seed))
        assert set(np.unique(trio["track"])) == {0, 1, 2}
        for place in (0, 1):
            assert rows(trio[trio["track"] == place]) == rows(CORPUS[song][CORPUS[song]["track"] == place])
        seen[frozenset(rows(trio[trio["track"] == 2]))] += 1
    assert len(seen) == len(song.tracks) - 2
    assert min(seen.values()) > 100 / len(seen) / 2


def test_judged_is_the_trio_with_the_instrument_that_plays_most_and_nothing_is_drawn() -> None:
    song = max(CORPUS.songs("valid"), key=lambda song: len(song.tracks))
    trio = trio_of(song)
    most = max(track.notes for track in song.tracks if track.part == "other")
    assert (trio["track"] == 2).sum() == most
    first = CORPUS.songs("valid")[0]
    assert np.array_equal(CORPUS.pieces("valid", 1)[0], CORPUS.language.encode_notes(trio_of(first)))
    assert len(CORPUS.pieces("valid")) == len(CORPUS.songs("valid"))


def test_drums_come_from_another_groove_as_often_as_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "SKIP", 0.0)
    monkeypatch.setattr(examples, "DROP", 0.0)
    bands = {tuple(sorted(rows(of_drums(trio_of(song))))) for song in CORPUS.songs("train")}
    for chance in (0.0, 0.5, 1.0):
        data = windows(transpose=0, mix_drums=chance)
        drawn = [(example(data, number), trio_of(CORPUS.songs("train")[data.song(number)])) for number in range(100)]
        own = sum(rows(of_drums(notes)) == rows(of_drums(groove)) for notes, groove in drawn)
        assert abs(own / 100 - (1 - chance)) <= (0.15 if chance else 0.0)  # some drummers play the same
        whole = 0
        for notes, groove in drawn:
            assert rows(notes[notes["track"] == 0]) == rows(groove[groove["track"] == 0])
            whole += tuple(sorted(rows(of_drums(notes)))) in bands
        assert (
            whole == 100 if not chance else 100 - 70 * chance < whole < 100 - 30 * chance
        )  # the rest has two drummers


def test_two_drummers_share_the_kit() -> None:
    one, other = (trio_of(song) for song in CORPUS.songs("train")[:2])
    both = two_drummers(one, other)
    is_low = (both["pitch"] >= 35) & (both["pitch"] <= 40)
    for notes, wanted in ((one, True), (other, False)):
        theirs = {row for row in rows(of_drums(notes)) if (35 <= row[2] <= 40) == wanted}
        assert rows(both[is_low == wanted]) == theirs
    assert len(both)
    assert (both["track"] == 1).all()


def of_drums(notes: Notes) -> Notes:
    return notes[notes["track"] == 1]


def test_drums_of_another_end_with_the_piece_and_nothing_is_silenced() -> None:
    notes, drummer = trio_of(SONG), trio_of(CORPUS.songs("train")[1])
    mixed = with_drums(notes, drummer, 96)
    assert rows(mixed[mixed["track"] != 1]) == rows(notes[notes["track"] != 1])
    assert rows(of_drums(mixed)) == {row for row in rows(of_drums(drummer)) if row[0] < 96}
    assert np.array_equal(with_drums(notes, drummer[drummer["track"] != 1], 96), notes)


def test_a_quarter_of_examples_begin_some_phrases_later_and_no_note_before_them() -> None:
    notes = trio_of(SONG)
    skips = Counter[int]()
    for seed in range(400):
        rest = skip_bars(notes, 24, np.random.default_rng(seed))
        assert rest["start"].min() >= 0
        skip = next(skip for skip in (0, 4, 8, 12) if np.array_equal(rest, shifted(notes, skip)))
        skips[skip] += 1
    assert set(skips) == {0, 4, 8, 12}  # at most half
    assert 60 < 400 - skips[0] < 140


def shifted(notes: Notes, bars: int) -> Notes:
    rest = notes[notes["start"] >= 48 * bars].copy()
    rest["start"] -= 48 * bars
    rest["end"] -= 48 * bars
    return rest


@pytest.mark.parametrize("bars", [1, 4, 7])
def test_short_grooves_are_not_skipped_into(bars: int) -> None:
    notes = make_notes([0, 48], [12, 60], [40, 40], 64)
    assert all(len(skip_bars(notes, bars, np.random.default_rng(seed))) == 2 for seed in range(50))


def test_what_would_be_silent_is_not_skipped_to() -> None:
    notes = make_notes([0, 40], [12, 2000], [40, 41], 64)
    assert all(len(skip_bars(notes, 40, np.random.default_rng(seed))) == 2 for seed in range(50))


def test_instruments_are_dropped_now_and_then_and_never_all() -> None:
    notes = trio_of(SONG)
    heard = Counter(
        tuple(np.unique(drop_instruments(notes, np.random.default_rng(seed))["track"]).tolist()) for seed in range(600)
    )
    assert 600 * 0.7 < heard[0, 1, 2] < 600 * 0.9  # 0.81
    assert {len(tracks) for tracks in heard} >= {2, 3}
    assert min(len(tracks) for tracks in heard) >= 1
    alone = notes[notes["track"] == 1]
    assert all(len(drop_instruments(alone, np.random.default_rng(seed))) == len(alone) for seed in range(50))


@pytest.mark.parametrize("semitones", range(-5, 6))
def test_all_but_drums_are_transposed_and_folded_where_pitches_end(semitones: int) -> None:
    pitches = np.array([0, 2, 60, 125, 127])
    notes = make_notes(np.zeros(15, int), np.ones(15, int), np.tile(pitches, 3), 64, np.repeat([0, 1, 2], 5))
    moved = transpose(notes, semitones)
    assert moved["pitch"].min() >= 0
    assert moved["pitch"].max() <= 127
    assert moved["pitch"][5:10].tolist() == pitches.tolist()
    for place in (0, 10):
        assert ((moved["pitch"][place : place + 5] - pitches - semitones) % 12 == 0).all()
    assert notes["pitch"].tolist() == np.tile(pitches, 3).tolist()  # what the corpus has stays


def test_windows_are_transposed_by_all_that_is_asked() -> None:
    data = windows(length=400, transpose=2)
    plain = windows(length=400, transpose=0)
    moves = set()
    for number in range(60):
        ours, theirs = example(data, number), example(plain, number)
        pitched = ours["track"] != 1
        moves |= set((ours["pitch"] - theirs["pitch"])[pitched].tolist())
        assert not (ours["pitch"] - theirs["pitch"])[~pitched].any()
    assert moves == {-2, -1, 0, 1, 2}


@pytest.mark.parametrize("count", [1, 2, 7, 50, 10_000])
def test_the_first_notes_are_all_that_the_first_tokens_are_of(count: int) -> None:
    for song in CORPUS.songs()[:5]:
        notes = trio_of(song)
        few = CORPUS.language.encode_notes(first_notes(notes, count))
        assert np.array_equal(few[: count + 1], CORPUS.language.encode_notes(notes)[: count + 1])


def test_notes_that_are_folded_together_do_not_end_a_window_early() -> None:
    start = np.repeat(np.arange(300) * 3, 2)
    notes = make_notes(start, start + 2, np.tile([1, 13], 300), 64)  # two semitones down, both are 11
    few = transpose(first_notes(notes, 200), -2)
    whole = transpose(notes, -2)
    language = CORPUS.language
    assert np.array_equal(language.encode_notes(few)[:201], language.encode_notes(whole)[:201])


def test_a_split_without_grooves_is_one_sentence() -> None:
    with pytest.raises(UserError, match="no songs in the split 'valid'"):
        Batches(grooves_in_memory(2, 2), "valid", length=64, batch_size=4)
