"""A score keeps its notes in one order, changes nothing that it was given, and knows when each tick comes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_strategies import scores

from musicgen.midi.score import BEAT, DEFAULT_BPM, NOTE, Score, make_notes, make_tempos

whole = settings(deadline=None, max_examples=40)
TEMPO_MAPS = st.lists(st.tuples(st.integers(-500, 5000), st.floats(20, 300)), max_size=6)


def with_tempos(changes: list[tuple[int, float]], ticks_per_beat: int = 480) -> Score:
    return Score(ticks_per_beat, make_notes([0], [1], [60], 64), tempos=make_tempos(changes))


def seconds_by_counting(changes: list[tuple[int, float]], ticks_per_beat: int, tick: int) -> float:
    """Tick by tick, as a player would."""
    in_force = dict(sorted((max(when, 0), bpm) for when, bpm in sorted(changes, key=lambda change: change[0])))
    for when, bpm in sorted(changes, key=lambda change: change[0]):
        in_force[max(when, 0)] = bpm  # of several at one tick, the last given
    bpm, elapsed = in_force.get(0, DEFAULT_BPM), 0.0
    for now in range(tick):
        bpm = in_force.get(now, bpm)
        elapsed += 60 / bpm / ticks_per_beat
    return elapsed


@whole
@given(scores(), st.randoms(use_true_random=False))
def test_the_order_in_which_notes_are_given_does_not_matter(score: Score, shuffle: random.Random) -> None:
    order = list(range(len(score.notes)))
    shuffle.shuffle(order)
    again = score.replace(notes=score.notes[order])
    assert again == score
    assert [(start, track, -pitch) for start, _, pitch, _, track in again.notes.tolist()] == sorted(
        (start, track, -pitch) for start, _, pitch, _, track in score.notes.tolist()
    )


@whole
@given(TEMPO_MAPS, st.integers(0, 6000))
def test_seconds_are_those_that_counting_ticks_gives(changes: list[tuple[int, float]], tick: int) -> None:
    measured = with_tempos(changes, 24).seconds(np.array([tick]))[0]
    assert measured == pytest.approx(seconds_by_counting(changes, 24, tick), rel=1e-9, abs=1e-9)


@whole
@given(TEMPO_MAPS, st.sampled_from([1, 24, 480, 32767]))
def test_ticks_are_the_inverse_of_seconds(changes: list[tuple[int, float]], ticks_per_beat: int) -> None:
    score = with_tempos(changes, ticks_per_beat)
    ticks = np.arange(-300, 6000, 7).reshape(-1, 4)
    seconds = score.seconds(ticks)
    assert np.array_equal(score.ticks(seconds), ticks)
    assert (np.diff(seconds.ravel()) > 0).all()
    assert (np.sign(seconds) == np.sign(ticks)).all()


def test_of_two_tempos_at_one_tick_the_last_holds() -> None:
    assert with_tempos([(0, 30.0), (0, 60.0)]).seconds(np.array([480]))[0] == pytest.approx(1)
    assert with_tempos([(480, 30.0), (480, 60.0)]).seconds(np.array([960]))[0] == pytest.approx(1.5)


def test_a_tempo_before_the_piece_is_in_force_when_it_begins() -> None:
    assert with_tempos([(-960, 30.0), (-480, 60.0)]).seconds(np.array([480, -480])).tolist() == pytest.approx([1, -1])


def test_a_piece_without_tempos_has_120_beats_a_minute() -> None:
    assert with_tempos([]).seconds(np.array([480]))[0] == pytest.approx(0.5)
    assert with_tempos([(480, 60.0)]).seconds(np.array([960]))[0] == pytest.approx(1.5)


def test_a_piece_ends_with_the_note_that_ends_last() -> None:
    score = Score(480, make_notes([0, 480], [1920, 960], [60, 64], 64))
    assert (score.end, score.duration) == (1920, pytest.approx(2))
    assert (score.replace(notes=np.empty(0, NOTE)).end, score.replace(notes=np.empty(0, NOTE)).duration) == (0, 0)


def test_what_a_score_holds_cannot_be_changed_and_what_it_was_given_can() -> None:
    given = {
        "notes": make_notes([480, 0], [960, 480], [60, 64], 64),
        "tempos": make_tempos([(480, 90.0), (0, 60.0)]),
        "beats": np.array([(0, True), (480, False)], BEAT),
    }
    before = {name: array.copy() for name, array in given.items()}
    score = Score(480, **given)  # type: ignore[arg-type]
    for name, array in given.items():
        assert np.array_equal(array, before[name])
        assert array.flags.writeable, name
        with pytest.raises(ValueError, match="read-only"):
            getattr(score, name)[0] = array[1]


def test_scores_are_equal_if_all_that_they_hold_is() -> None:
    score = with_tempos([(0, 60.0)])
    assert score == score.replace()
    assert score != "a score"
    for change in (
        {"ticks_per_beat": 96},
        {"notes": score.notes[:0]},
        {"tracks": ()},
        {"tempos": make_tempos([])},
        {"beats": np.zeros(1, BEAT)},
    ):
        assert score != score.replace(**change)
    with pytest.raises(TypeError, match="unhashable"):
        hash(score)
