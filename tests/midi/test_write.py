"""What is written is what `clean` says, to five readers, and nothing in a file is ambiguous."""

from __future__ import annotations

import bisect
import io
import itertools
import subprocess
import sys
import tempfile
from collections import defaultdict
from operator import itemgetter
from pathlib import Path
from typing import Any

import miditoolkit
import mido
import muspy
import numpy as np
import pretty_midi
import pytest
import symusic
from hypothesis import given, settings
from hypothesis import strategies as st
from score_strategies import MARKS, scores, tracks

from musicgen.errors import UserError
from musicgen.midi.chord import NO_CHORD, Chord
from musicgen.midi.score import ChordMark, Score, TimeSignature, Track, make_notes, make_tempos
from musicgen.midi.write import Mark, bar_lines, channels, clean, midi_bytes, write_midi

ANY = scores() | scores(most_tracks=40, programs=15)
Rows = list[tuple[int, int, int, int]]


def piece(*notes: tuple[int, int, int, int, int], **others: Any) -> Score:
    """A score of notes (start, end, pitch, velocity, track)."""
    columns = zip(*notes, strict=True) if notes else ([], [], [], [], [])
    return Score(480, make_notes(*map(list, columns)), **others)


def parse(data: bytes) -> Any:
    return mido.MidiFile(file=io.BytesIO(data))


def timed(track: Any) -> list[tuple[int, Any]]:
    """The messages of a track with the ticks at which they come."""
    return list(zip(itertools.accumulate(message.time for message in track), track, strict=True))


def rows(score: Score) -> list[Rows]:
    """The notes of each track that has any."""
    return [
        [
            (start, end, pitch, velocity)
            for start, end, pitch, velocity, number in score.notes.tolist()
            if number == part
        ]
        for part in np.unique(score.notes["track"])
    ]


def slowly_cleaned(score: Score) -> list[tuple[int, int, int, int, int]]:
    """The notes of `clean`, note by note."""
    kept: list[list[int]] = []
    for start, end, pitch, velocity, track in score.notes.tolist():
        if start < 0 or end <= start or not 0 <= pitch <= 127:
            continue
        note = [start, end, pitch, min(max(velocity, 1), 127), track]
        for other in kept:
            if channels(score.tracks)[other[4]] != channels(score.tracks)[track] or other[2] != pitch:
                continue
            if other[0] == start:
                louder = max(other[3], note[3])
                if end > other[1]:
                    other[:] = note
                other[3] = louder
                break
            other[1] = min(other[1], start)
        else:
            kept.append(note)
    return sorted((start, end, pitch, velocity, track) for start, end, pitch, velocity, track in kept)


class TestClean:
    @settings(max_examples=120, deadline=None)
    @given(score=ANY)
    def test_notes_are_those_of_the_rule_applied_note_by_note(self, score: Score) -> None:
        assert sorted(clean(score).notes.tolist()) == slowly_cleaned(score)

    @settings(max_examples=60, deadline=None)
    @given(score=ANY)
    def test_what_is_clean_stays_as_it_is(self, score: Score) -> None:
        once = clean(score)
        assert clean(once) == once

    @settings(max_examples=50, deadline=None)
    @given(score=ANY)
    def test_the_score_that_is_given_stays_as_it_was(self, score: Score) -> None:
        before = score.notes.copy(), score.tempos.copy()
        clean(score)
        assert np.array_equal(score.notes, before[0])
        assert np.array_equal(score.tempos, before[1])

    def test_the_earlier_ends_where_the_later_starts(self) -> None:
        score = piece((0, 900, 60, 80, 0), (480, 600, 60, 70, 0), (480, 960, 61, 70, 0))
        assert rows(clean(score)) == [[(0, 480, 60, 80), (480, 960, 61, 70), (480, 600, 60, 70)]]

    def test_of_two_that_start_together_the_longer_stays_as_loud_as_the_louder(self) -> None:
        score = piece((0, 100, 60, 120, 0), (0, 300, 60, 40, 0), (0, 200, 60, 90, 0))
        assert rows(clean(score)) == [[(0, 300, 60, 120)]]

    def test_tracks_that_have_their_own_channels_do_not_disturb_each_other(self) -> None:
        score = piece((0, 900, 60, 80, 0), (480, 600, 60, 70, 1), tracks=(Track("a"), Track("b")))
        assert clean(score) == score

    def test_drum_tracks_share_a_channel_and_so_are_cut(self) -> None:
        drums = (Track("a", is_drum=True), Track("b", is_drum=True))
        score = piece((0, 900, 38, 80, 0), (480, 600, 38, 70, 1), tracks=drums)
        assert rows(clean(score)) == [[(0, 480, 38, 80)], [(480, 600, 38, 70)]]

    def test_what_is_in_force_before_the_piece_is_so_from_its_first_tick(self) -> None:
        score = piece(
            tempos=make_tempos([(-9, 60.0), (-3, 90.0), (5, 100.0), (5, 110.0)]),
            time_signatures=(TimeSignature(7, 3, 4), TimeSignature(-2, 6, 8), TimeSignature(9, 4, 3)),
            chords=(ChordMark(-1, NO_CHORD),),
        )
        assert clean(score).tempos.tolist() == [(0, 90.0), (5, 110.0)]
        assert clean(score).time_signatures == ((0, 6, 8), (7, 3, 4))
        assert clean(score).chords == ((0, NO_CHORD),)


