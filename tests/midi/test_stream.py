"""A file that is written as the music comes is that of the whole, and never takes more memory for more music."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import miditoolkit
import mido
import muspy
import numpy as np
import pretty_midi
import pytest
import symusic
from hypothesis import given, settings
from hypothesis import strategies as st
from score_strategies import MARKS, scores

from musicgen.errors import UserError
from musicgen.files import atomic_write
from musicgen.midi import read_midi, stream
from musicgen.midi.chord import NO_CHORD
from musicgen.midi.score import ChordMark, Score, TimeSignature, Track, make_notes, make_tempos
from musicgen.midi.stream import MidiStream
from musicgen.midi.write import Mark, midi_bytes

BAR = 1920
END = 4000
"""After all that `PIECES` have in them."""
METRES = st.builds(TimeSignature, st.integers(0, END - 1), st.integers(1, 12), st.sampled_from([1, 2, 4, 8, 64]))
PIECES = st.builds(
    lambda score, metres: score.replace(time_signatures=tuple(sorted(metres))),
    scores(earliest=0) | scores(earliest=0, most_tracks=40, programs=15),
    st.lists(METRES, max_size=4, unique_by=lambda metre: metre.tick),
)
"""Scores with all that can be wrong with one."""
CUTS = st.lists(st.integers(0, END), max_size=12).map(sorted)


def begin(path: Path, score: Score) -> MidiStream:
    return MidiStream(path, score.ticks_per_beat, score.tracks)


def from_on(score: Score, tick: int) -> Score:
    """What starts at a tick or later."""
    return score.replace(
        notes=score.notes[score.notes["start"] >= tick],
        tempos=score.tempos[score.tempos["tick"] >= tick],
        chords=tuple(chord for chord in score.chords if chord.tick >= tick),
    )


def streamed(score: Score, cuts: Sequence[int], marks: Sequence[Mark] = ()) -> bytes:
    """A file that is written up to each of some ticks in turn, and each time given all that is yet to come."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "piece.mid"
        with begin(path, score) as file:
            for since, until in zip([0, *cuts], [*cuts, END], strict=True):
                file.write(from_on(score, since), until, [mark for mark in marks if mark[0] >= since])
                assert not path.exists()
        assert list(Path(folder).iterdir()) == [path]
        return path.read_bytes()


def piece(*notes: tuple[int, int, int, int, int], **others: Any) -> Score:
    """A score of notes (start, end, pitch, velocity, track)."""
    columns = zip(*notes, strict=True) if notes else ([], [], [], [], [])
    return Score(480, make_notes(*map(list, columns)), **others)


