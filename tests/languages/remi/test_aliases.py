from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pieces import REMI, random_piece

from musicgen.languages import TokenError
from musicgen.languages.remi.aliases import read_names

PIECE = [
    "Bar", "Beat_0", "Chord_C_M", "Tempo_110", "Pitch_72", "Velocity_64", "Duration_4",
    "Beat_4", "Pitch_60", "Velocity_40", "Duration_0.5", "Bar", "EOS",
]  # fmt: skip
ORIGINAL = [
    "Bar_None", "Position_1/16", "Chord_C:maj", "Position_1/16", "Tempo Class_mid", "Tempo Value_20",
    "Position_1/16", "Note Velocity_16", "Note On_72", "Note Duration_7",
    "Position_5/16", "Note Velocity_10", "Note On_60", "Note Duration_0", "Bar_None", "EOS_None",
]  # fmt: skip
POP1K7 = [
    "Bar_None", "Beat_0", "Chord_C_M", "Tempo_110", "Note_Pitch_72", "Note_Velocity_64", "Note_Duration_480",
    "Beat_4", "Note_Pitch_60", "Note_Velocity_40", "Note_Duration_60", "Bar_None", "EOS_None",
]  # fmt: skip
MIDITOK = [
    "BOS_None", "Bar_None", "Position_0", "Chord_C:maj", "Tempo_110.34", "Pitch_72", "Velocity_63", "Duration_1.0.8",
    "Position_8", "Pitch_60", "Velocity_39", "Duration_0.1.8", "Bar_None", "EOS_None",
]  # fmt: skip


@pytest.mark.parametrize("names", [PIECE, ORIGINAL, POP1K7, MIDITOK], ids=["ours", "original", "Pop1K7", "MidiTok"])
def test_every_dialect_says_the_same_piece(names: list[str]) -> None:
    assert REMI.vocabulary.to_names(read_names(names)) == PIECE


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_our_own_names_are_read_token_by_token(seed: int) -> None:
    tokens = random_piece(seed, 100)
    assert read_names(REMI.vocabulary.to_names(tokens)).tolist() == tokens.tolist()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Tempo_222.9", "Tempo_224"),
        ("Tempo_10", "Tempo_32"),
        ("Velocity_127", "Velocity_86"),
        ("Note_Velocity_2", "Velocity_40"),
        ("Note_Duration_0", "Duration_0.5"),
        ("Note_Duration_1920", "Duration_16"),
        ("Note Duration_63", "Duration_16"),
        ("Duration_11.3.4", "Duration_16"),
        ("Chord_N:N", "Chord_N_N"),
        ("Chord_A#:dom", "Chord_A#_7"),
        ("Chord_Bb:7halfdim", "Chord_A#_/o7"),
        ("Chord_F#_/o7", "Chord_F#_/o7"),
        ("PAD_None", "PAD"),
        ("Bar_17", "Bar"),
    ],
)
def test_a_value_is_read_as_the_nearest_of_ours(theirs: str, ours: str) -> None:
    family = ours.split("_")[0]
    around = ["Pitch_60", "Velocity_64", "Duration_1"]
    names = [theirs if name.startswith(family) else name for name in around] if family in str(around) else [theirs]
    assert ours in REMI.vocabulary.to_names(read_names(names))


@pytest.mark.parametrize(
    "name",
    ["Pitch_200", "Pitch_x", "Beat_16", "Position_17/16", "Position_1/0", "Chord_maj", "Chord_H_M", "Tempo Class_odd",
     "Rest_1", "", "Velocity", "Duration_1.0.0", "Tempo_nan"],
)  # fmt: skip
def test_a_name_that_nobody_has_is_named(name: str) -> None:
    with pytest.raises(TokenError, match="no token is called"):
        read_names([name])


def test_half_a_note_is_refused() -> None:
    with pytest.raises(TokenError, match="only Pitch and Velocity"):
        read_names(["Bar", "Beat_0", "Pitch_60", "Velocity_64"])
