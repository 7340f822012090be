"""Writing a `Score` to a MIDI file that every sequencer reads in the same way.

Design note: we make the messages with mido and do not use miditoolkit's `dump`. That takes the channel of a track
from its place in the list, so two instruments may share one, and it leaves tracks without names. The format does not
define letters outside ASCII; ours are UTF-8, which all programs read, although old ones may show wrong letters.
"""

from __future__ import annotations

import io
import math
import shutil
import struct
from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import IO, Any, TypeVar

import mido
import numpy as np
from mido.midifiles.meta import encode_variable_int, meta_charset
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.files import atomic_write
from musicgen.midi.chord import Chord
from musicgen.midi.markers import bar_text
from musicgen.midi.roles import DRUM_CHANNEL
from musicgen.midi.score import DEFAULT_BPM, ChordMark, Notes, Score, Tempos, TimeSignature, Track, make_tempos

PITCHED_CHANNELS = tuple(channel for channel in range(16) if channel != DRUM_CHANNEL)

MAX_RESOLUTION = (1 << 15) - 1
MAX_NUMERATOR = 255
DENOMINATORS = (1, 2, 4, 8, 16, 32, 64)
MICROSECONDS = 60e6
"""Microseconds per minute. MIDI stores a tempo as microseconds per quarter note, in three bytes."""
SLOWEST = (1 << 24) - 1
NOTE_OFF, NOTE_ON, META = 0x80, 0x90, 0xFF
"""Status bytes; those of notes are joined with a channel."""
RELEASE = 64
"""Velocity at the end of a note: that of a keyboard that does not measure it."""

Mark = tuple[int, str]
"""A tick and the text of a marker there."""
Event = tuple[int, Any]
"""A tick and a message: of mido, or the bytes of one (notes are many, and mido checks every number of a message)."""
Change = TypeVar("Change", TimeSignature, ChordMark)


def write_midi(score: Score, path: Path | str, marks: Sequence[Mark] = ()) -> None:
    """Write a score to a MIDI file, completely or not at all; see `midi_bytes`.

    Raises:
        UserError: The file cannot be written, or the score needs more channels than MIDI has.
    """
    try:
        data = midi_bytes(score, marks)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    atomic_write(Path(path), data)


def midi_bytes(score: Score, marks: Sequence[Mark] = ()) -> bytes:
    """A MIDI file of type 1: a track of tempos, time signatures and markers, and one for each track of the score.

    Markers name bars (`Bar 1`) and chords (`A_M7_A`, as in Pop1K7). Equal scores give equal bytes.

    Args:
        score: The score. What MIDI cannot express is changed first: see `clean`. Annotated beats are not written.
        marks: Further markers, at ticks from 0 on. At one tick they come after those of bar, chord and score.

    Raises:
        UserError: The score needs more channels than MIDI has.
    """
    head = header(score.ticks_per_beat, len(score.tracks))
    score = explicit(clean(score))
    bars = enumerate(bar_lines(score).tolist(), start=1)
    contents = [conductor_events(score, bars, [*score.markers, *marks])]
    contents += [note_events(score, number, channel) for number, channel in enumerate(channels(score.tracks))]
    tracks = [TrackWriter(io.BytesIO()) for _ in contents]
    for track, opening, events in zip(tracks, openings(score.tracks), contents, strict=True):
        track.write(opening + events)
    file = io.BytesIO()
    write_tracks(head, tracks, file)
    return file.getvalue()


def clean(score: Score) -> Score:
    """The part of a score that a MIDI file can express without ambiguity.

    Notes without a length, before tick 0 or with an impossible pitch are dropped. Velocities are clipped to 1 to 127.
    Notes of one pitch and channel never overlap: the earlier ends where the later starts. If two start together,
    the longer is kept, with the velocity of the louder. At each tick, only the last tempo, time signature and chord
    counts; those before the piece move to tick 0. Tempos are clipped to the range of MIDI, and impossible time
    signatures are dropped.

    Raises:
        UserError: The score needs more channels than MIDI has.
    """
    return score.replace(
        notes=_clean_notes(score.notes, np.array(channels(score.tracks), np.int64)),
        tempos=_clean_tempos(score.tempos),
        time_signatures=_in_force(_writable(score.time_signatures)),
        chords=_in_force(score.chords),
    )


def playable(notes: Notes) -> Notes:
    """A copy of the notes that have a length, begin at tick 0 or later, and have a MIDI pitch."""
    kept = (notes["start"] >= 0) & (notes["end"] > notes["start"]) & (notes["pitch"] >= 0) & (notes["pitch"] <= 127)
    return notes[kept]


