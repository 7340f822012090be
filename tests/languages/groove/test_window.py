"""A prompt for grooves is chosen and reported by the bars that are taken, not by the whole song."""

from __future__ import annotations

import numpy as np
import pytest

from musicgen.errors import UserError
from musicgen.languages.groove.language import Groove
from musicgen.languages.groove.window import take_window
from musicgen.midi.score import Notes, Score, TimeSignature, Track, make_notes, make_tempos
from musicgen.request import PromptReading

BAR = 1920
TRACKS = (Track("Bass", 33), Track("Kit", 0, True), Track("Piano"), Track("Strings", 48), Track("Solo", 65))


def line(track: int, bars: range, each: int, pitch: int) -> Notes:
    """Notes of a track, so many in each bar."""
    start = np.concatenate([bar * BAR + np.arange(each) * (BAR // each) for bar in bars])
    return make_notes(start, start + 100, np.full(len(start), pitch), 80, track)


def band(bars: int = 16) -> Score:
    """A band: bass, kick and snare throughout, a piano, strings, and a solo that comes late and has the most notes."""
    notes = [
        line(0, range(bars), 4, 36), line(1, range(bars), 2, 36), line(1, range(bars), 2, 38), line(2, range(4), 3, 60),
        line(3, range(bars), 2, 67), line(4, range(8, bars), 12, 72),
    ]  # fmt: skip
    return Score(480, np.concatenate(notes), TRACKS, make_tempos([(0, 97.0)]))


def test_the_other_instrument_is_the_busiest_in_the_bars_that_are_taken() -> None:
    assert take_window(band(), 4, None).trio[2] == (2,)
    assert take_window(band(), 8, None).trio[2] == (3,)
    assert take_window(band(), None, None).trio[2] == (4,)


@pytest.mark.parametrize(("other", "track"), [("strings", 3), ("sol", 4), ("3", 2), (5, 4), ("Bass", 0)])
def test_the_user_can_name_it(other: str | int, track: int) -> None:
    window = take_window(band(), None, other)
    assert window.trio[2] == (track,)
    assert track not in window.trio[0]


@pytest.mark.parametrize(("other", "why"), [("Kit", "is a track of drums"), ("9", "no track"), ("", "no track")])
def test_a_name_that_does_not_fit_is_refused_with_the_names_that_there_are(other: str, why: str) -> None:
    tracks = "the tracks are 1 Bass, 2 Kit, 3 Piano, 4 Strings, 5 Solo"
    with pytest.raises(UserError, match=f"other={other}: {why}.*; {tracks}"):
        take_window(band(), 4, other)


def test_the_report_counts_the_bars_that_are_taken_and_names_what_is_left_out() -> None:
    report = Groove().read_prompt(band(), 4).report
    assert report == "the prompt: 52 notes, other is Piano, 8 notes left out: Strings (8); 4 of 16 bars taken"
    assert "Solo (96), Strings (32)" in Groove().read_prompt(band(), None, PromptReading(other="Piano")).report


def test_shifts_are_reported_in_milliseconds_and_a_tick_is_not_moved() -> None:
    score = band()
    notes = score.notes.copy()
    notes["start"] += 1
    assert "moved" not in Groove().read_prompt(score.replace(notes=notes), 4).report
    notes["start"] += 9
    assert "44 moved (13 ms on average)" in Groove().read_prompt(score.replace(notes=notes), 4).report


def test_a_groove_without_its_instruments_says_so() -> None:
    assert Groove().read_prompt(band(), 4).report.endswith("bars taken")
    score = band()
    for silent, words in {0: "no bass", 1: "no kick and no snare"}.items():
        notes = score.notes[(score.notes["track"] != silent) | (score.notes["start"] >= 4 * BAR)]
        assert Groove().read_prompt(score.replace(notes=notes), 4).report.endswith(f"; {words} plays in these bars")


def test_the_bars_before_a_metre_that_cannot_be_said_are_used_and_the_report_says_so() -> None:
    score = band().replace(time_signatures=(TimeSignature(0, 4, 4), TimeSignature(8 * BAR, 3, 4)))
    assert "3/4" not in Groove().read_prompt(score, 4).report
    prompt = Groove().read_prompt(score, 9)
    assert prompt.bars == 8
    assert "3/4 from beat 33 on cannot be said, so only what is before it is used" in prompt.report
    assert prompt.report.endswith("8 of 8 bars taken (prompt_bars=9 is more than it has)")


def test_the_tempo_of_a_continuation_is_that_of_the_last_bar() -> None:
    score = band().replace(tempos=make_tempos([(0, 97.0), (2 * BAR, 130.0), (4 * BAR, 60.0)]))
    assert Groove().read_prompt(score, 2).setting["tempo"] == 97.0
    assert Groove().read_prompt(score, 4).setting["tempo"] == 130.0
