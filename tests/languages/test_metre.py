"""Bars in metres that tokens can say, whatever the file says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pieces import EXTENDED, REMI

from musicgen.languages import TokenError
from musicgen.languages.metre import COMMON, in_metres
from musicgen.midi import Score, TimeSignature, make_notes
from musicgen.midi.bars import BarLines

METRES = EXTENDED.tokens.metres
BEAT = 480


def piece(*metres: tuple[int, int, int], beats: int = 40) -> Score:
    """A note on every beat, and time signatures (beat, numerator, denominator)."""
    start = np.arange(beats) * BEAT
    signatures = tuple(TimeSignature(beat * BEAT, upper, lower) for beat, upper, lower in metres)
    return Score(BEAT, make_notes(start, start + 240, 60 + np.arange(beats) % 12, 64), time_signatures=signatures)


def said(score: Score) -> list[tuple[float, str]]:
    return [(item.tick / BEAT, f"{item.numerator}/{item.denominator}") for item in score.time_signatures]


@pytest.mark.parametrize(
    ("metres", "expected", "words"),
    [
        ([], [(0, "4/4")], ""),
        ([(0, 3, 4)], [(0, "3/4")], ""),
        ([(0, 3, 4), (0, 6, 8)], [(0, "6/8")], ""),  # two at one tick: the last counts
        ([(0, 0, 4)], [(0, "4/4")], ""),  # of no length
        ([(0, 8, 8)], [(0, "4/4")], "8/8 read as 4/4"),
        ([(0, 1, 4)], [(0, "4/4")], "1/4 read as 4/4"),
        ([(0, 3, 2)], [(0, "6/4")], "3/2 read as 6/4"),
        ([(0, 9, 4)], [(0, "3/4")], "9/4 read as 3/4"),
        ([(0, 4, 4), (8, 3, 4), (14, 4, 4)], [(0, "4/4"), (8, "3/4"), (14, "4/4")], ""),
        ([(0, 4, 4), (11, 3, 4)], [(0, "4/4"), (8, "3/4")], ""),  # an incomplete bar has the metre of its length
        ([(0, 4, 4), (9, 3, 4)], [(0, "4/4"), (12, "3/4")], ""),  # or is joined with the next: 1 + 3
        ([(0, 1, 4), (1, 4, 4)], [(0, "4/4")], "the first bar (1/4) begins with a rest"),
        ([(0, 4, 4), (8, 1, 4), (9, 4, 4)], [(0, "4/4"), (8, "5/4"), (13, "4/4")], "1/4 read as 4/4"),
        ([(0, 4, 4), (50, 11, 8)], [(0, "4/4")], ""),  # after the last note
    ],
)
def test_metres_are_said_as_they_are_or_as_others_of_their_length(
    metres: list[tuple[int, int, int]], expected: list[tuple[float, str]], words: str
) -> None:
    found = in_metres(piece(*metres), METRES)
    assert said(found.score) == expected
    assert found.words == words


def test_a_metre_that_cannot_be_said_ends_the_piece_before_it() -> None:
    found = in_metres(piece((0, 4, 4), (16, 11, 8)), METRES)
    assert said(found.score) == [(0, "4/4")]
    assert len(found.score.notes) == 16
    assert found.words == "11/8 from beat 17 on cannot be said, so only what is before it is used"
    with pytest.raises(TokenError, match="not in a metre that tokens can say"):
        in_metres(piece((0, 11, 8)), METRES)
    with pytest.raises(TokenError, match="not in 4/4"):
        in_metres(piece((0, 3, 4)), [COMMON])


def test_the_papers_tokens_take_the_bars_in_common_time_and_all_that_fits_into_them() -> None:
    mixed = piece((0, 4, 4), (8, 2, 4), (14, 2, 2), (18, 1, 4))
    found = in_metres(mixed, [COMMON])
    assert said(found.score) == [(0, "4/4")]
    assert np.array_equal(found.score.notes, mixed.notes)
    assert "2/4 read as 4/4" in found.words
    tokens, report = REMI.encode(piece((0, 4, 4), (20, 3, 4)))
    assert REMI.complete_bars(tokens)[-1] == 5
    assert report.notes == 20
    assert "3/4 from beat 21 on cannot be said" in str(report)


def test_metres_before_the_first_note_do_not_matter() -> None:
    score = piece((0, 4, 4), beats=8)
    notes = score.notes.copy()
    notes["start"] += 11 * BEAT
    notes["end"] += 11 * BEAT
    late = score.replace(notes=notes, time_signatures=(TimeSignature(0, 11, 8), TimeSignature(11 * BEAT, 3, 4)))
    assert np.array_equal(in_metres(late, METRES).score.notes, score.notes)


signatures = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 13), st.sampled_from([1, 2, 4, 8, 16])), max_size=5
).map(lambda found: tuple(TimeSignature(240 * tick, upper, lower) for tick, upper, lower in sorted(found)))


@settings(max_examples=150, deadline=None)
@given(metres=signatures, seed=st.integers(0, 1000))
def test_any_signatures_give_whole_bars_in_which_no_note_is_lost_or_moved_apart(
    metres: tuple[TimeSignature, ...], seed: int
) -> None:
    random = np.random.default_rng(seed)
    start = np.sort(random.choice(8000, 12, replace=False)) * 2
    score = Score(BEAT, make_notes(start, start + 100, random.integers(40, 80, 12), 64), time_signatures=metres)
    for known in (METRES, (COMMON,)):
        try:
            found = in_metres(score, known)
        except TokenError:
            continue
        lines = BarLines(found.score)
        assert found.score.time_signatures[0].tick == 0
        for item in found.score.time_signatures:
            assert item[1:] in known
            assert lines.tick(lines.bar(item.tick)) == item.tick
        for before, after in zip(found.score.time_signatures, found.score.time_signatures[1:], strict=False):
            assert (after.tick - before.tick) * before.denominator % (4 * BEAT * before.numerator) == 0
        used = score.notes[score.notes["start"] < found.end]
        assert np.array_equal(found.score.notes["pitch"], used["pitch"])
        assert (np.diff(found.score.notes["start"]) >= np.diff(used["start"])).all()


@pytest.mark.parametrize("metre", METRES)
def test_every_metre_comes_back_with_triplets_and_long_notes(metre: tuple[int, int]) -> None:
    upper, lower = metre
    bar = 4 * BEAT * upper // lower
    start = [0, 160, 320, bar, bar + 360, 3 * bar]
    score = Score(
        BEAT,
        make_notes(start, [160, 320, 480, bar + 320, 3 * bar, 3 * bar + 3840], [60, 62, 64, 65, 67, 48], 67),
        time_signatures=(TimeSignature(0, upper, lower),),
    )
    tokens, report = EXTENDED.encode(score)
    back = EXTENDED.decode(tokens)
    assert back.time_signatures == score.time_signatures
    assert back.notes["start"].tolist() == start
    assert report.moved == 0
    assert EXTENDED.complete_bars(tokens)[-1] == 4
    assert EXTENDED.clock(tokens)[-1] * BEAT == 4 * bar


def test_swing_is_kept_or_named() -> None:
    beats = np.arange(16) * BEAT
    start = np.sort(np.concatenate([beats, beats + 320]))
    swung = Score(BEAT, make_notes(start, start + 120, 60 + np.arange(32) % 7, 64))
    assert np.array_equal(EXTENDED.decode(EXTENDED.encode(swung).tokens).notes["start"], start)
    assert "16 in triplets or swing straightened" in str(REMI.encode(swung).quantisation)
    live = np.sort(np.random.default_rng(0).integers(0, 16 * BEAT, 60))
    played = Score(BEAT, make_notes(live, live + 120, 60 + np.arange(60) % 7, 64))
    assert REMI.encode(played).quantisation.straightened == 0


def test_bars_are_counted_from_the_beginning_if_a_metre_is_only_said_again() -> None:
    found = in_metres(piece((0, 4, 4), (1, 4, 4), (9, 4, 4)), [COMMON])
    assert said(found.score) == [(0, "4/4")]
    late = piece((1, 4, 4))
    late = late.replace(notes=late.notes[2:])
    assert np.array_equal(in_metres(late, METRES).score.notes, late.notes)
