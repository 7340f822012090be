"""Live playing is recognised, its beats are found, and it is put on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from musicgen.data.prepare import read_file
from musicgen.errors import UserError
from musicgen.languages.reading import UNCLEAR, bring_in
from musicgen.languages.registry import LANGUAGES
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.beats import track_beats
from musicgen.midi.performance import follow_beats, follow_file, is_on_grid
from musicgen.midi.score import Score, Track, make_notes, make_tempos
from musicgen.midi.write import write_midi
from musicgen.request import Reading

BARS = 24


def played(piece: Score, beats: NDArray[np.float64], jitter: float = 0.0) -> Score:
    """A recording at 120 beats per minute of a piece in which beat i comes at `beats[i]` seconds."""
    random = np.random.default_rng(0)
    start, end = (np.interp(piece.notes[name] / 480, np.arange(len(beats)), beats) for name in ("start", "end"))
    start = start + jitter * random.standard_normal(len(start))
    ticks = [np.maximum(np.rint(960 * moments), 0).astype(np.int64) for moments in (start, end)]
    ticks[1] = np.maximum(ticks[1], ticks[0] + 1)
    return Score(480, make_notes(*ticks, piece.notes["pitch"], piece.notes["velocity"]), piece.tracks)


def drifting(seconds: float, seed: int) -> NDArray[np.float64]:
    """Beats that become slower and faster by a tenth, slowly."""
    beats = np.arange(4 * BARS + 8)
    return 1.37 + np.cumsum(seconds * (1 + 0.1 * np.sin(beats / 11 + seed)))


def agreement(found: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """F-measure at 70 ms."""
    hits = (np.abs(found[:, None] - truth).min(1) < 0.07).sum(), (np.abs(truth[:, None] - found).min(1) < 0.07).sum()
    return float(2 * min(hits) / (len(found) + len(truth)))


@pytest.mark.parametrize(("seconds", "seed"), [(0.8, 0), (0.65, 1), (0.6, 2), (0.72, 3)])
def test_the_beats_of_a_drifting_performance_are_found(seconds: float, seed: int) -> None:
    truth = drifting(seconds, seed)
    score = played(compose(seed, BARS), truth, 0.01)
    beats = track_beats(score, 60 / seconds)
    found = score.seconds(beats["tick"])
    inside = truth[(truth > found[0] - 0.07) & (truth < found[-1] + 0.07)]
    assert agreement(found, inside) > 0.9
    assert len(found) > 0.95 * 4 * BARS
    downbeats = np.flatnonzero(beats["is_downbeat"])
    assert np.mean(np.diff(downbeats) == 4) > 0.8


def test_tracking_is_the_same_whatever_grid_the_file_has() -> None:
    score = played(compose(5, BARS), drifting(0.7, 5))
    other = score.replace(ticks_per_beat=960, tempos=make_tempos([(0, 60.0)]))
    assert track_beats(score).tolist() == track_beats(other).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_a_grid_that_means_something_is_told_from_one_that_does_not(seed: int) -> None:
    piece = compose(seed, BARS)
    beats = np.arange(4 * BARS + 8)
    assert is_on_grid(piece)
    assert is_on_grid(piece.replace(ticks_per_beat=240))  # a quantised file is believed at any speed
    assert is_on_grid(played(piece, beats * 0.5, 0.012))  # played to the click
    assert not is_on_grid(played(piece, beats * 0.617, 0.012))  # played at another tempo
    assert not is_on_grid(played(piece, beats * 0.5 + 0.19, 0.012))  # played to a click that began elsewhere
    assert not is_on_grid(played(piece, drifting(0.6, seed), 0.012))


def test_a_performance_is_put_on_its_beats_and_the_report_says_so() -> None:
    truth = drifting(0.7, 1)
    score = played(compose(1, BARS), truth, 0.005)
    moved, done = bring_in(score, Reading())
    assert "live playing, put on the beat that was found in it" in done["beat"]
    assert "in 4/4" in done["beat"]
    away = np.abs(moved.notes["start"] / 120 - np.rint(moved.notes["start"] / 120)) / 4 * 0.7
    assert away.mean() < 0.02  # seconds
    assert moved.duration == pytest.approx(score.duration, abs=3.0)
    assert bring_in(score, Reading(grid="file")) == (score, {})
    again, nothing = bring_in(moved, Reading())
    assert again is moved
    assert nothing == {}


def test_noise_has_no_clear_beat_and_the_sentence_says_what_to_do() -> None:
    random = np.random.default_rng(0)
    start = np.sort(random.integers(0, 60_000, 300))
    noise = Score(480, make_notes(start, start + 300, random.integers(40, 80, 300), 64), (Track("Piano"),))
    found = follow_beats(noise)
    assert found is not None
    assert not found[1]
    assert "without a clear beat, put on the likeliest one" in bring_in(noise, Reading())[1][UNCLEAR]
    assert "grid=file takes the grid of the file" in bring_in(noise, Reading())[1][UNCLEAR]
    assert bring_in(noise, Reading(grid="file"))[0] is noise
    assert bring_in(noise, Reading(), tempo=100.0)[1]["beat"].startswith("live playing")


def test_beats_can_come_from_a_file(tmp_path: Path) -> None:
    truth = drifting(0.7, 2)
    piece = compose(2, BARS)
    score = played(piece, truth)
    path = tmp_path / "beats.txt"
    path.write_text("".join(f"{time} {i % 4 + 1}\n" for i, time in enumerate(truth)))
    moved = follow_file(score, path)
    assert np.abs(moved.notes["start"] - piece.notes["start"]).max() <= 2
    path.write_text("".join(f"{time}\n" for time in truth))
    assert follow_file(score, path) == moved
    for text in ("", "one\n", "1.0 1\n2.0\n", "2.0\n1.0\n", "nan\n1\n", "3.0\n"):
        path.write_text(text)
        with pytest.raises(UserError, match=f"beats={path}: "):
            follow_file(score, path)
    with pytest.raises(UserError, match=r"beats=.*No such file"):
        follow_file(score, tmp_path / "none.txt")
    with pytest.raises(UserError, match="grid=file and beats=: leave out one"):
        bring_in(score, Reading(grid="file"), beats=path)


def test_a_file_with_too_little_to_find_a_beat_in_is_refused_only_if_its_grid_means_nothing() -> None:
    start = 7 * np.arange(30)  # a quarter of a second
    burst = Score(480, make_notes(start, start + 10, np.full(30, 60), 64))
    assert is_on_grid(burst.replace(notes=burst.notes[:20]))
    assert not is_on_grid(burst)
    with pytest.raises(UserError, match="no beat is found"):
        bring_in(burst, Reading())


def test_a_corpus_leaves_out_what_has_no_clear_beat(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    start = np.sort(random.integers(0, 60_000, 300))
    noise = Score(480, make_notes(start, start + 300, random.integers(40, 80, 300), 64))
    write_midi(noise, tmp_path / "noise.mid")
    with pytest.raises(UserError, match="live playing without a clear beat"):
        read_file(LANGUAGES["remi"], str(tmp_path), "noise.mid", "folder", None)
    kept = read_file(LANGUAGES["remi"], str(tmp_path), "noise.mid", "folder", None, Reading(grid="file"))
    assert kept.song.notes > 250
    live = played(compose(3, BARS), drifting(0.7, 3), 0.005)
    write_midi(live, tmp_path / "live.mid")
    assert read_file(LANGUAGES["remi"], str(tmp_path), "live.mid", "folder", None).done == ("beat",)
