"""Roles of tracks and markers survive a MIDI file, and mean nothing where a file does not say them clearly."""

from __future__ import annotations

from pathlib import Path

import mido
import numpy as np
import pytest

from musicgen.midi.folder import midi_files
from musicgen.midi.markers import CONTINUATION, continuation_start
from musicgen.midi.parts import parts
from musicgen.midi.read import parse_midi
from musicgen.midi.score import Marker, Part, Score, Track, make_notes
from musicgen.midi.stream import MidiStream
from musicgen.midi.write import midi_bytes


def score(*tracks: Track, silent: int | None = None) -> Score:
    numbers = [number for number in range(len(tracks)) if number != silent]
    notes = make_notes([24] * len(numbers), [48] * len(numbers), [60] * len(numbers), 64, numbers)
    return Score(24, notes, tracks)


def test_roles_come_back_from_a_file() -> None:
    tracks = (Track("Lead", 80, role="bass"), Track("Kit", 0, True, "drums"), Track("ピアノ" * 60, 33, role="other"))
    read = parse_midi(midi_bytes(score(*tracks)))
    assert read.tracks == tracks
    assert parts(read) == ["bass", "drums", "other"]  # whatever name and program would say


def test_a_silent_track_takes_no_role_from_another() -> None:
    tracks = (Track("A", 1, role="other"), Track("B", 2, role="bass"), Track("C", 3, role="other"))
    read = parse_midi(midi_bytes(score(*tracks, silent=0)))
    assert read.tracks == tracks[1:]


def test_twins_with_different_roles_have_none() -> None:
    read = parse_midi(midi_bytes(score(Track("A", 1, role="bass"), Track("A", 1, role="other"), Track("B", 2))))
    assert [track.role for track in read.tracks] == [None, None, None]


def test_the_role_is_the_instrument_name_and_nothing_else_changes() -> None:
    track = Track("Lead", 80)
    plain, told = (mido.MidiFile(file=_file(score(item))) for item in (track, track._replace(role="bass")))
    assert [message for message in told.tracks[1] if message.type != "instrument_name"] == list(plain.tracks[1])
    assert [message.name for message in told.tracks[1] if message.type == "instrument_name"] == ["bass"]


def _file(music: Score) -> object:
    import io

    return io.BytesIO(midi_bytes(music))


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_damaged_openings_are_read_as_no_role(cut: int) -> None:
    from musicgen.midi.roles import read_roles

    data = midi_bytes(score(Track("A", 1, role="bass")))
    place = data.index(b"MTrk", data.index(b"MTrk") + 4)
    head, body = data[: place + 4], data[place + 8 : place + 8 + cut]
    found = read_roles(head + len(body).to_bytes(4, "big") + body)
    assert set(found.values()) <= {"bass"}


@pytest.mark.parametrize("role", ["bass", "drums", "other"])
def test_a_role_counts_more_than_a_guess(role: Part) -> None:
    assert parts(score(Track("Bass", 33, role=role))) == [role]


def test_markers_come_back_and_those_of_bars_and_chords_are_not_among_them(tmp_path: Path) -> None:
    marked = score(Track("A", 1)).replace(markers=(Marker(0, "Verse"), Marker(24, CONTINUATION)))
    read = parse_midi(midi_bytes(marked))
    assert read.markers == marked.markers
    assert continuation_start(read) == 24
    assert continuation_start(score(Track())) == 0
    assert np.array_equal(read.notes, marked.notes)
    with MidiStream(tmp_path / "x.mid", 24, marked.tracks) as stream:
        stream.write(marked, 30)
    assert (tmp_path / "x.mid").read_bytes() == midi_bytes(marked)


def test_midi_files_of_a_folder_are_found_below_it_in_order(tmp_path: Path) -> None:
    for name in ("b/x.MID", "a.midi", "c.txt", "d.mid/e.mid"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [path.relative_to(tmp_path).as_posix() for path in midi_files(tmp_path)] == [
        "a.midi",
        "b/x.MID",
        "d.mid",  # reading it will say that it is a folder
        "d.mid/e.mid",
    ]


def test_a_role_that_contradicts_the_channel_is_ignored() -> None:
    read = parse_midi(midi_bytes(score(Track("Low", 33, role="drums"), Track("Kit", 0, True, "bass"))))
    assert [track.role for track in read.tracks] == [None, None]
