"""From a MIDI file to a `Score`, or to a reason why not.

The hard choice: the fast parser (symusic, a hundred times as fast as those in Python and with the same result)
dies of many malformed files, and with it the process. So `read_midi` parses in a child process with limits on
time and memory, and asks of the file first what can be asked cheaply. `parse_midi` is what runs there: for
code that is itself in such a process.
"""

from __future__ import annotations

import functools
import stat
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.guard import Guarded, GuardError
from musicgen.midi.chord import Chord
from musicgen.midi.score import NOTE, TEMPO, ChordMark, Notes, Score, TimeSignature, Track

MAX_BYTES = 16 << 20
MAX_NOTES = 1_000_000
MAX_BEATS = 200_000
"""Twenty-seven hours at 120 beats a minute."""
SECONDS = 10.0
"""A file at the limits takes about one."""


class MidiError(UserError):
    """A file that cannot be read as MIDI, and why."""


def read_midi(path: Path | str) -> Score:
    """Read a MIDI file, whatever is in it.

    Notes, tracks, tempos, time signatures and chord markers (`A_M7_A`) are read; pedals, bends, lyrics and
    other controllers are not.

    Raises:
        MidiError: It cannot be read. The sentence names the file and says why. Nothing else is raised, and the
            calling process is safe, however malformed the file is.
    """
    try:
        score: Score = _child()(str(Path(path).absolute()), str(path))  # the child stays in the folder it began in
    except GuardError as error:
        raise MidiError(f"{path}: not a MIDI file that can be read (parsing it {error})") from None
    return score


@functools.cache
def _child() -> Guarded:
    return Guarded(parse_file, SECONDS)


def parse_file(path: Path | str, name: str | None = None) -> Score:
    """`read_midi` without the child process.

    Args:
        path: The file.
        name: What a sentence is to call it, if not by its path.
    """
    try:
        return parse_midi(read_bytes(path))
    except MidiError as error:
        shown = str(path if name is None else name)
        raise MidiError(f"{shown if shown.isprintable() else repr(shown)}: {error}") from None


def read_bytes(path: Path | str) -> bytes:
    """The bytes of a file that may be MIDI.

    Raises:
        MidiError: It is not an ordinary file, cannot be opened, or is too large.
    """
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise MidiError("not a file")
        if status.st_size > MAX_BYTES:
            raise MidiError(f"{status.st_size / 1e6:,.0f} MB is too large, the limit is {MAX_BYTES >> 20} MB")
        return Path(path).read_bytes()
    except OSError as error:
        raise MidiError(str(error.strerror)) from None
    except ValueError:  # a path that no system can have, such as one with a NUL in it
        raise MidiError("not a path") from None


def parse_midi(data: bytes) -> Score:
    """Parse the bytes of a MIDI file. Malformed bytes may end the process: see `read_midi`.

    Raises:
        MidiError: They are not MIDI that we can use, and why.
    """
    check_chunks(data)
    from symusic import Score as Parsed  # here, so that a child alone pays for the import

    try:
        parsed: Any = Parsed.from_midi(data)
    except (RuntimeError, ValueError):  # what the parser says of it is not the same each time
        raise MidiError("malformed MIDI (damaged, or cut off)") from None
    ticks_per_beat = parsed.ticks_per_quarter
    tracks = [track for track in parsed.tracks if len(track.notes)]
    if sum(len(track.notes) for track in tracks) > MAX_NOTES:
        raise MidiError(f"more than {MAX_NOTES:,} notes")
    tempos = parsed.tempos.numpy()
    if not (tempos["mspq"] > 0).all():
        raise MidiError("a tempo of zero microseconds a beat")
    score = Score(
        ticks_per_beat=ticks_per_beat,
        notes=np.concatenate([_notes(track.notes.numpy(), number) for number, track in enumerate(tracks)] or [_NONE]),
        tracks=tuple(Track(track.name, int(track.program), bool(track.is_drum)) for track in tracks),
        tempos=np.array(list(zip(tempos["time"], 6e7 / tempos["mspq"], strict=True)), TEMPO),
        time_signatures=tuple(
            TimeSignature(item.time, item.numerator, item.denominator) for item in parsed.time_signatures
        ),
        chords=tuple(
            ChordMark(marker.time, chord)
            for marker in parsed.markers
            if (chord := Chord.from_mark(marker.text)) is not None
        ),
    )
    times = np.concatenate([score.notes["start"], score.notes["end"], score.tempos["tick"]])
    if times.max(initial=0) > MAX_BEATS * ticks_per_beat or times.min(initial=0) < 0:  # the parser's 32 bits overflow
        raise MidiError(f"longer than {MAX_BEATS:,} beats")
    for _, numerator, denominator in score.time_signatures:
        if numerator < 1 or denominator not in (1, 2, 4, 8, 16, 32, 64):
            raise MidiError(f"a time signature of {numerator}/{denominator}")
    return score


_NONE = np.empty(0, NOTE)


def _notes(columns: dict[str, np.ndarray], track: int) -> Notes:
    notes = np.empty(len(columns["time"]), NOTE)
    notes["start"] = columns["time"]
    notes["end"] = notes["start"] + columns["duration"]
    notes["pitch"], notes["velocity"], notes["track"] = columns["pitch"], columns["velocity"], track
    return notes


def check_chunks(data: bytes) -> None:
    """See that there is a header and that every chunk is whole: what most broken files are not.

    Raises:
        MidiError: What is wrong.
    """
    if not data:
        raise MidiError("empty file")
    if data[:4] != b"MThd" or len(data) < 14 or int.from_bytes(data[4:8], "big") < 6:
        raise MidiError("not a MIDI file (it does not begin with a MIDI header)")
    division = int.from_bytes(data[12:14], "big")
    if division >= 1 << 15:
        raise MidiError("times in SMPTE frames, not in beats: export it with a musical time base")
    if division == 0:
        raise MidiError("a time base of zero ticks a beat")
    place, tracks = 8 + int.from_bytes(data[4:8], "big"), 0
    while place + 8 <= len(data):
        name, size = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "big")
        place += 8 + size
        if place > len(data):
            raise MidiError(f"cut short ({place - len(data):,} bytes are missing at its end)")
        tracks += name == b"MTrk"
    if not tracks:
        raise MidiError("a MIDI header and no tracks")