class TestReaders:
    @settings(max_examples=60, deadline=None)
    @given(score=ANY)
    def test_every_file_is_read_by_five_packages(self, score: Score) -> None:
        sounding = rows(clean(score))
        count = sum(map(len, sounding))
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "piece.mid")
            write_midi(score, path)
            assert mido.MidiFile(path).type == 1
            fast: Any = symusic.Score(path)
            assert [len(track.notes) for track in fast.tracks] == list(map(len, sounding))
            assert [len(item.notes) for item in miditoolkit.MidiFile(path).instruments] == list(map(len, sounding))
            assert sum(len(item.notes) for item in pretty_midi.PrettyMIDI(path).instruments) == count
            assert sum(len(track.notes) for track in muspy.read_midi(path).tracks) == count

    @settings(max_examples=60, deadline=None)
    @given(score=ANY)
    def test_symusic_and_miditoolkit_read_the_notes_and_tracks_of_the_clean_score(self, score: Score) -> None:
        score = clean(score)
        data = midi_bytes(score)
        sounding = [score.tracks[number] for number in np.unique(score.notes["track"])]
        fast: Any = symusic.Score.from_midi(data)
        slow = miditoolkit.MidiFile(file=io.BytesIO(data))
        assert fast.ticks_per_quarter == slow.ticks_per_beat == score.ticks_per_beat
        for parts in (fast.tracks, slow.instruments):
            assert [(part.program, part.is_drum) for part in parts] == [track[1:3] for track in sounding]
            read = [[(note.start, note.end, note.pitch, note.velocity) for note in part.notes] for part in parts]
            assert list(map(sorted, read)) == list(map(sorted, rows(score)))

    def test_a_name_in_any_script_is_utf_8(self) -> None:
        score = piece((0, 9, 60, 64, 0), (0, 9, 60, 64, 1), tracks=(Track("ピアノ"), Track("Flügel \ud800")))
        read: Any = symusic.Score.from_midi(midi_bytes(score))
        assert [track.name for track in read.tracks] == ["ピアノ", "Flügel ?"]


