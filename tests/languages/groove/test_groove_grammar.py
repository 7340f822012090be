from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trios import GROOVE, random_groove

VOCABULARY = GROOVE.vocabulary
GRAMMAR = GROOVE.grammar
NOTE = ["NoteOn_1_40", "Shift_0_6", "NoteOff_1_40"]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_mask_says_what_the_validator_says(seed: int) -> None:
    state = GRAMMAR.start()
    for token in random_groove(seed, 60).tolist():
        mask = state.mask()
        assert mask.tolist() == [state.admits(other) for other in range(len(VOCABULARY))]
        assert mask[token]
        state.advance(token)
    assert not state.mask().any()


@pytest.mark.parametrize("weight", [0.01, 1.0, 100.0])
def test_there_is_always_a_way_on(weight: float) -> None:
    """... with time that hardly moves, so that nearly everything sounds, and with hardly anything in it."""
    random = np.random.default_rng(0)
    state = GRAMMAR.start()
    for _ in range(4000):
        chance = state.mask().astype(float)
        chance[GROOVE.end] = 0
        chance[list(VOCABULARY.ids["Shift"])] *= weight
        chance[list(VOCABULARY.ids["NoteOff"])] *= 0.1
        assert chance.any()
        state.advance(int(random.choice(len(VOCABULARY), p=chance / chance.sum())))


def test_everything_sounding_at_once_is_still_no_dead_end() -> None:
    state = GRAMMAR.start()
    for token in [GROOVE.first, *VOCABULARY.ids["NoteOn"]]:
        assert state.advance(token)
    assert VOCABULARY.to_names(np.flatnonzero(state.mask()))[0] == "Shift_0_1"
    assert state.advance(VOCABULARY["Shift_0_1"])
    assert np.flatnonzero(state.mask()).tolist() == list(VOCABULARY.ids["NoteOff"])


def test_a_copy_goes_its_own_way() -> None:
    state = GRAMMAR.start()
    for token in random_groove(1, 50)[:40].tolist():
        state.advance(token)
    before = state.mask()
    copy = state.copy()
    for _ in range(20):
        copy.advance(int(np.flatnonzero(copy.mask())[0]))
    assert np.array_equal(state.mask(), before)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), length=st.integers(0, 60))
def test_the_counters_know_the_time_and_what_sounds(seed: int, length: int) -> None:
    tokens = random_groove(seed, 60)[:length]
    state = GRAMMAR.start()
    for token in tokens.tolist():
        state.advance(token)
    score, report = GROOVE.decode_report(tokens)
    now = state.counters.clock
    assert report.unclosed == state.counters.sounding.sum()
    assert now >= score.notes["start"].max(initial=0)


@pytest.mark.parametrize(
    "names",
    [
        ["NoteOn_1_40"],  # nothing begins
        ["BOS", "BOS"],
        ["BOS", "EOS"],  # an empty piece
        ["BOS", "NoteOff_1_40"],  # nothing sounds
        ["BOS", "NoteOn_1_40", "NoteOff_1_40"],  # a note lasts
        ["BOS", "NoteOn_1_40", "NoteOn_1_40"],
        ["BOS", "NoteOn_1_40", "EOS"],  # something sounds
        ["BOS", "NoteOn_1_40", "NoteOn_1_39"],  # downwards
        ["BOS", "NoteOn_2_40", "NoteOn_1_50"],
        ["BOS", "NoteOn_1_40", "Shift_0_6", "NoteOn_1_40"],  # still sounds
        ["BOS", "NoteOn_1_40", "Shift_0_6", "NoteOff_2_40"],  # the same pitch on another track
        ["BOS", "NoteOn_1_40", "Shift_0_6", "NoteOn_1_50", "NoteOff_1_40"],  # ends come first
        ["BOS", "NoteOn_1_40", "NoteOn_1_41", "Shift_0_6", "NoteOff_1_41", "NoteOff_1_40"],
        ["BOS", "NoteOn_1_40", "Shift_0_6", "Shift_0_7"],  # one shift would do
        ["BOS", "Shift_1_0", "Shift_1_0"],
        ["BOS", "Shift_1_0", "Shift_2_0"],
        ["BOS", *NOTE, "Shift_0_6"],  # nowhere
        ["BOS", *NOTE, "Shift_0_5"],  # backwards
        ["BOS", *NOTE, "Shift_2_0", "EOS"],  # silence at the end
        ["BOS", *NOTE, "EOS", "EOS"],
        ["BOS", *NOTE, "EOS", "NoteOn_1_40"],
    ],
)
def test_the_last_token_may_not_follow(names: list[str]) -> None:
    errors = GRAMMAR.errors(VOCABULARY.to_ids(names), complete=False)
    assert [error.place for error in errors] == [len(names) - 1]


def test_two_whole_beats_may_be_followed_by_any_shift() -> None:
    state = GRAMMAR.start()
    for name in ["BOS", *NOTE, "Shift_2_0"]:
        assert state.advance(VOCABULARY[name])
    shifts = VOCABULARY.ids["Shift"]
    assert state.mask()[shifts.start : shifts.stop].all()


def test_the_diagram_has_every_rule() -> None:
    assert len(GRAMMAR.diagram().splitlines()) == sum(map(len, GRAMMAR.table.values())) + 3
