from __future__ import annotations

import numpy as np
import pytest
from likelihood_oracle import grooves, pieces_of, songs

from musicgen.data.batches import Batches
from musicgen.data.prepare import compose_songs, gather
from musicgen.evaluation.likelihood.restarts import restarted_windows
from musicgen.languages import Groove, Remi
from musicgen.languages.groove.codec import ticks_after as clock
from musicgen.languages.groove.mask import BAR
from musicgen.midi.score import make_notes

LANGUAGES = [Remi(), Groove()]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
@pytest.mark.parametrize("trained", [1, 7, 60, 200, 10**6])
def test_windows_predict_every_target_once_and_are_no_longer_than_training_windows(
    language: Remi | Groove, trained: int
) -> None:
    for piece in pieces_of(language):
        for length in (1, 90, len(piece) - 1, len(piece) + 50):
            windows = restarted_windows(language, piece, length, trained)
            stop = min(length, len(piece) - 1)
            first = windows[0].first if windows else stop
            assert 0 < first <= trained
            assert all(0 < len(w.passage.targets) == len(w.passage.inputs) <= trained for w in windows)
            predicted = np.concatenate([piece[1 : first + 1], *(w.passage.targets for w in windows)])
            np.testing.assert_array_equal(predicted, piece[1 : stop + 1])
            assert [w.first for w in windows[1:]] == [w.first + len(w.passage.targets) for w in windows[:-1]]


def test_windows_of_pop_piano_begin_with_a_bar_as_training_windows_do() -> None:
    corpus = gather(Remi(), compose_songs(Remi(), 4, 8, 0), 0, None, {})
    trained = Batches(corpus, "train", length=120, batch_size=4)
    begun = {int(trained.window(number)[0]) for number in range(12)}
    assert begun == {Remi.vocabulary["Bar"]}
    for piece in songs(4, 8):
        windows = restarted_windows(Remi(), piece, len(piece), 120)
        assert windows
        for window in windows:
            assert window.begins == "well"
            assert window.passage.inputs[0] == Remi.vocabulary["Bar"]
            np.testing.assert_array_equal(window.passage.inputs, piece[window.first :][: len(window.passage.inputs)])
            assert window.first != len(piece) - 2  # the last Bar begins nothing


def test_a_window_goes_on_to_the_last_bar_that_it_may() -> None:
    piece = songs(1, 8)[0]
    bars = Remi().window_starts(piece).tolist()
    for window, after in zip((w := restarted_windows(Remi(), piece, 10**6, 120)), w[1:], strict=False):
        assert after.first == max(bar for bar in bars if bar - window.first <= 120)


def test_where_no_bar_is_in_reach_a_window_is_cut_and_says_so() -> None:
    piece = songs(1)[0]
    bars = set(Remi().window_starts(piece).tolist())
    windows = restarted_windows(Remi(), piece, len(piece), 10)
    assert {window.begins for window in windows} == {"cut", "well"}
    assert all((window.begins == "cut") == (window.first not in bars) for window in windows)


def test_windows_of_grooves_are_what_the_notes_from_a_bar_on_are_in_tokens() -> None:
    corpus = gather(Groove(), compose_songs(Groove(), 3, 12, 1), 1, None, {})
    seen = 0
    for song in corpus.songs():
        notes = corpus.score(song).notes
        piece = corpus.language.encode_notes(notes)
        windows = restarted_windows(Groove(), piece, len(piece), 200)
        assert windows
        for window in windows:
            assert window.passage.inputs[0] == Groove.first
            begin = int(clock(piece)[window.first + 1])
            assert begin % BAR == 0
            sounds_on = bool(((notes["start"] < begin) & (notes["end"] > begin)).any())
            assert window.begins == ("amid" if sounds_on else "well")
            if sounds_on:
                continue  # no bar at which nothing sounds was in reach
            later = notes[notes["start"] >= begin].copy()
            later["start"] -= begin
            later["end"] -= begin
            anew = corpus.language.encode_notes(later)
            np.testing.assert_array_equal(window.passage.inputs, anew[: len(window.passage.inputs)])
            np.testing.assert_array_equal(window.passage.targets, anew[1:][: len(window.passage.targets)])
            seen += 1
    assert seen


def test_grooves_restart_where_nothing_sounds_if_they_can() -> None:
    names = ["BOS", "NoteOn_1_40", "Shift_2_0", "Shift_2_0", "NoteOff_1_40", "NoteOn_1_41", "Shift_1_0", "NoteOff_1_41"]
    names += [
        "NoteOn_1_42",
        "Shift_2_0",
        "Shift_2_0",
        "NoteOn_2_36",
        "Shift_1_0",
        "NoteOff_1_42",
        "NoteOff_2_36",
        "EOS",
    ]
    piece = Groove.vocabulary.to_ids(names)
    silent, sounding = 5, 11  # at bars 1 and 2; the second has a note that goes on
    assert [window.first + 1 for window in restarted_windows(Groove(), piece, 99, 12)] == [silent]
    assert [window.first + 1 for window in restarted_windows(Groove(), piece, 99, 6)] == [silent, sounding]
    assert grooves(1)[0][0] == Groove.first


def test_a_silent_bar_is_chosen_before_a_later_one_where_notes_sound_on() -> None:
    starts = np.arange(0, 8 * BAR, BAR // 4)
    ends = starts + BAR // 8
    ends[(starts + BAR // 4) % (2 * BAR) == BAR] += BAR // 4  # a note is held over every other bar line
    notes = make_notes(starts, ends, 60 + np.arange(len(starts)) % 5, 64, 2)
    piece = Groove().encode_notes(notes)
    windows = restarted_windows(Groove(), piece, len(piece), 50)
    assert windows
    assert {window.begins for window in windows} == {"well"}
    assert all(int(clock(piece)[window.first + 1]) % (2 * BAR) == 0 for window in windows)
