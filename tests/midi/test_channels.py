"""A pedal holds the notes of its channel, in whatever track of a file it stands."""

from __future__ import annotations

from pathlib import Path

import mido
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.midi import read_midi
from musicgen.midi.channels import pedals_of_channels
from musicgen.midi.read import read_bytes

Change = tuple[int, int, bool]
"""A channel, a tick, and whether its pedal is down from there on."""


def write(path: Path, notes: list[int], pedals: list[list[Change]], ports: dict[int, int] | None = None) -> Path:
    """A file with a track for each channel in `notes`; each track, and those after them, has some pedals."""
    file = mido.MidiFile(type=1, ticks_per_beat=480)
    for number in range(max(len(notes), len(pedals))):
        events = [
            (tick, mido.Message("control_change", control=64, value=127 * down, channel=channel))
            for channel, tick, down in (pedals[number] if number < len(pedals) else [])
        ]
        if number < len(notes):
            events.append((0, mido.Message("note_on", note=60 + number, velocity=80, channel=notes[number])))
            events.append((240, mido.Message("note_on", note=60 + number, velocity=0, channel=notes[number])))
        track, now = mido.MidiTrack(), 0
        if ports and number in ports:
            track.append(mido.MetaMessage("midi_port", port=ports[number]))
        for tick, event in sorted(events, key=lambda event: event[0]):
            track.append(event.copy(time=tick - now))
            now = tick
        file.tracks.append(track)
    file.save(path)
    return path


def read(path: Path) -> list[Change]:
    return sorted((int(row["track"]), int(row["tick"]), bool(row["is_down"])) for row in read_midi(path).pedals)


changes = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 900), st.booleans()), max_size=4, unique_by=lambda c: c[:2]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.lists(changes, max_size=5))
def test_every_track_has_the_pedals_of_its_channel(
    tmp_path_factory: pytest.TempPathFactory, notes: list[int], pedals: list[list[Change]]
) -> None:
    path = write(tmp_path_factory.mktemp("file") / "hands.mid", notes, pedals)
    if len(notes) == 1 and len(pedals) < 2:
        pedals = [[change for change in each if change[0] == notes[0]] for each in pedals]
    expected = [
        (track, tick, down)
        for track, channel in enumerate(notes)
        for each in pedals
        for pedal, tick, down in each
        if pedal == channel
    ]
    assert read(path) == sorted(expected)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_both_hands_are_held_wherever_the_pedal_stands(tmp_path: Path, place: int) -> None:
    pedals: list[list[Change]] = [[], [], []]
    pedals[place] = [(0, 0, True), (0, 960, False)]
    assert read(write(tmp_path / "x.mid", [0, 0], pedals)) == [
        (0, 0, True),
        (0, 960, False),
        (1, 0, True),
        (1, 960, False),
    ]


def test_the_same_channel_of_another_port_is_another_instrument(tmp_path: Path) -> None:
    pedals: list[list[Change]] = [[(0, 0, True), (0, 960, False)], []]
    assert read(write(tmp_path / "x.mid", [0, 0], pedals, ports={1: 1})) == [(0, 0, True), (0, 960, False)]


def test_a_track_of_two_channels_is_left_to_the_parser(tmp_path: Path) -> None:
    path = write(tmp_path / "x.mid", [0, 1], [[(0, 0, True)]])
    file = mido.MidiFile(path)
    file.tracks[1].append(mido.Message("note_on", note=70, velocity=80, channel=5, time=0))
    file.tracks[1].append(mido.Message("note_off", note=70, channel=5, time=100))
    file.save(path)
    assert pedals_of_channels(read_bytes(path), 3) is None
    assert read(path) == [(0, 0, True)]


def test_running_status_may_go_on_after_a_text(tmp_path: Path) -> None:
    """Notes and a pedal without a status byte of their own, after a meta event between them."""
    hand = bytes.fromhex("00 90 3c 50 83 60 ff 01 01 61 00 3c 00 00 ff 2f 00")
    pedal = bytes.fromhex("00 b0 40 7f 00 ff 01 01 61 87 40 40 00 00 ff 2f 00")
    chunks = [b"MTrk" + len(chunk).to_bytes(4, "big") + chunk for chunk in (hand, pedal)]
    path = tmp_path / "x.mid"
    path.write_bytes(b"MThd" + bytes.fromhex("00000006 0001 0002 01e0") + b"".join(chunks))
    found = pedals_of_channels(read_bytes(path), 1)
    assert found is not None
    assert found.tolist() == [(0, 0, True), (960, 0, False)]
