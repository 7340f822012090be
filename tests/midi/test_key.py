from __future__ import annotations

import numpy as np
import pytest

from musicgen.midi.chord import NO_CHORD, QUALITIES, TONES, Chord
from musicgen.midi.key import Key, heard_key, parse_pitch


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("C", Key(0, False)),
        ("Am", Key(9, True)),
        ("a", Key(9, True)),
        ("F# minor", Key(6, True)),
        ("Bb major", Key(10, False)),
        ("e♭ min", Key(3, True)),
        ("A maj", Key(9, False)),
        ("C:min", Key(0, True)),
        ("Cb", Key(11, False)),
    ],
)
def test_keys_are_read_as_musicians_write_them(text: str, key: Key) -> None:
    assert Key.parse(text) == key


@pytest.mark.parametrize("text", ["", "H", "Cmaj7", "C dorian", "minor", "C4"])
def test_what_is_not_a_key_is_none(text: str) -> None:
    assert Key.parse(text) is None


def test_a_key_and_its_relative_share_their_tones_but_the_leading_tone() -> None:
    assert Key(9, True).pitch_classes == Key(0, False).pitch_classes | {8}


def test_the_chords_of_a_key_are_in_it() -> None:
    in_c = ("C", "Dm", "Em", "F", "G", "Am", "Bo", "G7", "Cmaj7", "Dm7", "Bm7b5", "Gsus4", "Csus2")
    assert all(_chart(chord).pitch_classes <= Key(0, False).pitch_classes for chord in in_c)
    assert not _chart("E").pitch_classes <= Key(0, False).pitch_classes
    assert _chart("E7").pitch_classes <= Key(9, True).pitch_classes


def _chart(text: str) -> Chord:
    chord = Chord.from_chart(text)
    assert chord is not None, text
    return chord


@pytest.mark.parametrize(
    ("text", "chord"),
    [
        ("C", Chord(0, "M")),
        ("Am", Chord(9, "m")),
        ("Bbmaj7", Chord(10, "M7")),
        ("F#m7b5", Chord(6, "/o7")),
        ("E♭°7", Chord(3, "o7")),
        ("Gsus", Chord(7, "sus4")),
        ("D+", Chord(2, "+")),
        ("N.C.", NO_CHORD),
        ("Ab/o7", Chord(8, "/o7")),
    ],
)
def test_chords_are_read_as_charts_write_them(text: str, chord: Chord) -> None:
    assert Chord.from_chart(text) == chord


@pytest.mark.parametrize("text", ["", "H", "Cfoo", "am", "C/E", "C\n", "7"])
def test_what_is_no_chord_of_ours_is_none(text: str) -> None:
    assert Chord.from_chart(text) is None


def test_every_quality_has_tones_and_a_way_to_write_it() -> None:
    assert all(Chord.from_chart(f"C{quality}") == Chord(0, quality) for quality in QUALITIES)
    assert set(TONES) == {*QUALITIES, "N"}
    assert NO_CHORD.pitch_classes == frozenset()


@pytest.mark.parametrize(
    ("text", "pitch"),
    [("C4", 60), ("60", 60), ("A0", 21), ("Bb3", 58), ("F#5", 78), ("Cb4", 59), ("B#3", 60), ("C-1", 0), ("G9", 127)],
)
def test_pitches_have_numbers_and_names(text: str, pitch: int) -> None:
    assert parse_pitch(text) == pitch


@pytest.mark.parametrize("text", ["", "128", "-1", "A9", "c4", "C", "4C", "²"])
def test_what_is_no_pitch_is_none(text: str) -> None:
    assert parse_pitch(text) is None


@pytest.mark.parametrize("is_minor", [False, True])
def test_the_key_that_is_heard_moves_with_the_music(is_minor: bool) -> None:
    generator, key = np.random.default_rng(0), Key(0, is_minor)
    for root in range(12):
        heard = np.isin(np.arange(12), list(key.pitch_classes)) * generator.uniform(1, 1.2, 12)
        heard[[0, 3 if is_minor else 4, 7]] += 1
        assert heard_key(np.roll(heard, root)) == Key(root, is_minor)
    assert heard_key(np.zeros(12)) is None
