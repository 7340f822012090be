from __future__ import annotations

import numpy as np
import pytest
from gapped import gapped_piece, piano_gaps, piano_walk
from hypothesis import given, settings
from hypothesis import strategies as st
from pieces import EXTENDED, random_piece

from musicgen.languages import TokenError, Tokens
from musicgen.languages.infill import Gap
from musicgen.languages.remi.synthetic import compose

WORDS, GRAMMAR, INFILL = EXTENDED.vocabulary, EXTENDED.grammar, EXTENDED.infill
seeds = st.integers(0, 2**32)
HEAD = ["Bar", "Metre_4/4", "Beat_0", "Tempo_120"]
NOTE = ["Pitch_60", "Velocity_63", "Duration_12"]


def gaps_of(tokens: Tokens) -> list[Gap]:
    """The gaps of a sequence, as its grammar reads them."""
    state = GRAMMAR.start()
    for token in tokens.tolist():
        state.advance(token)
    return [Gap(gap.bar, gap.bars) for gap in state.counters.gaps]


def test_new_tokens_stand_at_the_end() -> None:
    assert WORDS.names[-17:] == (*(f"Gap_{bars}" for bars in range(1, 17)), "Fill")
    assert "Gap" not in type(EXTENDED).__mro__[1].vocabulary.families


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_composed_songs_come_back_from_their_gaps(seed: int) -> None:
    """Their notes end before the bar line, so nothing is cut at a gap."""
    piece = EXTENDED.encode(EXTENDED.complete(compose(seed, 4 + seed % 6))).tokens
    gaps = piano_gaps(seed, int(EXTENDED.complete_bars(piece)[-1]))
    tokens = INFILL.take_out(piece, gaps)
    assert GRAMMAR.errors(tokens) == []
    assert gaps_of(tokens) == list(gaps)
    whole = INFILL.put_in(tokens)
    assert GRAMMAR.errors(whole) == []
    assert np.array_equal(INFILL.take_out(whole, gaps), tokens)
    ours, theirs = EXTENDED.decode(whole), EXTENDED.decode(piece)
    assert np.array_equal(ours.notes[["start", "pitch", "velocity"]], theirs.notes[["start", "pitch", "velocity"]])
    assert (ours.notes["end"] <= theirs.notes["end"]).all()
    assert ours.chords == theirs.chords
    assert np.array_equal(ours.tempos, theirs.tempos)
    assert np.array_equal(EXTENDED.decode(tokens).notes, ours.notes)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, length=st.integers(20, 200))
def test_pieces_of_any_metres_are_accepted_with_gaps(seed: int, length: int) -> None:
    piece = random_piece(seed, length, EXTENDED)
    tokens = gapped_piece(seed, length)
    assert GRAMMAR.errors(tokens) == []
    gaps = gaps_of(tokens)
    assert np.array_equal(INFILL.take_out(INFILL.put_in(tokens), gaps), tokens)
    whole = EXTENDED.decode(tokens)
    assert np.array_equal(whole.notes["start"], EXTENDED.decode(piece).notes["start"])
    assert whole.time_signatures == EXTENDED.decode(piece).time_signatures


@settings(max_examples=30, deadline=None)
@given(seed=seeds, length=st.integers(10, 80))
def test_everything_that_the_grammar_accepts_is_written_by_taking_bars_out(seed: int, length: int) -> None:
    tokens = piano_walk(seed, length)
    assert np.array_equal(INFILL.take_out(INFILL.put_in(tokens), gaps_of(tokens)), tokens)


def test_what_follows_says_its_chord_and_tempo_again() -> None:
    bars = [
        [*HEAD, *NOTE],
        ["Bar", "Beat_0", "Chord_C_M", "Tempo_90", *NOTE],
        ["Bar", "Beat_12", *NOTE],
        ["Bar", "EOS"],
    ]
    piece = WORDS.to_ids([name for bar in bars for name in bar])
    assert GRAMMAR.errors(piece) == []
    tokens = INFILL.take_out(piece, [Gap(1, 1)])
    assert WORDS.to_names(tokens) == [
        *HEAD, *NOTE, "Bar", "Gap_1", "Bar", "Beat_0", "Chord_C_M", "Tempo_90", "Beat_12", *NOTE, "Bar",
        "Fill", "Bar", "Beat_0", "Chord_C_M", "Tempo_90", *NOTE, "Bar", "EOS",
    ]  # fmt: skip
    assert EXTENDED.clock(tokens).tolist()[7:11] == [4, 8, 8, 8]
    assert np.array_equal(INFILL.put_in(tokens), piece)


def test_a_gap_has_one_metre() -> None:
    names = [*HEAD, *NOTE, "Bar", "Beat_0", *NOTE, "Bar", "Metre_3/4", "Beat_0", *NOTE, "Bar", "EOS"]
    piece = WORDS.to_ids(names)
    assert not INFILL.can_take_out(piece, [Gap(1, 2)])
    with pytest.raises(TokenError, match="the metre changes"):
        INFILL.take_out(piece, [Gap(1, 2)])
    tokens = INFILL.take_out(piece, [Gap(2, 1)])
    assert WORDS.to_names(tokens)[13:] == ["Metre_3/4", "Gap_1", "Bar", "Fill", "Bar", "Beat_0", *NOTE, "Bar", "EOS"]
    assert GRAMMAR.errors(tokens) == []


@pytest.mark.parametrize(
    "names",
    [
        ["Bar", "Gap_1"],  # before the metre
        [*HEAD, *NOTE, "Gap_1"],  # not on a bar line
        [*HEAD, "Pitch_60", "Velocity_63", "Duration_60", "Bar", "Gap_2"],  # a note ends in it
        [*HEAD, *NOTE, "Bar", "Fill"],
        [*HEAD, *NOTE, "Bar", "Gap_1", "Bar", "Gap_1"],  # no bar between two gaps
        [*HEAD, *NOTE, "Bar", "Gap_1", "Bar", "EOS"],  # it is not filled
        [*HEAD, *NOTE, "Bar", "Gap_2", "Bar", "Fill", "Bar", "Bar", "EOS"],  # a bar is missing
        [*HEAD, *NOTE, "Bar", "Gap_1", "Bar", "Fill", "Bar", "Bar", "Bar"],  # there is one bar
        [*HEAD, *NOTE, "Bar", "Gap_1", "Bar", "Fill", "Bar", "Metre_3/4"],
        [*HEAD, *NOTE, "Bar", "Gap_1", "Bar", "Beat_0", *NOTE, "Bar", "Fill", "Bar", "Beat_42", *NOTE],  # too long
    ],
)  # fmt: skip
def test_the_last_token_may_not_follow(names: list[str]) -> None:
    errors = GRAMMAR.errors(WORDS.to_ids(names), complete=False)
    assert [error.place for error in errors] == [len(names) - 1]


@settings(max_examples=20, deadline=None)
@given(seed=seeds, length=st.integers(60, 300))
def test_examples_fit_their_windows_and_are_sequences_with_gaps(seed: int, length: int) -> None:
    piece = EXTENDED.encode(EXTENDED.complete(compose(seed, 8))).tokens
    tokens = INFILL.example(piece[: length + 1], length, np.random.default_rng(seed))
    if tokens is not None:
        assert len(tokens) <= length + 1
        assert GRAMMAR.errors(tokens) == []
        assert INFILL.fill in tokens
