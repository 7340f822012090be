from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.languages import Remi
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import harmony
from musicgen.midi.chord import NO_CHORD, QUALITIES, Chord
from musicgen.midi.harmony import find_chords
from musicgen.midi.score import NOTE, ChordMark, Score, Track, make_notes


def block_chords(chords: list[tuple[int, tuple[int, ...]]], ticks_per_beat: int = 480) -> Score:
    """Chords of four beats: when each begins, in beats, and its pitches."""
    rows = [
        (beat * ticks_per_beat, (beat + 4) * ticks_per_beat, pitch, 64, 0)
        for beat, pitches in chords
        for pitch in pitches
    ]
    return Score(ticks_per_beat, np.array(rows, NOTE))


@pytest.mark.parametrize("ticks_per_beat", [1, 24, 97, 480, 32767])
def test_plain_chords_are_found_where_they_change(ticks_per_beat: int) -> None:
    score = block_chords(
        [(0, (48, 60, 64, 67)), (4, (45, 57, 60, 64)), (8, (43, 59, 62, 65, 67)), (12, (43, 59, 62, 65, 67))],
        ticks_per_beat,
    )
    assert find_chords(score) == (
        ChordMark(0, Chord(0, "M")),
        ChordMark(4 * ticks_per_beat, Chord(9, "m")),
        ChordMark(8 * ticks_per_beat, Chord(7, "7")),
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_looking_at_blocks_finds_what_looking_at_the_whole_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    score = compose(seed, 40)
    by_blocks = find_chords(score)
    monkeypatch.setattr(harmony, "BLOCK_BEATS", 1 << 20)
    assert by_blocks == find_chords(score)
    assert len(by_blocks) > 20


def test_a_chord_held_over_the_border_of_blocks_is_one_chord() -> None:
    score = block_chords([(harmony.BLOCK_BEATS + beat, (48, 60, 64, 67)) for beat in (-4, -2, 0, 2)])
    marks = [mark for mark in find_chords(score) if mark.chord != NO_CHORD]
    assert marks == [ChordMark((harmony.BLOCK_BEATS - 4) * 480, Chord(0, "M"))]


def test_silence_has_no_chord_however_long_it_is() -> None:
    late = 5 * harmony.BLOCK_BEATS + 4
    marks = find_chords(block_chords([(0, (48, 60, 64, 67)), (late, (45, 57, 60, 64))]))
    assert marks[0] == ChordMark(0, Chord(0, "M"))
    assert marks[-1] == ChordMark(late * 480, Chord(9, "m"))
    assert ChordMark(4 * 480, NO_CHORD) in marks
    assert not [mark for mark in marks if 4 * 480 < mark.tick < late * 480]


def test_a_piece_without_notes_has_no_chords() -> None:
    assert find_chords(Score(480, np.empty(0, NOTE))) == ()
    assert find_chords(Score(480, np.empty(0, NOTE), tracks=())) == ()


def test_drums_are_not_listened_to() -> None:
    score = compose(3, 8)
    ticks = np.arange(0, 8 * 1920, 240)
    noise = make_notes(ticks, ticks + 120, 30 + ticks // 240 % 40, 120, 1)
    tracks = (Track("Piano"), Track("Drums", is_drum=True))
    with_drums = score.replace(notes=np.concatenate([score.notes, noise]), tracks=tracks)
    assert [mark for mark in find_chords(with_drums) if mark.tick < score.end][:8] == list(find_chords(score)[:8])
    alone = find_chords(score.replace(notes=noise, tracks=tracks))
    assert {mark.chord for mark in alone} <= {NO_CHORD}


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1 << 32), st.sampled_from([1, 3, 96, 480]), st.integers(1, 60))
def test_the_chords_of_any_notes_are_at_beats_and_can_be_said_in_tokens(seed: int, per_beat: int, count: int) -> None:
    random = np.random.default_rng(seed)
    start = random.integers(0, 90 * per_beat, count)
    end = start + random.integers(0, 6 * per_beat, count, endpoint=True)
    score = Score(per_beat, make_notes(start, end, random.integers(21, 109, count), 64))
    marks = find_chords(score)
    assert all(mark.tick % per_beat == 0 and 0 <= mark.tick <= score.end for mark in marks)
    assert all(mark.chord == NO_CHORD or mark.chord.quality in QUALITIES for mark in marks)
    assert all(before.chord != after.chord for before, after in pairwise(marks))
    Remi().encode(score.replace(chords=marks))
