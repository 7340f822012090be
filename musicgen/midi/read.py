"""Reading a MIDI file into a `Score`.

Design note: symusic is a hundred times as fast as parsers in Python and gives the same result, but many malformed files
crash it and the process. So `read_midi` first makes cheap checks and then parses in a child process with limits on time
and memory. `parse_file` and `parse_midi` run there; other code may call them only in such a process.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.inputs import read_regular
from musicgen.midi.channels import DOWN, SUSTAIN, pedals_of_channels
from musicgen.midi.chord import Chord
from musicgen.midi.markers import is_bar
from musicgen.midi.roles import read_roles
from musicgen.midi.score import (
    NOTE,
    PEDAL,
    ChordMark,
    Marker,
    Notes,
    Pedals,
    Score,
    TimeSignature,
    Track,
    fault_of,
    tempo_rows,
)
from musicgen.subprocess_call import SubprocessCall, SubprocessError

MAX_BYTES = 16 << 20
MAX_NOTES = 1_000_000
MAX_BEATS = 200_000
"""Twenty-seven hours at 120 beats per minute."""
SECONDS = 10.0
"""Time limit for parsing one file. A file at the limits takes about one second."""


class MidiError(UserError):
    """A file cannot be read as MIDI; the message says why."""


def read_midi(path: Path | str) -> Score:
    """Read a MIDI file.

    Notes, tracks and their roles, tempos, time signatures, chord markers (`A_M7_A`), other markers and the
    sustain pedal are read; bends, lyrics and other controllers are not.

    Raises:
        MidiError: The file cannot be read. No malformed file raises anything else or harms the calling process.
    """
    try:
        score: Score = _child()(str(Path(path).absolute()), str(path))  # the child keeps its first working folder
    except SubprocessError as error:
        raise MidiError(f"{path}: not a MIDI file that can be read (parsing it {error})") from None
    return score


@functools.cache
def _child() -> SubprocessCall:
    return SubprocessCall(parse_file, SECONDS)


def parse_file(path: Path | str, name: str | None = None) -> Score:
    """`read_midi` without the child process.

    Args:
        path: The file.
        name: Its name in error messages, if not the path.
    """
    try:
        return parse_midi(read_bytes(path))
    except MidiError as error:
        shown = str(path if name is None else name)
        raise MidiError(f"{shown if shown.isprintable() else repr(shown)}: {error}") from None


def read_bytes(path: Path | str) -> bytes:
    """The bytes of a file that may be MIDI.

    Raises:
        MidiError: It is not a regular file, cannot be opened, or is too large.
    """
    try:
        return read_regular(path, MAX_BYTES)
    except OSError as error:
        raise MidiError(str(error.strerror)) from None


def parse_midi(data: bytes) -> Score:
    """Parse the bytes of a MIDI file. Malformed bytes may crash the process: see `read_midi`.

    Raises:
        MidiError: The bytes are not MIDI that we can use.
    """
    check_chunks(data)
    from symusic import Score as Parsed  # here, so that only the child imports it

    try:
        parsed: Any = Parsed.from_midi(data)
    except (RuntimeError, ValueError):  # the messages of the parser vary
        raise MidiError("malformed MIDI (damaged, or cut off)") from None
    ticks_per_beat = parsed.ticks_per_quarter
    tracks = [track for track in parsed.tracks if len(track.notes)]
    if sum(len(track.notes) for track in tracks) > MAX_NOTES:
        raise MidiError(f"more than {MAX_NOTES:,} notes")
    tempos = parsed.tempos.numpy()
    roles = read_roles(data)
    named = [Track(track.name, int(track.program), bool(track.is_drum)) for track in tracks]
    marks = [(Marker(int(marker.time), marker.text), Chord.from_mark(marker.text)) for marker in parsed.markers]
    if not (tempos["mspq"] > 0).all():
        raise MidiError("a tempo of zero microseconds per beat")
    score = Score(
        ticks_per_beat=ticks_per_beat,
        notes=np.concatenate([_notes(track.notes.numpy(), number) for number, track in enumerate(tracks)] or [_NONE]),
        tracks=tuple(track._replace(role=roles.get(track)) for track in named),
        tempos=tempo_rows(tempos["time"], 6e7 / tempos["mspq"]),
        time_signatures=tuple(
            TimeSignature(item.time, item.numerator, item.denominator) for item in parsed.time_signatures
        ),
        chords=tuple(ChordMark(marker.tick, chord) for marker, chord in marks if chord is not None),
        markers=tuple(marker for marker, chord in marks if chord is None and not is_bar(marker.text)),
        pedals=_all_pedals(data, [track.controls for track in tracks]),
    )
    times = np.concatenate([score.notes["start"], score.notes["end"], score.tempos["tick"], score.pedals["tick"]])
    if times.max(initial=0) > MAX_BEATS * ticks_per_beat or times.min(initial=0) < 0:  # below 0: 32 bits overflowed
        raise MidiError(f"longer than {MAX_BEATS:,} beats")
    if fault := fault_of(score):
        raise MidiError(f"malformed MIDI ({fault})")
    for _, numerator, denominator in score.time_signatures:
        if numerator < 1 or denominator not in (1, 2, 4, 8, 16, 32, 64):
            raise MidiError(f"a time signature of {numerator}/{denominator}")
    return score


_NONE, _NO_PEDALS = np.empty(0, NOTE), np.empty(0, PEDAL)


def _notes(columns: dict[str, np.ndarray], track: int) -> Notes:
    notes = np.empty(len(columns["time"]), NOTE)
    notes["start"] = columns["time"]
    notes["end"] = notes["start"] + columns["duration"]
    notes["pitch"], notes["velocity"], notes["track"] = columns["pitch"], columns["velocity"], track
    return notes


def _all_pedals(data: bytes, controls: list[Any]) -> Pedals:
    """The changes of the pedals of all tracks, given the parser's controls of each."""
    pedals = pedals_of_channels(data, len(controls))
    if pedals is None:
        pedals = np.concatenate([*(_pedals(each, number) for number, each in enumerate(controls)), _NO_PEDALS])
    return pedals


