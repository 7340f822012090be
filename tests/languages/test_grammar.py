from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pieces import REMI, random_piece

from musicgen.languages.grammar import Grammar
from musicgen.languages.remi.grammar import Place

VOCABULARY = REMI.vocabulary
GRAMMAR = REMI.grammar


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_mask_says_what_the_validator_says(seed: int) -> None:
    state = GRAMMAR.start()
    for token in [*random_piece(seed, 60).tolist(), REMI.vocabulary["PAD"]]:
        mask = state.mask()
        assert mask.tolist() == [state.admits(other) for other in range(len(VOCABULARY))]
        assert mask[token]
        state.advance(token)


def test_there_is_always_a_way_on() -> None:
    random = np.random.default_rng(0)
    for weight in (0.02, 1.0, 50.0):  # of going to another bar: crowded bars, and nearly empty ones
        state = GRAMMAR.start()
        for _ in range(4000):
            chance = state.mask().astype(float)
            assert chance.any()
            chance[REMI.end] = 0
            chance[VOCABULARY["Bar"]] *= weight
            state.advance(int(random.choice(len(VOCABULARY), p=chance / chance.sum())))


def test_every_key_down_at_once_is_still_no_dead_end() -> None:
    state = GRAMMAR.start()
    for name in ["Bar", "Beat_0", "Tempo_122"]:
        assert state.advance(VOCABULARY[name])
    for pitch in range(108, 20, -1):
        for name in [f"Pitch_{pitch}", "Velocity_64", "Duration_16"]:
            assert state.advance(VOCABULARY[name])
    assert state.advance(VOCABULARY["Beat_1"])
    names = {VOCABULARY.names[token].split("_")[0] for token in np.flatnonzero(state.mask())}
    assert names == {"Chord", "Tempo"}


def test_a_copy_goes_its_own_way() -> None:
    state = GRAMMAR.start()
    for token in random_piece(1, 50)[:40].tolist():
        state.advance(token)
    before = state.mask()
    copy = state.copy()
    for _ in range(20):
        copy.advance(int(np.flatnonzero(copy.mask())[0]))
    assert np.array_equal(state.mask(), before)


def test_errors_are_placed_counted_and_got_over() -> None:
    tokens = random_piece(5, 300)
    assert GRAMMAR.errors(tokens) == []
    place = int(np.flatnonzero(VOCABULARY.family[tokens] == VOCABULARY.number("Velocity"))[1])
    broken = tokens.copy()
    broken[place] = VOCABULARY["Bar"]
    errors = GRAMMAR.errors(broken)
    assert errors[0].place == place
    assert "Bar may not follow" in errors[0].sentence
    assert 0 < len(GRAMMAR.errors(broken, complete=False)) < 0.5 * len(broken)
    assert [error.place for error in GRAMMAR.errors(tokens[:-1])] == [len(tokens) - 1]
    assert GRAMMAR.errors(tokens[:-1], complete=False) == []
    assert GRAMMAR.errors([9999])[0].sentence.startswith("id 9999")


@pytest.mark.parametrize(
    "names",
    [
        ["Beat_0"],  # no bar
        ["Bar", "Beat_4"],  # no tempo at the beginning
        ["Bar", "Beat_0", "Pitch_60"],
        ["Bar", "Beat_0", "Tempo_122", "Bar"],  # an empty first bar
        ["Bar", "Beat_0", "Tempo_122", "Beat_0"],  # the same beat again
        ["Bar", "Beat_0", "Tempo_122", "Tempo_125"],
        ["Bar", "Beat_0", "Tempo_122", "Chord_C_M"],  # chords come before tempos
        ["Bar", "Beat_0", "Tempo_122", "Pitch_60", "Velocity_40", "Duration_1", "Pitch_61"],  # upwards
        ["Bar", "Beat_0", "Tempo_122", "Pitch_60", "Velocity_40", "Duration_2", "Beat_1", "Pitch_60"],  # still down
        ["Bar", "Beat_0", "Tempo_122", "Pitch_60", "Velocity_40", "Duration_1", "EOS"],  # no closing bar
        ["Bar", "Beat_0", "Tempo_122", "Pitch_60", "Velocity_40", "Duration_1", "Bar", "Bar", "EOS"],  # an empty end
        ["Bar", "Beat_0", "Tempo_122", "Pitch_60", "Velocity_40", "Duration_1", "Bar", "Beat_0", "Tempo_122"],
    ],
)
def test_the_last_token_may_not_follow(names: list[str]) -> None:
    errors = GRAMMAR.errors(VOCABULARY.to_ids(names), complete=False)
    assert [error.place for error in errors] == [len(names) - 1]


def test_a_table_that_loses_its_way_after_an_error_is_refused() -> None:
    with pytest.raises(ValueError, match="lead to a state"):
        Grammar(VOCABULARY, {"a": {"Bar": ""}}, {"Bar": "b"}, {}, Place, "c")
    with pytest.raises(ValueError, match="lead to a state"):
        Grammar(VOCABULARY, {"a": {"Bar": ""}}, dict.fromkeys(VOCABULARY.families, "b"), {}, Place, "c")


def test_the_diagram_has_every_rule() -> None:
    lines = GRAMMAR.diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert len(lines) == sum(map(len, GRAMMAR.table.values())) + 3
