"""Shared passages against a slow search, and what may and may not be one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from music_oracle import slow_passages

from musicgen.evaluation.music import passages
from musicgen.evaluation.music.passages import Line, Text, covered, lines_of, search
from musicgen.midi.score import Score, Track, make_notes


def line(notes: list[tuple[int, int]], owner: int = 0) -> Line:
    """A line of notes of (onset, pitch)."""
    columns = np.array(notes, np.int64).reshape(-1, 2)
    return Line(owner, columns[:, 0], columns[:, 1], columns[:, 0] * 120)


def random_line(random: np.random.Generator, notes: int) -> list[tuple[int, int]]:
    """Few kinds of step, so that much is shared."""
    onsets = np.cumsum(random.integers(1, 3, notes))
    return list(zip(onsets.tolist(), (60 + random.integers(0, 3, notes)).tolist(), strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_the_longest_passages_are_those_that_a_slow_search_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    pieces = [random_line(random, int(random.integers(1, 40))) for _ in range(4)]
    corpus = [random_line(random, int(random.integers(1, 40))) for _ in range(int(random.integers(1, 6)))]
    if seed % 3 == 0:  # a copy, to the very end of both
        pieces[1] = [(onset + 7, pitch + 2) for onset, pitch in corpus[-1]]
    found = search([line(piece).steps() for piece in pieces], [line(song).steps() for song in corpus])
    assert [notes.tolist() for notes in found] == [slow_passages(piece, corpus) for piece in pieces]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), max_size=24), min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=24)
)
def test_any_rows_of_steps(corpus: list[list[int]], query: list[int]) -> None:
    def occurs(part: list[int]) -> bool:
        return any(row[at : at + len(part)] == part for row in corpus for at in range(len(row) - len(part) + 1))

    (found,) = search([np.array(query, np.int64)], [np.array(row, np.int64) for row in corpus])
    expected = [
        1
        + max(
            length for length in range(len(query) - start + 1) if length == 0 or occurs(query[start : start + length])
        )
        for start in range(len(query) + 1)
    ]
    assert found.tolist() == expected


def test_nothing_depends_on_how_ranks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    rows = [line(random_line(random, 60)).steps() for _ in range(6)]
    before = search(rows[:2], rows[2:])
    monkeypatch.setattr(passages, "SMALL", 0)  # sort always
    for one, other in zip(before, search(rows[:2], rows[2:]), strict=True):
        assert one.tolist() == other.tolist()


def test_no_passage_goes_from_one_song_to_the_next() -> None:
    melody = [(2 * place, 60 + place * place % 13) for place in range(40)]
    (whole,) = search([line(melody).steps()], [line(melody).steps()])
    (parted,) = search([line(melody).steps()], [line(melody[:20]).steps(), line(melody[20:]).steps()])
    assert whole.max() == 40
    assert parted.max() == 20
    assert parted[[0, 20]].tolist() == [20, 20]


def test_transposition_and_the_place_do_not_matter_but_intervals_and_gaps_do() -> None:
    melody = [(0, 60), (2, 64), (3, 62), (5, 67), (5, 71)]
    moved = [(onset + 33, pitch - 7) for onset, pitch in melody]
    later = [*melody[:3], (6, 67), (6, 71)]
    higher = [*melody[:3], (5, 68), (5, 71)]
    corpus = [line(melody).steps()]
    lengths = [search([line(piece).steps()], corpus)[0].max() for piece in (moved, later, higher)]
    assert lengths == [5, 3, 3]


@pytest.mark.parametrize("factor", [2, 0.5])
def test_notes_of_twice_and_half_the_length_are_found_by_the_other_speeds(factor: float) -> None:
    random = np.random.default_rng(0)
    song = [(4 * onset, pitch) for onset, pitch in random_line(random, 30)]
    piece = line([(int(onset * factor), pitch) for onset, pitch in song])
    corpus = [line(song).steps()]
    best = {speed: search([piece.steps(speed)], corpus)[0].max() for speed in passages.SPEEDS}
    assert best[1 / factor] == 30
    assert best[1.0] < 30


def test_a_gap_that_has_no_half_is_nowhere_when_halved() -> None:
    piece = line([(0, 60), (3, 62), (5, 64)])
    corpus = [line([(0, 60), (1, 62), (2, 64)]).steps()]
    assert search([piece.steps(0.5)], corpus)[0].tolist() == [1, 2, 1]


def test_long_rests_are_alike() -> None:
    one, other = (line([(0, 60), (rest, 62)]).steps() for rest in (300, 4000))
    assert search([one], [other])[0].max() == 2
    assert search([line([(0, 60), (200, 62)]).steps()], [other])[0].max() == 1


def test_the_first_place_that_has_a_passage_is_named() -> None:
    random = np.random.default_rng(1)
    rows = [line(random_line(random, 50)).steps() for _ in range(8)]
    text = Text(rows)
    for row, start, size in ((0, 0, 1), (3, 7, 5), (7, 40, 9), (5, 0, 49)):
        part = rows[row][start : start + size].tolist()
        expected = next(
            (number, at)
            for number, other in enumerate(rows)
            for at in range(len(other) - size + 1)
            if other[at : at + size].tolist() == part
        )
        assert text.first(np.array(part)) == expected
    with pytest.raises(ValueError, match="not found"):
        text.first(np.array([77]))


def test_bytes_of_two_steps_are_not_a_step() -> None:
    text = Text([np.array([0x0102, 0x0304, 0x0201, 0x0401])])
    assert text.first(np.array([0x0201])) == (0, 2)  # the bytes 01 02 also stand between the first two


def test_notes_in_passages_that_are_long_enough_are_covered() -> None:
    longest = np.array([1, 3, 2, 1, 1, 2, 1])
    assert covered(longest, 2).tolist() == [False, True, True, True, False, True, True]
    assert covered(longest, 3).tolist() == [False, True, True, True, False, False, False]
    assert not covered(longest, 4).any()


def test_lines_have_no_drums_no_twins_and_are_in_order() -> None:
    notes = make_notes([0, 121, 118, 0, 0], [60, 180, 180, 60, 60], [64, 60, 60, 36, 60], 64, [0, 0, 1, 2, 1])
    score = Score(480, notes, (Track("a"), Track("b"), Track("drums", 0, True)))
    (merged,) = lines_of(score, 5, 4, apart=False)
    assert (merged.owner, merged.onset.tolist(), merged.pitch.tolist()) == (5, [0, 0, 1], [60, 64, 60])
    first, second = lines_of(score, 5, 4, apart=True)
    assert (first.onset.tolist(), first.pitch.tolist(), first.tick.tolist()) == ([0, 1], [64, 60], [0, 121])
    assert (second.onset.tolist(), second.pitch.tolist()) == ([0, 1], [60, 60])
    assert lines_of(score.replace(notes=notes[3:4]), 0, 4, apart=False) == []


def test_the_top_line_is_the_highest_note_at_every_onset() -> None:
    top = line([(0, 50), (0, 60), (2, 55), (4, 40), (4, 45), (4, 70)]).top()
    assert (top.onset.tolist(), top.pitch.tolist()) == ([0, 2, 4], [60, 55, 70])
