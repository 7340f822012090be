from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musicgen.midi.chord import HARTE, NO_CHORD, QUALITIES, ROOTS, Chord, parse_root

CHORDS = [NO_CHORD, *(Chord(root, quality) for root in range(12) for quality in QUALITIES)]


@pytest.mark.parametrize("bass", ["", "_A", "_C#", "_Bb", "_N", "_"])
def test_a_chord_is_read_back_from_its_mark_whatever_the_bass(bass: str) -> None:
    assert [Chord.from_mark(f"{chord}{bass}") for chord in CHORDS] == CHORDS


@pytest.mark.parametrize(
    "text",
    ["", "A", "A_", "_M", "A_M8", "A_major", "H_M", "N_M", "A_N", "a_M", "A M7 A", "global_bpm_110", "Bar 1"],
)
def test_a_mark_that_is_no_chord_is_none(text: str) -> None:
    assert Chord.from_mark(text) is None


@pytest.mark.parametrize(
    ("text", "chord"),
    [
        ("N", NO_CHORD),
        ("C", Chord(0, "M")),
        ("C/3", Chord(0, "M")),
        ("Bb:min7/b7", Chord(10, "m7")),
        ("G:sus4(b7)", Chord(7, "sus4")),
        ("G:sus4(b7,9)/5", Chord(7, "sus4")),
        ("F#:hdim7", Chord(6, "/o7")),
        ("Cb:maj", Chord(11, "M")),
        ("B#:dim", Chord(0, "o")),
        ("Abb:aug", Chord(7, "+")),
        ("D:minmaj7", Chord(2, "m")),
        ("E:maj6(9)", Chord(4, "M")),
        ("A:9", Chord(9, "7")),
    ],
)
def test_hartes_syntax_is_mapped_to_the_nearest_quality(text: str, chord: Chord) -> None:
    assert Chord.from_harte(text) == chord


@pytest.mark.parametrize("text", ["", ":maj", "H:maj", "C:major", "c:maj", "N:maj", "C maj", "C:maj7 ", "\n"])
def test_what_is_not_hartes_syntax_is_none(text: str) -> None:
    assert Chord.from_harte(text) is None


def test_every_shorthand_is_known_on_every_root() -> None:
    for shorthand, quality in HARTE.items():
        assert [Chord.from_harte(f"{root}:{shorthand}") for root in ROOTS] == [Chord(i, quality) for i in range(12)]
    assert set(HARTE.values()) == set(QUALITIES)


@given(st.text("CDEFGABN#b_:/()Mm7osus+ \n", max_size=8) | st.text(max_size=6))
def test_any_text_is_a_chord_of_the_vocabulary_or_none(text: str) -> None:
    for chord in (Chord.from_mark(text), Chord.from_harte(text)):
        assert chord is None or chord in CHORDS


@pytest.mark.parametrize("text", ["C\n", " C", "C ", "Cx", "#", "bb", "CC"])
def test_the_name_of_a_pitch_class_has_nothing_around_it(text: str) -> None:
    assert parse_root(text) is None


@given(st.sampled_from(CHORDS), st.integers(-30, 30), st.integers(-30, 30))
def test_transpositions_add_up_and_an_octave_is_none(chord: Chord, first: int, second: int) -> None:
    assert chord.transposed(first).transposed(second) == chord.transposed(first + second)
    assert chord.transposed(12) == chord
    assert chord.transposed(first).quality == chord.quality
    assert chord.transposed(first) in CHORDS


def test_every_chord_of_pop909_is_known(real_data: Callable[[str], Path]) -> None:
    texts = {
        line.split()[-1]
        for path in real_data("pop909").glob("*/chord_midi.txt")
        for line in path.read_text().splitlines()
        if line.strip()
    }
    assert texts
    assert {text for text in texts if Chord.from_harte(text) is None} == set()