def bar(number: int) -> Score:
    """A bar of music in which something of everything happens, and a note of it sounds for eight."""
    start = number * BAR + np.arange(8) * (BAR // 8)
    end = start + BAR // 8
    end[0] += 8 * BAR
    notes = make_notes(start, end, 40 + (np.arange(8) + number) % 40, 64)
    chords = (ChordMark(number * BAR, NO_CHORD),)
    return Score(480, notes, tempos=make_tempos([(number * BAR, 100.0 + number % 7)]), chords=chords)


class TestBytes:
    @settings(max_examples=200, deadline=None)
    @given(score=PIECES, cuts=CUTS, marks=MARKS)
    def test_they_are_those_of_the_whole_however_it_is_cut(
        self, score: Score, cuts: list[int], marks: list[Mark]
    ) -> None:
        assert streamed(score, cuts, marks) == midi_bytes(score, marks)

    @settings(max_examples=10, deadline=None)
    @given(score=PIECES, marks=MARKS)
    def test_so_they_are_tick_by_tick(self, score: Score, marks: list[Mark]) -> None:
        ticks = {*score.notes["start"].tolist(), *score.notes["end"].tolist()}
        cuts = sorted(tick + step for tick in ticks for step in (0, 1) if tick >= 0)
        assert streamed(score, cuts, marks) == midi_bytes(score, marks)

    def test_a_note_that_sounds_is_cut_short_by_the_next_of_its_pitch(self) -> None:
        score = piece((0, 9 * BAR, 60, 64, 0), (10, 3000, 61, 64, 0), (3000, 3001, 60, 64, 0))
        assert streamed(score, [BAR, 2999]) == midi_bytes(score)

    def test_bars_of_silence_are_counted_once_a_note_follows_and_not_at_the_end(self) -> None:
        silence = [ChordMark(bar * BAR, NO_CHORD) for bar in range(1, 5)]
        tempos = make_tempos([(2 * BAR, 90.0), (4 * BAR, 100.0)])
        marks = [(3 * BAR, "a mark"), (5 * BAR, "another")]
        short = piece((0, 9, 60, 64, 0), chords=tuple(silence), tempos=tempos)
        for score in (short, piece((0, 9, 60, 64, 0), (5 * BAR, 9999, 60, 64, 0), chords=short.chords, tempos=tempos)):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "piece.mid"
                with begin(path, score) as file:
                    for since in range(0, 8 * BAR, BAR):
                        later = [mark for mark in marks if mark[0] >= since]
                        file.write(from_on(score, since), since + BAR, later)
                assert path.read_bytes() == midi_bytes(score, marks)

    def test_a_file_to_which_nothing_was_written_is_that_of_an_empty_score(self, tmp_path: Path) -> None:
        with begin(tmp_path / "piece.mid", piece()):
            pass
        assert (tmp_path / "piece.mid").read_bytes() == midi_bytes(piece())


@settings(max_examples=20, deadline=None)
@given(score=PIECES, cuts=CUTS, marks=MARKS)
def test_every_file_is_read_by_six_readers(score: Score, cuts: list[int], marks: list[Mark]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "piece.mid"
        path.write_bytes(streamed(score, cuts, marks))
        ours, fast = read_midi(path), cast(Any, symusic.Score(path))
        assert mido.MidiFile(path).type == 1
        counts = [
            sum(len(track.notes) for track in tracks)
            for tracks in (
                fast.tracks,
                miditoolkit.MidiFile(path).instruments,
                pretty_midi.PrettyMIDI(str(path)).instruments,
                muspy.read_midi(path).tracks,
            )
        ]
        assert counts == [len(ours.notes)] * 4


class TestMemory:
    def test_it_is_the_same_after_three_thousand_bars(self, tmp_path: Path) -> None:
        bars, peaks = 3000, []
        path = tmp_path / "piece.mid"
        tracemalloc.start()
        try:
            with begin(path, bar(0)) as file:
                for number in range(bars):
                    file.write(bar(number), (number + 1) * BAR)
                    if number + 1 in (bars // 2, bars):
                        peaks.append(tracemalloc.get_traced_memory()[1])
                        tracemalloc.reset_peak()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        first, second, closing = peaks
        # Python keeps a few thousand freed tuples for later; to hold what the bars say would take a megabyte.
        assert second < first + 50_000
        assert closing < first + 200_000  # two blocks of a copy
        assert path.stat().st_size > 250_000
        assert len(read_midi(path).notes) == 8 * bars


class TestFailure:
    @pytest.fixture(params=[True, False], ids=["with an old file", "without"])
    def path(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        if request.param:
            (tmp_path / "piece.mid").write_bytes(b"old")
        return tmp_path / "piece.mid"

    @pytest.fixture(autouse=True)
    def nothing_has_changed(self, path: Path) -> Any:
        before = {item.name: item.read_bytes() for item in path.parent.iterdir()}
        yield
        assert {item.name: item.read_bytes() for item in path.parent.iterdir()} == before

    def test_nothing_is_left_of_what_is_discarded(self, path: Path) -> None:
        file = begin(path, bar(0))
        file.write(bar(0), BAR)
        file.discard()
        file.discard()
        file.close()
        with pytest.raises(ValueError, match="closed"):
            file.write(bar(1), 2 * BAR)

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("a bug"), UserError("bad input")])
    def test_nothing_is_left_if_something_is_raised_within_it(self, error: BaseException, path: Path) -> None:
        with pytest.raises(type(error)), begin(path, bar(0)) as file:
            write_and_fail(file, error)

    @pytest.mark.parametrize("step", ["fsync", "replace"])
    @pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
    def test_nothing_is_left_if_closing_fails(
        self, step: str, error: BaseException, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = begin(path, bar(0))
        file.write(bar(0), BAR)

        def fail(*_: object) -> NoReturn:
            raise error

        monkeypatch.setattr(os, step, fail)
        with pytest.raises((UserError, KeyboardInterrupt)) as caught:
            file.close()
        if isinstance(error, OSError):
            assert str(caught.value) == f"{path}: cannot be written (No space left on device)"

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk here that is always full")
    def test_nothing_is_left_if_the_disk_is_full(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stream, "TemporaryFile", lambda **_: io.BufferedWriter(io.FileIO("/dev/full", "w")))
        file = begin(path, bar(0))
        with pytest.raises(UserError, match=f"^{path}: cannot be written \\(No space left on device\\)$"):
            file.write(bar(0), BAR)
        file.close()

    def test_nothing_is_left_by_a_process_that_is_killed(self, path: Path) -> None:
        program = (
            "import os, signal, sys; from pathlib import Path; from test_stream import BAR, bar, begin\n"
            "file = begin(Path(sys.argv[1]), bar(0))\n"
            "for number in range(50): file.write(bar(number), (number + 1) * BAR)\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # the shared helpers are on it
        here = Path(__file__).parent
        run = subprocess.run([sys.executable, "-c", program, path], cwd=here, env=environment, check=False)
        assert run.returncode == -signal.SIGKILL


def write_and_fail(file: MidiStream, error: BaseException) -> NoReturn:
    file.write(bar(0), BAR)
    raise error


class TestRefusals:
    def test_what_comes_too_late_is_refused(self, tmp_path: Path) -> None:
        early = BAR - 1
        parts: list[tuple[Score, int, list[Mark]]] = [
            (piece((early, 9999, 60, 64, 0)), 2 * BAR, []),
            (piece(tempos=make_tempos([(early, 90.0)])), 2 * BAR, []),
            (piece(chords=(ChordMark(early, NO_CHORD),)), 2 * BAR, []),
            (piece(), 2 * BAR, [(early, "a mark")]),
            (piece(), early, []),
        ]
        with begin(tmp_path / "piece.mid", piece()) as file:
            file.write(piece(), BAR)
            for score, until, marks in parts:
                with pytest.raises(ValueError, match=rf"{early}|{BAR}"):
                    file.write(score, until, marks)
        assert (tmp_path / "piece.mid").read_bytes() == midi_bytes(piece())

    def test_parts_of_another_piece_are_refused(self, tmp_path: Path) -> None:
        others = [
            piece().replace(ticks_per_beat=960),
            piece(tracks=(Track("Piano", is_drum=True),)),
            piece(time_signatures=(TimeSignature(0, 3, 4),)),
        ]
        with begin(tmp_path / "piece.mid", piece()) as file:
            file.write(piece(time_signatures=(TimeSignature(0, 4, 4),)), BAR)
            for score in others:
                with pytest.raises(ValueError, match=r"resolution and tracks|time signature"):
                    file.write(score, 2 * BAR)

    def test_what_cannot_be_streamed_is_refused_before_anything_is_written(self, tmp_path: Path) -> None:
        path = tmp_path / "piece.mid"
        for resolution in (0, 32768):
            with pytest.raises(ValueError, match=f"not {resolution}"):
                MidiStream(path, resolution, [Track()])
        with pytest.raises(UserError, match=r"piece.mid: 16 different programs .* 15"):
            MidiStream(path, 480, [Track(program=number) for number in range(16)])
        assert not list(tmp_path.iterdir())

    def test_where_no_file_can_be_is_said_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        atomic_write(tmp_path / "file", b"")
        for path, reason in (
            (tmp_path / "nowhere" / "piece.mid", "there is no folder"),
            (tmp_path / "file" / "piece.mid", "there is no folder"),
            (tmp_path, "exists and is not a file"),
            (tmp_path / ("a" * 256), "cannot be written"),
        ):
            with pytest.raises(UserError, match=f"^{path}: {reason}"):
                begin(path, piece())

        def denied(**_: object) -> NoReturn:  # root is denied nothing
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(stream, "TemporaryFile", denied)
        with pytest.raises(UserError, match=f"^{tmp_path}/piece.mid: cannot be written \\(Permission denied\\)$"):
            begin(tmp_path / "piece.mid", piece())
        assert [item.name for item in tmp_path.iterdir()] == ["file"]
