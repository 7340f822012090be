"""Keys and chords of what sounds."""

from __future__ import annotations

import numpy as np
import pytest

from musicgen.midi.chord import TONES
from musicgen.midi.key import Key, heard_key
from musicgen.midi.tonality import Triad, find_triad, key_triad


def weights(pitches: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.bincount(np.array(pitches) % 12, minlength=12)


@pytest.mark.parametrize("root", range(12))
def test_a_cadence_is_in_its_key_on_every_root(root: int) -> None:
    major = [0, 4, 7, 5, 9, 0, 7, 11, 2, 0, 4, 7]
    minor = [0, 3, 7, 5, 8, 0, 7, 11, 2, 0, 3, 7]
    assert heard_key(weights([root + tone for tone in major])) == Key(root, False)
    assert heard_key(weights([root + tone for tone in minor])) == Key(root, True)


def test_silence_and_noise_have_no_key() -> None:
    assert heard_key(np.zeros(12)) is None


@pytest.mark.parametrize("root", range(12))
def test_chords_have_their_roots_and_thirds(root: int) -> None:
    thirds = {"M": 1, "m": -1, "7": 1, "M7": 1, "m7": -1, "sus4": 0}
    for quality, third in thirds.items():
        found = find_triad(weights([root + tone for tone in TONES[quality]]), root)
        assert found == Triad(root, third), quality
    assert find_triad(weights([root]), root) == Triad(root, 0)


def test_the_lowest_note_decides_between_a_sixth_and_a_seventh_chord() -> None:
    tones = weights([0, 4, 7, 9])
    assert find_triad(tones, 0) == Triad(0, 1)
    assert find_triad(tones, 9) == Triad(9, -1)


def test_an_inversion_keeps_its_root() -> None:
    assert find_triad(weights([0, 4, 7]), 4) == Triad(0, 1)


def test_an_open_chord_contradicts_no_third() -> None:
    home = key_triad(Key(9, True))
    assert home == Triad(9, -1)
    assert home.agrees(Triad(9, 0))
    assert not home.agrees(Triad(9, 1))
    assert not home.agrees(Triad(0, -1))
