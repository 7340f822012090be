"""Composed pieces are on the grid of the tokens, have the form asked for, and are music."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.languages.remi.synthetic import compose
from musicgen.midi.chord import QUALITIES, ROOTS, Chord
from musicgen.midi.score import Notes, Score, TimeSignature, Track

BAR = 1920
SIXTEENTH = 120
TEMPOS = set(range(32, 225, 3))
TONES = {
    "M": {0, 4, 7},
    "m": {0, 3, 7},
    "o": {0, 3, 6},
    "+": {0, 4, 8},
    "7": {0, 4, 7, 10},
    "M7": {0, 4, 7, 11},
    "m7": {0, 3, 7, 10},
    "o7": {0, 3, 6, 9},
    "/o7": {0, 3, 6, 10},
    "sus2": {0, 2, 7},
    "sus4": {0, 5, 7},
}
PIECES = [compose(seed) for seed in range(60)]

any_seed = st.integers(0, 2**64)
any_length = st.integers(1, 150)
whole = settings(max_examples=150, deadline=None)


@whole
@given(seed=any_seed, bars=any_length)
def test_notes_are_on_the_grid_of_the_tokens(seed: int, bars: int) -> None:
    notes = compose(seed, bars).notes
    lengths = notes["end"] - notes["start"]
    assert np.all(notes["start"] % SIXTEENTH == 0)
    assert np.all((lengths % (SIXTEENTH // 2) == 0) & (lengths >= SIXTEENTH // 2) & (lengths <= BAR))
    assert np.all((notes["velocity"] % 2 == 0) & (notes["velocity"] >= 40) & (notes["velocity"] <= 86))
    assert np.all((notes["pitch"] >= 21) & (notes["pitch"] <= 108))
    assert np.all(notes["track"] == 0)


@whole
@given(seed=any_seed, bars=any_length)
def test_a_pitch_is_let_go_of_before_it_is_struck_again(seed: int, bars: int) -> None:
    notes = compose(seed, bars).notes
    for pitch in np.unique(notes["pitch"]):
        same = notes[notes["pitch"] == pitch]
        assert np.all(np.diff(same["start"]) > 0)
        assert np.all(same["end"][:-1] <= same["start"][1:])


@whole
@given(seed=any_seed, bars=any_length)
def test_tempos_are_on_the_grid_at_beats_and_from_the_first_tick_on(seed: int, bars: int) -> None:
    tempos = compose(seed, bars).tempos
    assert tempos["tick"][0] == 0
    assert np.all(np.diff(tempos["tick"]) > 0)
    assert np.all(tempos["tick"] % (4 * SIXTEENTH) == 0)
    assert tempos["tick"][-1] < bars * BAR
    assert set(tempos["bpm"]) <= TEMPOS


@whole
@given(seed=any_seed, bars=any_length)
def test_chords_are_marked_from_the_first_tick_on_where_they_change(seed: int, bars: int) -> None:
    marks = compose(seed, bars).chords
    ticks = np.array([mark.tick for mark in marks])
    assert ticks[0] == 0
    assert np.all(np.diff(ticks) > 0)
    assert np.all(ticks % SIXTEENTH == 0)
    assert ticks[-1] < bars * BAR
    assert all(mark.chord != after.chord for mark, after in itertools.pairwise(marks))
    assert all(mark.chord.root in range(12) and mark.chord.quality in QUALITIES for mark in marks)


@whole
@given(seed=any_seed, bars=any_length)
def test_a_piece_has_exactly_the_bars_asked_for(seed: int, bars: int) -> None:
    score = compose(seed, bars)
    assert score.ticks_per_beat == 480
    assert score.tracks == (Track("Piano"),)
    assert score.time_signatures == (TimeSignature(0, 4, 4),)
    assert len(score.beats) == 0
    assert score.notes["start"][0] < BAR
    assert (bars - 1) * BAR <= score.notes["start"][-1] < score.end == bars * BAR


def test_a_very_long_piece_has_music_in_every_bar() -> None:
    score = compose(0, 2000)
    assert set(score.notes["start"] // BAR) == set(range(2000))


def test_a_piece_without_bars_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 bar"):
        compose(0, 0)


@whole
@given(seed=any_seed, bars=st.integers(1, 40))
def test_a_piece_is_a_function_of_seed_and_length(seed: int, bars: int) -> None:
    assert compose(seed, bars) == compose(seed, bars)


def test_a_piece_is_the_same_on_every_machine() -> None:
    notes = compose(7).notes
    assert (len(notes), int((notes["start"] * notes["pitch"]).sum()), int(notes["end"].sum())) == (
        473,
        961004400,
        16019400,
    )


def test_seeds_differ_in_key_tempo_figure_and_melody() -> None:
    keys = {piece.chords[-1].chord for piece in PIECES}
    assert {chord.root for chord in keys} == set(range(len(ROOTS)))
    assert {chord.quality for chord in keys} == {"M", "m"}
    assert len({piece.tempos["bpm"][0] for piece in PIECES}) > 15
    for hand in (0, 1):
        assert len({shape(piece, 4, hand) for piece in PIECES}) > 0.9 * len(PIECES)


def test_a_seed_has_the_same_themes_at_every_length() -> None:
    for seed in range(20):
        short, long = compose(seed, 32), compose(seed, 64)
        assert [mark for mark in short.chords if mark.tick < 8 * BAR] == [
            mark for mark in long.chords if mark.tick < 8 * BAR
        ]


def test_bars_return_but_not_too_often() -> None:
    rates = []
    for piece in PIECES:
        bars = [shape(piece, bar) for bar in range(32)]
        rates.append(1 - len(set(bars)) / len(bars))
    assert min(rates) > 0
    assert max(rates) < 0.7
    assert 0.1 < np.mean(rates) < 0.4


def test_sections_return_varied() -> None:
    likeness = []
    for piece in PIECES:
        bars = [shape(piece, bar) for bar in range(31)]
        # The most that each bar has in common with one at least eight bars before.
        common = [max(overlap(bars[late], early) for early in bars[: late - 7]) for late in range(8, 31)]
        assert max(common) > 0.3
        assert min(common) < 1
        likeness.append(np.mean(common))
    assert 0.25 < np.mean(likeness) < 0.6


def test_accents_belong_to_the_chord_and_some_other_notes_do_not() -> None:
    strong, weak = [], []
    for piece in PIECES:
        belongs = np.array([pitch_of(chord, note) for note, chord in sounding(piece)])
        accented = piece.notes["start"] % (BAR // 2) == 0
        strong.append(belongs[accented].mean())
        weak.append(belongs[~accented].mean())
    assert min(strong) > 0.93
    assert np.mean(strong) > 0.98
    assert 0.8 < np.mean(weak) < 0.97


def test_bass_is_the_root_where_a_chord_begins() -> None:
    for piece in PIECES:
        roots = {mark.tick: mark.chord.root for mark in piece.chords}
        first = {tick: piece.notes["pitch"][piece.notes["start"] == tick].min() for tick in roots}
        assert all(pitch % 12 == roots[tick] for tick, pitch in first.items())


def test_melody_sings_in_steps_and_within_a_voice() -> None:
    for piece in PIECES:
        notes = piece.notes[piece.notes["pitch"] >= 60]
        top = np.array([notes["pitch"][notes["start"] == tick].max() for tick in np.unique(notes["start"])])
        assert np.median(np.abs(np.diff(top))) <= 4
        assert np.ptp(top) <= 40
        assert len(set(top)) >= 8


def test_hands_stay_where_hands_are() -> None:
    for piece in PIECES:
        pitches = piece.notes["pitch"]
        assert 26 <= pitches.min() <= 45
        assert 67 <= pitches.max() <= 103
        assert 50 < np.median(pitches) < 72


def test_texture_is_neither_empty_nor_more_than_two_hands_can_play() -> None:
    for piece in PIECES:
        counts = [len(on) for on in sounding_at_beats(piece)]
        assert max(counts) <= 10
        assert 2 <= np.mean(counts) <= 8
        assert 6 <= len(piece.notes) / 32 <= 32


def test_semitones_seldom_sound_together() -> None:
    clashes = [
        np.mean([bool(np.any(np.diff(np.sort(on["pitch"])) == 1)) for on in sounding_at_beats(piece)])
        for piece in PIECES
    ]
    assert max(clashes) < 0.15
    assert np.mean(clashes) < 0.03


def test_a_piece_ends_slower_softer_and_on_a_held_tonic() -> None:
    for piece in PIECES:
        last = piece.notes[piece.notes["start"] >= 31 * BAR]
        chord = piece.chords[-1].chord
        assert len(last) >= 4
        assert np.all(last["end"] == piece.end)
        assert all(pitch_of(chord, note) for note in last)
        assert last["pitch"].max() % 12 == chord.root
        assert piece.tempos["bpm"][-1] < piece.tempos["bpm"][0]
        assert last["velocity"].mean() < piece.notes["velocity"].mean()


def shape(score: Score, bar: int, hand: int | None = None) -> frozenset[tuple[int, int, int]]:
    """What sounds in a bar, whatever its velocity; of the left hand (0), the right (1) or both."""
    notes = score.notes[score.notes["start"] // BAR == bar]
    if hand is not None:
        notes = notes[(notes["pitch"] > 62) == bool(hand)]
    return frozenset((int(n["start"]) % BAR, int(n["end"] - n["start"]), int(n["pitch"])) for n in notes)


def overlap(left: frozenset[tuple[int, int, int]], right: frozenset[tuple[int, int, int]]) -> float:
    return len(left & right) / len(left | right)


def chord_at(score: Score, tick: int) -> Chord:
    return next(mark.chord for mark in reversed(score.chords) if mark.tick <= tick)


def sounding(score: Score) -> Iterator[tuple[np.void, Chord]]:
    """Every note with the chord at its start."""
    return ((note, chord_at(score, int(note["start"]))) for note in score.notes)


def pitch_of(chord: Chord, note: np.void) -> bool:
    return (int(note["pitch"]) - chord.root) % 12 in TONES[chord.quality]


def sounding_at_beats(score: Score) -> Iterator[Notes]:
    notes = score.notes
    return (notes[(notes["start"] <= tick) & (notes["end"] > tick)] for tick in range(0, 32 * BAR, BAR // 4))