def channels(tracks: Sequence[Track]) -> tuple[int, ...]:
    """The channel of each track, counted from 0.

    Drums are on channel 9. Other tracks have one channel each, or one per program if there are more than fifteen.

    Raises:
        UserError: There are more than fifteen programs.
    """
    pitched = [(number, track.program) for number, track in enumerate(tracks) if not track.is_drum]
    shared = len(pitched) > len(PITCHED_CHANNELS)
    parts = dict.fromkeys(program if shared else number for number, program in pitched)
    if len(parts) > len(PITCHED_CHANNELS):
        raise UserError(
            f"{len(parts)} different programs are more than the {len(PITCHED_CHANNELS)} that a MIDI file has channels "
            "for besides drums; give some tracks the same program"
        )
    places = dict(zip(parts, PITCHED_CHANNELS, strict=False))
    return tuple(
        DRUM_CHANNEL if track.is_drum else places[track.program if shared else number]
        for number, track in enumerate(tracks)
    )


def bar_lines(score: Score) -> NDArray[np.int64]:
    """The ticks at which bars begin, up to the last bar in which a note starts. A time signature begins a bar."""
    last = int(score.notes["start"].max(initial=-1))
    if last < 0:
        return np.empty(0, np.int64)
    metres = [item for item in signatures(score) if item.tick <= last]
    ends = [*(item.tick for item in metres[1:]), last + 1]
    return np.concatenate(
        [bar_lines_of(metre, score.ticks_per_beat, 0, end) for metre, end in zip(metres, ends, strict=True)]
    )


