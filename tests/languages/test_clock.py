"""The musical time of every language: the same at once and token by token, and the same as decoding tells."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from gapped import gapped_groove, gapped_piece
from grooves import grooves_in_memory
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import END, NOTE, Letters
from pieces import random_piece
from trios import random_groove

from musicgen.errors import UserError
from musicgen.languages import Language, Tokens
from musicgen.languages.registry import LANGUAGES
from musicgen.midi import read_midi
from musicgen.midi.bars import BarLines

LETTERS = Letters()
EVERY = {**LANGUAGES, LETTERS.name: LETTERS}
every_language = pytest.mark.parametrize("language", EVERY.values(), ids=list(EVERY))
seeds, lengths = st.integers(0, 2**32), st.integers(5, 400)
STEP = {LETTERS.name: 0.25}
"""Beats that a note token itself takes: the note begins so much before the time after its token."""
DATA = {
    "remi": "pop1k7",
    "remi-extended": "pop1k7",
    "groove": "grooves",
    "groove-extended": "grooves",
    "letters": "pop1k7",
}


def random_letters(seed: int, length: int) -> Tokens:
    """A walk through the grammar that ends soon after `length` tokens."""
    random, bars = np.random.default_rng(seed), length // 16 + 1
    body = random.integers(END + 1, len(LETTERS.vocabulary), 16 * bars)
    return np.concatenate([[LETTERS.first], body, [END]]).astype(np.uint16)


WALKS: dict[str, Callable[[int, int], Tokens]] = {
    "remi": random_piece,
    "remi-extended": gapped_piece,
    "groove": random_groove,
    "groove-extended": gapped_groove,
    "letters": random_letters,
}


def token_by_token(language: Language, tokens: Tokens) -> list[float]:
    clock = language.start_clock()
    return [clock.advance(token) for token in tokens.tolist()]


def check(language: Language, tokens: Tokens) -> None:
    """Both forms agree, time goes back only where a gap is filled, and it is on the grid."""
    times = language.clock(tokens)
    assert times.dtype == np.float64
    assert times.shape == (len(tokens),)
    assert times.tolist() == token_by_token(language, tokens)
    goes_back = np.diff(times, prepend=0.0) < 0
    assert not goes_back.any() or (language.infill and (tokens[goes_back] == language.infill.fill).all())
    assert np.array_equal(np.rint(times * language.grid) / language.grid, times)


def check_against_decoding(language: Language, tokens: Tokens) -> None:
    """The token of each note stands at the time at which the note begins."""
    words, score = language.vocabulary, language.decode(tokens)
    begins = words.family[tokens] == words.number(language.note_family)
    told = language.clock(tokens)[begins] - STEP.get(language.name, 0.0)
    assert np.array_equal(np.sort(told), np.sort(score.notes["start"]) / score.ticks_per_beat)


def test_every_language_is_tested() -> None:
    assert set(WALKS) == set(EVERY) == set(DATA)


@every_language
@settings(max_examples=40, deadline=None)
@given(seed=seeds, length=lengths)
def test_a_piece_has_one_time(language: Language, seed: int, length: int) -> None:
    tokens = WALKS[language.name](seed, length)
    check(language, tokens)
    check_against_decoding(language, tokens)


@every_language
@settings(max_examples=100, deadline=None)
@given(seed=seeds, length=st.integers(0, 300), is_skewed=st.booleans())
def test_time_is_one_also_through_tokens_that_break_the_grammar(
    language: Language, seed: int, length: int, is_skewed: bool
) -> None:
    random, size = np.random.default_rng(seed), len(language.vocabulary)
    family = random.integers(len(language.vocabulary.families), size=length)  # small families are drawn as often
    starts, counts = zip(*((ids.start, len(ids)) for ids in language.vocabulary.ids.values()), strict=True)
    by_family = np.array(starts)[family] + (random.random(length) * np.array(counts)[family]).astype(np.int64)
    tokens = by_family if is_skewed else random.integers(size, size=length)
    check(language, tokens.astype(np.uint16))


@every_language
@settings(max_examples=30, deadline=None)
@given(seed=seeds, length=lengths, cut=st.floats(0, 1))
def test_time_does_not_depend_on_what_follows(language: Language, seed: int, length: int, cut: float) -> None:
    tokens = WALKS[language.name](seed, length)
    place = round(cut * len(tokens))
    times = language.clock(tokens)
    assert np.array_equal(language.clock(tokens[:place]), times[:place])
    clock = language.start_clock()
    for token in tokens[:place].tolist():
        clock.advance(token)
    assert [clock.advance(token) for token in tokens[place:].tolist()] == times[place:].tolist()


@every_language
@settings(max_examples=20, deadline=None)
@given(seed=seeds, semitones=st.integers(-6, 6))
def test_time_does_not_depend_on_the_key(language: Language, seed: int, semitones: int) -> None:
    tokens = WALKS[language.name](seed, 200)
    moved = language.transposition(semitones)[tokens]
    assert np.array_equal(language.clock(moved), language.clock(tokens))


@every_language
def test_a_bar_is_complete_when_its_beats_are(language: Language) -> None:
    tokens = WALKS[language.name](7, 400)
    beats, bars = language.clock(tokens), language.complete_bars(tokens)
    score = language.decode(tokens)
    ticks = np.rint(beats * score.ticks_per_beat).astype(int).tolist()
    lines = BarLines(score)
    assert np.maximum(bars, 0).tolist() == [lines.bar(tick) for tick in ticks]


def test_the_songs_of_a_corpus_of_grooves_have_the_time_of_their_notes() -> None:
    corpus = grooves_in_memory(4)
    for song in corpus.songs():
        check(corpus.language, corpus.tokens(song))
        check_against_decoding(corpus.language, corpus.tokens(song))


@every_language
def test_real_files_have_one_time(language: Language, real_data: Callable[[str], Path]) -> None:
    files = sorted(real_data(DATA[language.name]).rglob("*.mid"))
    checked = 0
    for path in islice(files, 0, None, max(len(files) // 40, 1)):
        try:
            tokens = language.encode(read_midi(path)).tokens
        except UserError:  # a file in another metre, say
            continue
        check(language, tokens)
        check_against_decoding(language, tokens)
        checked += 1
    assert checked >= 10


def test_notes_of_the_toy_take_time() -> None:
    assert LETTERS.clock(np.array([LETTERS.first, NOTE, NOTE + 5, END])).tolist() == [0.0, 0.25, 0.5, 0.5]