class TestFile:
    @settings(max_examples=60, deadline=None)
    @given(score=ANY)
    def test_no_note_hangs_or_sounds_twice(self, score: Score) -> None:
        file = parse(midi_bytes(score))
        together = [event for track in file.tracks for event in timed(track) if event[1].type.startswith("note")]
        together.sort(key=lambda event: (event[0], event[1].type == "note_on"))
        # In each track in the order of the file, and on each channel over all tracks.
        for events in [*map(timed, file.tracks), together]:
            sounding: set[tuple[int, int]] = set()
            started: dict[tuple[int, int], int] = {}
            for tick, message in events:
                if not message.type.startswith("note"):
                    continue
                key = message.channel, message.note
                if message.type == "note_on":
                    assert message.velocity > 0
                    assert key not in sounding
                    sounding.add(key)
                    started[key] = tick
                else:
                    sounding.remove(key)
                    assert tick > started[key]
            assert not sounding

    @settings(max_examples=60, deadline=None)
    @given(score=ANY)
    def test_tracks_begin_with_name_and_program_and_end_once_at_the_end(self, score: Score) -> None:
        conductor, *parts = parse(midi_bytes(score)).tracks
        assert conductor.name == "Conductor"
        assert len(parts) == len(score.tracks)
        for number, (track, part) in enumerate(zip(score.tracks, parts, strict=True)):
            name, program = part[:2]
            written = name.name.encode("latin-1").decode("utf-8")
            assert written == (track.name.replace("\ud800", "?") if track.name.strip() else f"Track {number + 1}")
            assert (program.type, program.program, name.time, program.time) == ("program_change", track.program, 0, 0)
            assert [message.type for message in part].count("program_change") == 1
            assert {message.channel for message in part if not message.is_meta} == {channels(score.tracks)[number]}
        for part in (conductor, *parts):
            assert [message.type for message in part].index("end_of_track") == len(part) - 1

    @settings(max_examples=60, deadline=None)
    @given(score=ANY)
    def test_the_first_track_alone_says_tempos_signatures_and_markers(self, score: Score) -> None:
        conductor, *parts = parse(midi_bytes(score)).tracks
        cleaned = clean(score)
        found: dict[str, list[Any]] = defaultdict(list)
        for tick, message in timed(conductor):
            found[message.type].append((tick, message))
        tempos = {tick: 60e6 / message.tempo for tick, message in found["set_tempo"]}
        expected = {0: 120.0} | dict(cleaned.tempos.tolist())
        assert tempos.keys() == expected.keys()
        assert all(abs(60e6 / tempos[tick] - 60e6 / bpm) <= 0.51 for tick, bpm in expected.items())
        signatures = [(tick, message.numerator, message.denominator) for tick, message in found["time_signature"]]
        given = list(cleaned.time_signatures)
        assert signatures == (given if given and given[0].tick == 0 else [(0, 4, 4), *given])
        texts = [(tick, message.text) for tick, message in found["marker"]]
        assert [mark for mark in texts if not mark[1].startswith("Bar ")] == [
            (tick, f"{chord}_{'N' if chord == NO_CHORD else str(chord).split('_')[0]}")
            for tick, chord in cleaned.chords
        ]
        bars = [mark for mark in texts if mark[1].startswith("Bar ")]
        assert [text for _, text in bars] == [f"Bar {number + 1}" for number in range(len(bars))]
        assert [tick for tick, _ in bars] == bar_lines(cleaned).tolist()
        assert not {message.type for part in parts for message in part if message.is_meta} - {
            "track_name",
            "end_of_track",
        }

    def test_markers_of_chords_and_bars_are_as_in_pop1k7(self) -> None:
        score = piece((1920, 2000, 60, 64, 0), chords=(ChordMark(0, Chord(9, "M7")), ChordMark(480, NO_CHORD)))
        markers = miditoolkit.MidiFile(file=io.BytesIO(midi_bytes(score))).markers
        assert [(marker.time, marker.text) for marker in markers] == [
            (0, "Bar 1"),
            (0, "A_M7_A"),
            (480, "N_N_N"),
            (1920, "Bar 2"),
        ]

    @settings(max_examples=60, deadline=None)
    @given(score=ANY, marks=MARKS)
    def test_marks_are_further_markers_after_those_of_bars_and_chords(self, score: Score, marks: list[Mark]) -> None:
        without, *parts = parse(midi_bytes(score)).tracks
        conductor, *others = parse(midi_bytes(score, marks)).tracks
        expected = timed(without)[:-1]
        for tick, text in sorted(marks, key=itemgetter(0)):
            place = bisect.bisect_right(expected, tick, key=itemgetter(0))
            latin = text.encode("utf-8", "replace").decode("latin-1")
            expected.insert(place, (tick, mido.MetaMessage("marker", text=latin)))
        assert [(tick, message.copy(time=0)) for tick, message in timed(conductor)[:-1]] == [
            (tick, message.copy(time=0)) for tick, message in expected
        ]
        assert others == parts

    def test_a_mark_in_any_script_is_utf_8(self, tmp_path: Path) -> None:
        score = piece((0, 9, 60, 64, 0), chords=(ChordMark(0, NO_CHORD),))
        write_midi(score, tmp_path / "piece.mid", [(480, "hier endet es: Ende, おわり \ud800"), (0, "begin")])
        read: Any = symusic.Score(tmp_path / "piece.mid")
        assert [(marker.time, marker.text) for marker in read.markers] == [
            (0, "Bar 1"),
            (0, "N_N_N"),
            (0, "begin"),
            (480, "hier endet es: Ende, おわり ?"),
        ]

    def test_a_mark_before_the_piece_is_refused(self) -> None:
        with pytest.raises(ValueError, match="non-negative"):
            midi_bytes(piece(), [(-1, "too early")])

    @settings(max_examples=60, deadline=None)
    @given(score=ANY, marks=MARKS)
    def test_the_bytes_are_those_that_mido_writes(self, score: Score, marks: list[Mark]) -> None:
        data, again = midi_bytes(score, marks), io.BytesIO()
        parse(data).save(file=again)
        assert again.getvalue() == data

    @settings(max_examples=30, deadline=None)
    @given(score=ANY, order=st.randoms(use_true_random=False))
    def test_equal_scores_give_equal_bytes(self, score: Score, order: Any) -> None:
        places = list(range(len(score.notes)))
        order.shuffle(places)
        assert midi_bytes(score.replace(notes=score.notes[places])) == midi_bytes(score)

    def test_a_tempo_beyond_three_bytes_is_the_nearest_that_can_be_written(self) -> None:
        for bpm, microseconds in ((1.0, 0xFFFFFF), (1e9, 1)):
            tempos = parse(midi_bytes(piece(tempos=make_tempos([(0, bpm)])))).tracks[0]
            assert [message.tempo for message in tempos if message.type == "set_tempo"] == [microseconds]

    def test_a_resolution_no_file_can_have_is_refused(self) -> None:
        for resolution in (0, 32768):
            with pytest.raises(ValueError, match=f"not {resolution}"):
                midi_bytes(piece().replace(ticks_per_beat=resolution))