def bar_lines_of(signature: TimeSignature, ticks_per_beat: int, first: int, end: int) -> NDArray[np.int64]:
    """The ticks at which the bars of one time signature begin.

    Args:
        signature: The time signature. Its first bar begins at its tick.
        ticks_per_beat: Ticks in a quarter note.
        first: The number of the first bar to return, counted from 0.
        end: All returned bars begin before this tick.
    """
    # The line is rounded, not the length of a bar, so bars of a fractional number of ticks do not drift.
    length = 4 * ticks_per_beat * signature.numerator
    count = -(-(end - signature.tick) * signature.denominator // length)
    return signature.tick + np.arange(first, count) * length // signature.denominator


def chord_text(chord: Chord) -> str:
    """The marker text of a chord, with the root as the bass: `A_M7_A`, `N_N_N`."""
    return f"{chord}_{str(chord).partition('_')[0]}"


def _clean_notes(notes: Notes, channel_of: NDArray[np.int64]) -> Notes:
    notes = playable(notes)
    notes["velocity"] = notes["velocity"].clip(1, 127)
    key = channel_of[notes["track"]] * 128 + notes["pitch"]
    order = np.lexsort((-notes["end"], notes["start"], key))
    notes, key = notes[order], key[order]

    # If notes start together, the longest comes first. It is kept, with the greatest of their velocities.
    first = np.flatnonzero((np.diff(key, prepend=-1) != 0) | (np.diff(notes["start"], prepend=-1) != 0))
    kept, key = notes[first], key[first]
    kept["velocity"] = np.maximum.reduceat(notes["velocity"], first)

    cut = np.flatnonzero(key[:-1] == key[1:])
    kept["end"][cut] = np.minimum(kept["end"][cut], kept["start"][cut + 1])
    return kept


def _clean_tempos(tempos: Tempos) -> Tempos:
    tempos = tempos.copy()
    tempos["tick"] = np.maximum(tempos["tick"], 0)
    tempos["bpm"] = tempos["bpm"].clip(MICROSECONDS / SLOWEST, MICROSECONDS)
    return tempos[np.diff(tempos["tick"], append=-1) != 0]


def _in_force(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Changes in order of time, the last at each tick. Those before the piece move to tick 0."""
    last = {max(change.tick, 0): change for change in sorted(changes, key=attrgetter("tick"))}
    return tuple(change._replace(tick=tick) for tick, change in last.items())


def _writable(metres: Iterable[TimeSignature]) -> list[TimeSignature]:
    return [item for item in metres if 1 <= item.numerator <= MAX_NUMERATOR and item.denominator in DENOMINATORS]


def signatures(score: Score) -> tuple[TimeSignature, ...]:
    """The time signatures that can be written: the last at each tick, with one at tick 0."""
    metres = _in_force(_writable(score.time_signatures))
    return metres if metres and metres[0].tick == 0 else (TimeSignature(0, 4, 4), *metres)


def explicit(score: Score) -> Score:
    """A clean score with a tempo and a time signature at tick 0."""
    assumed = [] if (score.tempos["tick"] == 0).any() else [(0, DEFAULT_BPM)]
    return score.replace(tempos=np.concatenate([make_tempos(assumed), score.tempos]), time_signatures=signatures(score))


def openings(tracks: Sequence[Track]) -> list[list[Event]]:
    """The first events of each track of the file: the conductor track, then the tracks of the score.

    Raises:
        UserError: The tracks need more channels than MIDI has.
    """
    named = [[(0, mido.MetaMessage("track_name", name="Conductor"))]]
    for number, (track, channel) in enumerate(zip(tracks, channels(tracks), strict=True), start=1):
        name = track.name if track.name.strip() else f"Track {number}"
        program = mido.Message("program_change", program=track.program, channel=channel)
        role = [] if track.role is None else [(0, mido.MetaMessage("instrument_name", name=track.role))]
        named.append([(0, mido.MetaMessage("track_name", name=_text(name))), *role, (0, program)])
    return named


def conductor_events(score: Score, bars: Iterable[tuple[int, int]], marks: Iterable[Mark]) -> list[Event]:
    """The conductor track of a clean score or of a part of it; `bars` are numbers and first ticks of bars."""
    events = [
        (tick, mido.MetaMessage("time_signature", numerator=numerator, denominator=denominator))
        for tick, numerator, denominator in score.time_signatures
    ]
    events += [
        (tick, mido.MetaMessage("set_tempo", tempo=round(MICROSECONDS / bpm))) for tick, bpm in score.tempos.tolist()
    ]
    events += [(tick, mido.MetaMessage("marker", text=bar_text(number))) for number, tick in bars]
    events += [(tick, mido.MetaMessage("marker", text=chord_text(chord))) for tick, chord in score.chords]
    events += [(tick, mido.MetaMessage("marker", text=_text(text))) for tick, text in marks]
    return events


def note_events(score: Score, track: int, channel: int, since: int = 0, until: float = math.inf) -> list[Event]:
    """The note events of a track of a clean score. At one tick, notes end before others start.

    Args:
        score: A clean score.
        track: The number of the track.
        channel: Its channel.
        since: Starts before this tick are left out, because they are already written.
        until: Ends from this tick on are left out, because they will be written later.
    """
    notes = score.notes[score.notes["track"] == track]
    ending, starting = notes[notes["end"] < until], notes[notes["start"] >= since]
    off, on = NOTE_OFF | channel, NOTE_ON | channel
    events: list[Event] = [(tick, bytes((off, pitch, RELEASE))) for tick, pitch in ending[["end", "pitch"]].tolist()]
    events += [
        (tick, bytes((on, pitch, velocity)))
        for tick, pitch, velocity in starting[["start", "pitch", "velocity"]].tolist()
    ]
    return events


def _text(text: str) -> str:
    # mido keeps its character set in a global variable, and leaves it changed after an encoding error. So it gets the
    # bytes of UTF-8 as letters of Latin 1, its default, which can hold any byte.
    return text.encode("utf-8", "replace").decode("latin-1")


class TrackWriter:
    """Writes events as the bytes of a track, all at once or in parts, as mido does.

    Attributes:
        file: The file of the track.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self._now = 0
        self._status: int | None = None

    def write(self, events: Iterable[Event]) -> None:
        """Write events, none of them before those already written. Events at one tick keep their order."""
        data = bytearray()
        with meta_charset("latin-1"):
            for tick, message in sorted(events, key=itemgetter(0)):
                encoded = message if isinstance(message, bytes) else bytes(message.bytes())
                data += bytes(encode_variable_int(tick - self._now))
                # Running status: a repeated status byte is left out, until a meta message.
                data += encoded[encoded[0] == self._status :]
                self._now, self._status = tick, None if encoded[0] == META else encoded[0]
        self.file.write(data)

    def end(self) -> None:
        """Write the end of the track, at the tick of its last event."""
        self.write([(self._now, mido.MetaMessage("end_of_track"))])


def header(ticks_per_beat: int, tracks: int) -> bytes:
    """The header of a file.

    Args:
        ticks_per_beat: Ticks in a quarter note.
        tracks: Number of tracks besides the conductor track.
    """
    if not 1 <= ticks_per_beat <= MAX_RESOLUTION:
        raise ValueError(f"a MIDI file has 1 to {MAX_RESOLUTION} ticks in a beat, not {ticks_per_beat}")
    return struct.pack(">4sIHHH", b"MThd", 6, 1, 1 + tracks, ticks_per_beat)


def write_tracks(head: bytes, tracks: Iterable[TrackWriter], file: IO[bytes]) -> None:
    """End the tracks, and write header and tracks to a file, block by block."""
    file.write(head)
    for track in tracks:
        track.end()
        file.write(struct.pack(">4sI", b"MTrk", track.file.tell()))
        track.file.seek(0)
        shutil.copyfileobj(track.file, file)
