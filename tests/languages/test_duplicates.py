from __future__ import annotations

import random
import time
from collections import defaultdict

import numpy as np
import pytest
from corpora import copy_of

from musicgen.languages import Remi
from musicgen.languages.duplicates import PASSAGE, SAME, Sketch, group_songs, similarity, sketch
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.score import NOTE, Score, make_notes

REMI = Remi()


def sketch_of(score: Score) -> Sketch:
    """As it is made of songs: from what tokens say."""
    return sketch(REMI.decode(REMI.encode(score).tokens))


def partition(groups: list[int], names: list[int]) -> set[frozenset[int]]:
    members = defaultdict(set)
    for name, group in zip(names, groups, strict=True):
        members[group].add(name)
    return {frozenset(group) for group in members.values()}


def tune(steps: list[int], first: int = 60) -> Score:
    start = np.arange(len(steps)) * 240
    return Score(480, make_notes(start, start + 240, first + np.array(steps), 64))


SKETCHES = [sketch_of(compose(seed, 16)) for seed in range(60)]


@pytest.mark.parametrize("semitones", [-6, -1, 0, 5])
@pytest.mark.parametrize("bars", [0, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_copy_in_another_key_bar_and_tempo_with_some_wrong_notes_is_found(
    seed: int, bars: int, semitones: int
) -> None:
    copy = copy_of(compose(seed, 16), seed, semitones=semitones, bars=bars, changed=0.03)
    songs = [*SKETCHES, sketch_of(copy)]
    assert group_songs(songs) == [*range(60), seed]


def test_the_same_notes_in_another_key_and_bar_are_the_same_sketch() -> None:
    for seed in range(10):
        copy = copy_of(compose(seed, 16), seed, semitones=3, bars=2)
        assert np.array_equal(sketch_of(copy), SKETCHES[seed])
        assert similarity(sketch_of(copy), SKETCHES[seed]) == 1


def test_songs_that_were_composed_apart_are_apart() -> None:
    assert group_songs(SKETCHES) == list(range(60))
    most = max(similarity(SKETCHES[i], SKETCHES[j]) for i in range(60) for j in range(i))
    assert most < SAME / 2


def test_copies_of_copies_are_of_one_group_and_the_first_names_it() -> None:
    copies = [copy_of(compose(2, 16), seed, semitones=seed % 5, changed=0.02) for seed in range(6)]
    songs = [SKETCHES[0], *map(sketch_of, copies), SKETCHES[1]]
    assert group_songs(songs) == [0, 1, 1, 1, 1, 1, 1, 7]


def test_groups_do_not_depend_on_the_order_of_songs() -> None:
    songs = list(SKETCHES)
    for seed in range(10):
        songs += [sketch_of(copy_of(compose(seed, 16), copy, changed=0.04)) for copy in range(seed % 4)]
    names = list(range(len(songs)))
    expected = partition(group_songs(songs), names)
    assert len(expected) == 60
    for seed in range(5):
        random.Random(seed).shuffle(names)
        groups = group_songs([songs[name] for name in names])
        assert partition(groups, names) == expected
        assert all(groups[group] == group <= place for place, group in enumerate(groups))


def test_the_same_pitches_in_another_rhythm_are_another_song() -> None:
    song = tune(melody(1))
    notes = song.notes.copy()
    notes["start"] = np.cumsum(np.random.default_rng(0).integers(1, 9, len(notes))) * 120
    notes["end"] = notes["start"] + 120
    assert similarity(sketch_of(song), sketch_of(song.replace(notes=notes))) < SAME


@pytest.mark.parametrize("others", [10, 40])
def test_two_copies_of_a_plain_song_meet_however_common_their_passages_are(others: int) -> None:
    plain = [0] * 20  # a note again and again, which many other songs have somewhere
    songs = [tune(plain), *(tune([0] * 12 + melody(seed)) for seed in range(others)), tune(plain, 65)]
    groups = group_songs([sketch_of(song) for song in songs])
    assert groups[-1] == 0
    assert groups[1:-1] == list(range(1, others + 1))


def melody(seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(-12, 13, 100).tolist()


def test_fifty_copies_of_one_song_are_one_group() -> None:
    copies = [copy_of(compose(3, 16), seed, semitones=seed % 7 - 3, changed=0.03) for seed in range(50)]
    songs = [song for pair in zip(map(sketch_of, copies), SKETCHES[4:54], strict=True) for song in pair]
    groups = group_songs(songs)
    assert set(groups[::2]) == {0}
    assert len(set(groups[1::2])) == 50


@pytest.mark.parametrize("notes", [0, 1, 2, 7, 8, 9])
def test_songs_of_few_notes_have_sketches_too(notes: int) -> None:
    steps = melody(0)[:notes]
    one, other = sketch(tune(steps)), sketch(tune(steps, 64))
    assert len(one)
    assert similarity(one, other) == 1
    assert group_songs([one, other]) == [0, 0]
    if 1 < notes <= PASSAGE:
        assert similarity(one, sketch(tune([*steps[:-1], steps[-1] + 1]))) < SAME


def test_no_songs_are_no_groups() -> None:
    assert group_songs([]) == []
    assert group_songs([sketch(Score(480, np.empty(0, NOTE)))]) == [0]


def test_two_thousand_songs_are_compared_in_a_few_seconds() -> None:
    generator = np.random.default_rng(0)
    common = generator.integers(0, 1 << 63, 40, np.uint64)
    songs = [
        np.unique(np.concatenate([generator.integers(0, 1 << 63, 216, np.uint64), generator.permutation(common)[:20]]))
        for _ in range(2000)
    ]
    songs[1999] = songs[7].copy()
    start = time.process_time()
    groups = group_songs(songs)
    assert time.process_time() - start < 8
    assert groups == [*range(1999), 7]
