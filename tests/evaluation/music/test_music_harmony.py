"""Chords against notes, the bass against the other part, and endings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from judged_oracle import slow_harmony
from music_oracle import TRACKS, random_piece

from musicgen.evaluation.music.harmony import ENDINGS, HARMONY, measure_ending, measure_harmony
from musicgen.evaluation.music.metrics import on_grid
from musicgen.midi.chord import NO_CHORD, Chord
from musicgen.midi.score import ChordMark, Score, TimeSignature, Track, make_notes

C, D, F, G, A = (Chord(root, quality) for root, quality in ((0, "M"), (2, "m"), (5, "M"), (7, "7"), (9, "m")))


def chordal(chords: list[tuple[int, ...]], ticks: int = 96, last: int = 96) -> Score:
    """A chord in each bar, all of the same length but the last."""
    rows = [
        (96 * bar, 96 * bar + (last if bar == len(chords) - 1 else ticks), pitch)
        for bar, pitches in enumerate(chords)
        for pitch in pitches
    ]
    starts, ends, pitches = zip(*rows, strict=True)
    return Score(24, make_notes([*starts], [*ends], [*pitches], 64), time_signatures=(TimeSignature(0, 4, 4),))


C_MAJOR, F_MAJOR, G_MAJOR, A_MINOR = (48, 64, 67, 72), (53, 65, 69, 72), (43, 62, 67, 71), (45, 60, 64, 69)


@pytest.mark.parametrize("seed", range(6))
def test_every_metric_is_what_it_says_it_is(seed: int) -> None:
    score = random_piece(seed, tracks=TRACKS if seed % 2 else TRACKS[:1])
    random = np.random.default_rng(seed)
    ticks = sorted(random.choice(700, 9, replace=False).tolist())
    chords = [[C, D, F, G, A, NO_CHORD][number] for number in random.integers(0, 6, 9)]
    score = score.replace(chords=tuple(map(ChordMark, ticks, chords)))
    values = measure_harmony(score)
    assert list(values) == list(HARMONY)
    assert values == pytest.approx(slow_harmony(score), nan_ok=True)
    assert math.isnan(values["bass in the other part"]) == (seed % 2 == 0)


def test_a_chord_that_goes_on_is_one_chord_and_agrees_with_its_tones_for_as_long_as_they_sound() -> None:
    """C major for two bars, then silence; three beats of C and one of D."""
    notes = make_notes([0, 96 + 48], [72, 96 + 72], [60, 62], 64)
    marks = (ChordMark(0, C), ChordMark(96, C), ChordMark(180, NO_CHORD))
    score = Score(24, notes, time_signatures=(TimeSignature(0, 4, 4),), chords=marks)
    values = measure_harmony(score)
    assert values["chords per bar"] == 1 / 2
    assert values["notes in the chord"] == 3 / 4
    assert all(map(math.isnan, measure_harmony(score.replace(chords=())).values()))


def test_chords_stay_with_their_notes_on_the_grid() -> None:
    """Two empty bars come first, and the chord is written in the first of them."""
    notes = make_notes([3840, 5760], [4320, 6240], [60, 65], 64)
    late = Score(480, notes, chords=(ChordMark(0, C), ChordMark(5760, F)))
    score = on_grid(late)
    assert [item.tick for item in score.chords] == [0, 96]
    assert measure_harmony(score)["notes in the chord"] == 1


def test_bass_notes_are_compared_with_what_the_others_play_meanwhile() -> None:
    """C under C major, D under C major, and a note that is alone."""
    tracks = (Track("Bass", 33), Track("Piano"), Track("Drums", 0, True))
    rows = [(0, 24, 36, 0), (24, 48, 38, 0), (72, 96, 41, 0), (0, 48, 60, 1), (0, 48, 64, 1), (0, 96, 36, 2)]
    starts, ends, pitches, track = zip(*rows, strict=True)
    score = Score(24, make_notes([*starts], [*ends], [*pitches], 64, [*track]), tracks)
    assert measure_harmony(score)["bass in the other part"] == 1 / 2


def test_a_long_tonic_chord_is_home_and_other_ends_are_not() -> None:
    song = [C_MAJOR, F_MAJOR, G_MAJOR, C_MAJOR]
    assert set(measure_ending(chordal(song), 16).values()) == {1.0}
    short = measure_ending(chordal(song, last=24), 16)
    assert [short[name] for name in ENDINGS] == [1, 0, 0, 1, 1, 1]
    dominant = measure_ending(chordal([*song, G_MAJOR]), 16)
    assert [dominant[name] for name in ENDINGS] == [0, 1, 0, 0, 0, 0]
    wrong_third = measure_ending(chordal([*song, *song[:3], (48, 63, 67, 72)]), 16)
    assert [wrong_third[name] for name in ENDINGS] == [1, 1, 1, 0, 1, 0]
    open_fifth = measure_ending(chordal([*song, *song[:3], (48, 55, 60)]), 16)
    assert set(open_fifth.values()) == {1.0}


def test_the_key_of_an_ending_is_that_of_the_last_bars() -> None:
    """Four bars in C major, four in E flat major; the end is E flat."""
    early = [C_MAJOR, F_MAJOR, G_MAJOR, C_MAJOR] * 3
    late = [tuple(pitch + 3 for pitch in chord) for chord in early[:4]]
    assert measure_ending(chordal([*early, *late]), 4)["ends at home"] == 1
    assert measure_ending(chordal([*early, *late]), 16)["ends on the tonic"] == 0


def test_a_piece_without_pitches_has_no_ending() -> None:
    drums = Score(24, make_notes([0], [6], [36], 64), (Track("Drums", 0, True),))
    assert all(map(math.isnan, measure_ending(drums, 4).values()))