class TestBars:
    def test_bars_follow_time_signatures_to_the_last_bar_in_which_a_note_starts(self) -> None:
        score = piece(
            (0, 9000, 60, 64, 0),
            (3600, 9000, 61, 64, 0),
            time_signatures=(TimeSignature(1920, 3, 4), TimeSignature(9600, 4, 4)),
        )
        assert bar_lines(score).tolist() == [0, 1920, 3360]
        assert bar_lines(piece()).tolist() == []

    def test_a_time_signature_within_a_bar_begins_a_new_one(self) -> None:
        score = piece((2000, 2001, 60, 64, 0), time_signatures=(TimeSignature(1000, 2, 4),))
        assert bar_lines(score).tolist() == [0, 1000, 1960]

    def test_bars_of_a_broken_number_of_ticks_do_not_drift(self) -> None:
        score = piece((30, 31, 60, 64, 0), time_signatures=(TimeSignature(0, 3, 16),)).replace(ticks_per_beat=10)
        assert bar_lines(score).tolist() == [0, 7, 15, 22, 30]


class TestChannels:
    @given(parts=tracks(most=40, programs=15))
    def test_drums_alone_are_on_channel_10(self, parts: tuple[Track, ...]) -> None:
        assert [channel == 9 for channel in channels(parts)] == [track.is_drum for track in parts]

    @given(drums=st.lists(st.booleans(), max_size=30))
    def test_up_to_fifteen_instruments_have_a_channel_each(self, drums: list[bool]) -> None:
        parts = [Track(is_drum=is_drum) for is_drum in drums]
        pitched = [channel for channel in channels(parts) if channel != 9]
        assert len(set(pitched)) == (len(pitched) if len(pitched) <= 15 else 1)

    def test_more_than_fifteen_share_channels_by_program(self) -> None:
        parts = [Track(program=number % 15) for number in range(40)]
        assert channels(parts) == tuple(channels(parts[:15])[number % 15] for number in range(40))

    def test_more_than_fifteen_programs_are_refused_with_the_name_of_the_file(self, tmp_path: Path) -> None:
        score = piece(tracks=tuple(Track(program=number) for number in range(16)))
        with pytest.raises(UserError, match=r"piece.mid: 16 different programs .* 15"):
            write_midi(score, tmp_path / "piece.mid")
        assert not list(tmp_path.iterdir())


def test_a_file_is_replaced_and_a_folder_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "piece.mid"
    path.write_bytes(b"old")
    write_midi(piece((0, 9, 60, 64, 0)), path)
    assert path.read_bytes() == midi_bytes(piece((0, 9, 60, 64, 0)))
    with pytest.raises(UserError, match="nowhere"):
        write_midi(piece(), tmp_path / "nowhere" / "piece.mid")
    assert list(tmp_path.iterdir()) == [path]


def test_writing_imports_nothing_slow() -> None:
    slow = "{'muspy', 'torch', 'matplotlib', 'miditoolkit', 'pretty_midi', 'symusic'}"
    program = f"import sys, musicgen.midi.write, musicgen.midi.convert; print(sorted({slow} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
