"""The piano roll: bounded whatever the score, the same for the same score, and different where the music is."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest
from hypothesis import given, settings
from matplotlib.image import imread
from numpy.typing import NDArray
from score_strategies import scores

from musicgen.languages.remi.synthetic import compose
from musicgen.midi.chord import NO_CHORD, Chord
from musicgen.midi.picture import MOST_ROWS, _chord_name, _lay_out, draw_piano_roll
from musicgen.midi.score import NOTE, ChordMark, Score, TimeSignature, Track, make_notes

BAR = 4 * 480
MOST_PIXELS = 1600 * 2400


def pixels(picture: bytes) -> NDArray[np.float32]:
    return np.asarray(imread(io.BytesIO(picture), "png"))[..., :3]


def notes_of(*rows: tuple[int, int, int, int, int], tracks: tuple[Track, ...] = (Track("Piano"),)) -> Score:
    return Score(480, np.array(list(rows), NOTE), tracks)


@settings(deadline=None, max_examples=10)
@given(scores())
def test_any_score_is_a_picture_of_bounded_size(score: Score) -> None:
    picture = draw_piano_roll(score, "a title", prompt_end=500)
    height, width, _ = pixels(picture).shape
    assert width == 1540
    assert width * height < MOST_PIXELS


def test_a_source_is_drawn_where_it_is_and_not_on_the_grid_of_the_score() -> None:
    tokens = Score(12, make_notes([0, 12, 24], [12, 24, 36], [60, 62, 64], 64))
    sources = [
        Score(480, make_notes([0, 480 + shift, 960], [480, 960, 1440], [60, 62, 64], 64)) for shift in (0, 15, 30)
    ]
    pictures = [draw_piano_roll(tokens, source=source) for source in (None, *sources)]
    assert len(set(pictures)) == 4
    assert len({pixels(picture).shape for picture in pictures}) == 1


def test_the_same_score_gives_the_same_bytes() -> None:
    assert draw_piano_roll(compose(1, 8), "x", BAR) == draw_piano_roll(compose(1, 8), "x", BAR)


@pytest.mark.parametrize(
    "change",
    [
        {"start": 240},
        {"end": 1920},
        {"pitch": 64},
        {"velocity": 20},
        {"track": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_property_of_a_note_is_seen(change: dict[str, int]) -> None:
    tracks = (Track("Piano"), Track("Piano"))
    notes = make_notes([0, 960, 1000], [960, 1440, 1440], [60, 67, 72], 100, [0, 0, 1])
    changed = notes.copy()
    for name, value in change.items():
        changed[name][1] = value
    pictures = [pixels(draw_piano_roll(Score(480, item, tracks))) for item in (notes, changed)]
    assert pictures[0].shape == pictures[1].shape
    assert (pictures[0] != pictures[1]).any()


def test_louder_is_darker_and_tracks_have_colours() -> None:
    def ink(velocity: int, track: int) -> NDArray[np.float32]:
        tracks = (Track("a"), Track("b"))
        other = (1900, 1920, 60, 64, 1 - track)  # both are in use, so that the legends are the same
        return (1 - pixels(draw_piano_roll(notes_of((0, 1800, 60, velocity, track), other, tracks=tracks)))).sum((0, 1))

    assert (ink(120, 0) > ink(30, 0)).all()
    blue, orange = ink(127, 0), ink(127, 1)
    assert blue[0] > blue[2]  # of red, much is missing from blue ink
    assert orange[2] > orange[0]


def test_the_prompt_is_shaded_and_the_rest_is_not() -> None:
    score = compose(3, 4)
    plain, shaded = (pixels(draw_piano_roll(score, prompt_end=end)) for end in (0, 2 * BAR))
    changed = (plain != shaded).any(2)
    middle = (60 + 1518) // 2
    assert changed[:, 60:middle].mean() > 0.5
    assert changed[:, middle + 4 :].mean() == 0


def test_drums_are_marks_below_all_other_notes() -> None:
    tracks = (Track("Piano"), Track("Kit", 0, True))
    piano = (0, 480, 40, 100, 0)
    alone, together = (
        _lay_out(notes_of(*rows, tracks=tracks))
        for rows in ([piano], [piano, (0, 1, 76, 90, 1), (480, 481, 36, 90, 1)])
    )
    assert alone is not None
    assert together is not None
    assert (together.low, together.high) == (alone.low, alone.high)
    assert together.drums.tolist() == [76, 36]
    assert together.floor < together.low - 2
    assert draw_piano_roll(notes_of((0, 1, 36, 90, 0), tracks=(Track("Kit", 0, True),))).startswith(b"\x89PNG")


@pytest.mark.parametrize("bars", [1, 3, 8, 9, 64, 65, 100, 500, 3000])
def test_rows_are_few_and_hold_every_bar(bars: int) -> None:
    score = notes_of((0, 10, 60, 90, 0), (bars * BAR - 10, bars * BAR, 60, 90, 0))
    page = _lay_out(score)
    assert page is not None
    assert len(page.bars) == bars + 1
    assert page.rows <= MOST_ROWS
    assert (page.rows - 1) * page.bars_in_row < bars <= page.rows * page.bars_in_row
    assert page.bars_in_row == min(8, bars) if bars <= 64 else page.bars_in_row % 4 == 0


def test_bars_are_as_long_as_the_time_signature_says_and_the_last_is_whole() -> None:
    score = notes_of((0, 100, 60, 90, 0), (1440, 5000, 60, 90, 0))
    page = _lay_out(score.replace(time_signatures=(TimeSignature(0, 3, 4),)))
    assert page is not None
    assert page.bars.tolist() == [0, 1440, 2880, 4320, 5760]


def test_ten_thousand_bars_take_seconds_and_two_megabytes_at_most() -> None:
    random = np.random.default_rng(0)
    start = random.integers(0, 10_000 * BAR, 100_000)
    notes = make_notes(
        start,
        start + random.integers(60, 960, len(start)),
        random.integers(24, 100, len(start)),
        random.integers(1, 128, len(start)),
        random.integers(0, 3, len(start)),
    )
    began = time.process_time()
    picture = draw_piano_roll(Score(480, notes, (Track("a"), Track("b", 24), Track("c", 0, True))))
    assert time.process_time() - began < 15
    assert len(picture) < 2_000_000


def test_an_empty_score_is_a_picture_that_says_so() -> None:
    empty = pixels(draw_piano_roll(Score(480, np.empty(0, NOTE))))
    assert (empty < 0.9).any()
    assert empty.shape[1] == 1540


def test_chords_are_named_above_unless_they_are_too_dense() -> None:
    score = compose(3, 8).replace(chords=())
    marks = tuple(ChordMark(bar * BAR, Chord(bar, "m7")) for bar in range(8))
    dense = tuple(ChordMark(tick, Chord(tick // 20 % 12, "M")) for tick in range(0, 8 * BAR, 20))
    plain, named, crowded = (draw_piano_roll(score.replace(chords=item)) for item in ((), marks, dense))
    assert plain != named
    assert plain == crowded
    chords = [NO_CHORD, Chord(0, "M"), Chord(6, "/o7"), Chord(10, "M"), Chord(3, "m7"), Chord(8, "m"), Chord(1, "M7")]
    assert [_chord_name(chord) for chord in chords] == ["N.C.", "C", "F♯ø7", "B♭", "E♭m7", "G♯m", "D♭maj7"]


@pytest.mark.parametrize("name", ["$\\alpha$", "日本 a$b", "\ud800\x00\nb", "x" * 500, "_hidden", "  "])
def test_titles_and_names_may_be_any_text(name: str) -> None:
    tracks = tuple(Track(f"{name}{number}" if number else name) for number in range(14))
    score = notes_of(*((0, 480, 50 + number, 90, number) for number in range(14)), tracks=tracks)
    assert draw_piano_roll(score, name).startswith(b"\x89PNG")