def _pedals(controls: Any, track: int) -> Pedals:
    """The changes of a track's pedal. The parser's own list lacks a pedal that is never released."""
    if not len(controls):
        return _NO_PEDALS
    columns = controls.numpy()
    is_pedal = columns["number"] == SUSTAIN
    pedals = np.empty(int(is_pedal.sum()), PEDAL)
    pedals["tick"], pedals["track"] = columns["time"][is_pedal], track
    pedals["is_down"] = columns["value"][is_pedal] >= DOWN
    return pedals


def check_chunks(data: bytes) -> None:
    """Check that there is a header and that every chunk is complete. Most broken files fail here.

    Raises:
        MidiError: Something is wrong; the message says what.
    """
    if not data:
        raise MidiError("empty file")
    if data[:4] != b"MThd" or len(data) < 14 or int.from_bytes(data[4:8], "big") < 6:
        raise MidiError("not a MIDI file (it does not begin with a MIDI header)")
    division = int.from_bytes(data[12:14], "big")
    if division >= 1 << 15:
        raise MidiError("times in SMPTE frames, not in beats: export it with a musical time base")
    if division == 0:
        raise MidiError("a time base of zero ticks per beat")
    place, tracks = 8 + int.from_bytes(data[4:8], "big"), 0
    while place + 8 <= len(data):
        name, size = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "big")
        place += 8 + size
        lacking = place - len(data)
        if lacking > MAX_BYTES:
            raise MidiError("damaged (a chunk of it claims to be longer than any MIDI file)")
        if lacking > 0:
            raise MidiError(f"cut short ({lacking:,} {'byte is' if lacking == 1 else 'bytes are'} missing at its end)")
        tracks += name == b"MTrk"
    if not tracks:
        raise MidiError("a MIDI header and no tracks")
