"""From a `Score` to a MIDI file that every sequencer reads in the same way.

The hard choice: messages are made here, with mido, and not by miditoolkit's `dump`. That takes a track's channel
from its place in the list, so that two instruments can come to share one, and leaves tracks without a name. The
format says nothing about letters outside ASCII; ours are UTF-8, which old programs misprint but all programs read.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeVar

import mido
import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.files import atomic_write
from musicgen.midi.chord import Chord
from musicgen.midi.score import DEFAULT_BPM, ChordMark, Notes, Score, Tempos, TimeSignature, Track

DRUM_CHANNEL = 9
"""Channel 10, as people count."""
PITCHED_CHANNELS = tuple(channel for channel in range(16) if channel != DRUM_CHANNEL)

MAX_RESOLUTION = (1 << 15) - 1
MAX_NUMERATOR = 255
DENOMINATORS = (1, 2, 4, 8, 16, 32, 64)
MICROSECONDS = 60e6
"""In a minute: MIDI writes a tempo as microseconds in a quarter note, in three bytes."""
SLOWEST = (1 << 24) - 1

Change = TypeVar("Change", TimeSignature, ChordMark)


def write_midi(score: Score, path: Path | str) -> None:
    """Write a score to a MIDI file, whole or not at all.

    Raises:
        UserError: The file cannot be written, or the score needs more channels than MIDI has.
    """
    try:
        data = midi_bytes(score)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    atomic_write(Path(path), data)


def midi_bytes(score: Score) -> bytes:
    """A MIDI file of type 1: a track of tempos, time signatures and markers, and one for each track of the score.

    Markers name bars (`Bar 1`) and chords (`A_M7_A`, as in Pop1K7). Equal scores give equal bytes.

    Args:
        score: What MIDI cannot say is first made into what it can: see `clean`. Annotated beats are not written.

    Raises:
        UserError: It needs more channels than MIDI has.
    """
    if not 1 <= score.ticks_per_beat <= MAX_RESOLUTION:
        raise ValueError(f"a MIDI file has 1 to {MAX_RESOLUTION} ticks in a beat, not {score.ticks_per_beat}")
    score = clean(score)
    file = mido.MidiFile(type=1, ticks_per_beat=score.ticks_per_beat)
    file.tracks.append(_conductor(score))
    for number, (track, channel) in enumerate(zip(score.tracks, channels(score.tracks), strict=True)):
        name = track.name if track.name.strip() else f"Track {number + 1}"
        notes = score.notes[score.notes["track"] == number]
        file.tracks.append(_instrument(name, track.program, channel, notes))
    buffer = io.BytesIO()
    file.save(file=buffer)
    return buffer.getvalue()


def clean(score: Score) -> Score:
    """What of a score a MIDI file can say without ambiguity; the same score if that is all of it.

    Notes have a length, begin at 0 or later and have a pitch MIDI knows, or are dropped; velocities are moved to
    1 to 127. No two of the same pitch sound on a channel at once: the earlier ends where the later starts, and of
    two that start together the longer stays, as loud as the louder. Of tempos, time signatures and chords there is
    one at a tick, the last given; what was in force before the piece is so from its first tick. Tempos are moved
    to those MIDI can write and time signatures it cannot are dropped.

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
    """Those notes that have a length, begin at 0 or later and have a pitch MIDI knows; a copy."""
    kept = (notes["start"] >= 0) & (notes["end"] > notes["start"]) & (notes["pitch"] >= 0) & (notes["pitch"] <= 127)
    return notes[kept]


def channels(tracks: Sequence[Track]) -> tuple[int, ...]:
    """The channel of each track, counted from 0.

    Drums are on channel 9. Other tracks have one each or, if there are more than fifteen, one for each program.

    Raises:
        UserError: There are more than fifteen programs.
    """
    pitched = [(number, track.program) for number, track in enumerate(tracks) if not track.is_drum]
    shared = len(pitched) > len(PITCHED_CHANNELS)
    parts = dict.fromkeys(program if shared else number for number, program in pitched)
    if len(parts) > len(PITCHED_CHANNELS):
        raise UserError(
            f"{len(parts)} different programs are more than the {len(PITCHED_CHANNELS)} that a MIDI file has channels "
            "for beside drums; give some tracks the same program"
        )
    places = dict(zip(parts, PITCHED_CHANNELS, strict=False))
    return tuple(
        DRUM_CHANNEL if track.is_drum else places[track.program if shared else number]
        for number, track in enumerate(tracks)
    )


def bar_lines(score: Score) -> NDArray[np.int64]:
    """The ticks at which bars begin, to the last bar in which a note starts. A time signature begins a bar."""
    last = int(score.notes["start"].max(initial=-1))
    if last < 0:
        return np.empty(0, np.int64)
    signatures = [item for item in _signatures(score) if item.tick <= last]
    ends = [*(item.tick for item in signatures[1:]), last + 1]
    lines = []
    for (tick, numerator, denominator), end in zip(signatures, ends, strict=True):
        # Bars of a broken number of ticks do not drift: only the line is rounded, not the length.
        length = 4 * score.ticks_per_beat * numerator
        count = -(-(end - tick) * denominator // length)
        lines.append(tick + np.arange(count) * length // denominator)
    return np.concatenate(lines)


def chord_text(chord: Chord) -> str:
    """The text of a chord's marker, with the root for a bass: `A_M7_A`, `N_N_N`."""
    return f"{chord}_{str(chord).partition('_')[0]}"


def _clean_notes(notes: Notes, channel_of: NDArray[np.int64]) -> Notes:
    notes = playable(notes)
    notes["velocity"] = notes["velocity"].clip(1, 127)
    key = channel_of[notes["track"]] * 128 + notes["pitch"]
    order = np.lexsort((-notes["end"], notes["start"], key))
    notes, key = notes[order], key[order]

    # The longest of those that start together comes first: it stays, with the greatest of their velocities.
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
    """Changes in order of time, the last at each tick; those before the piece come at its beginning."""
    last = {max(change.tick, 0): change for change in sorted(changes, key=attrgetter("tick"))}
    return tuple(change._replace(tick=tick) for tick, change in last.items())


def _writable(signatures: Iterable[TimeSignature]) -> list[TimeSignature]:
    return [item for item in signatures if 1 <= item.numerator <= MAX_NUMERATOR and item.denominator in DENOMINATORS]


def _signatures(score: Score) -> tuple[TimeSignature, ...]:
    """The time signatures that can be written, with one at the beginning."""
    signatures = _in_force(_writable(score.time_signatures))
    return signatures if signatures and signatures[0].tick == 0 else (TimeSignature(0, 4, 4), *signatures)


def _conductor(score: Score) -> Any:
    """The first track: its name, then what holds for all the others. At one tick, in the order below."""
    tempos = score.tempos.tolist()
    if not tempos or tempos[0][0] > 0:
        tempos.insert(0, (0, DEFAULT_BPM))
    events = [(0, mido.MetaMessage("track_name", name="Conductor"))]
    events += [
        (tick, mido.MetaMessage("time_signature", numerator=numerator, denominator=denominator))
        for tick, numerator, denominator in _signatures(score)
    ]
    events += [(tick, mido.MetaMessage("set_tempo", tempo=round(MICROSECONDS / bpm))) for tick, bpm in tempos]
    events += [
        (tick, mido.MetaMessage("marker", text=f"Bar {number}"))
        for number, tick in enumerate(bar_lines(score).tolist(), start=1)
    ]
    events += [(tick, mido.MetaMessage("marker", text=chord_text(chord))) for tick, chord in score.chords]
    return _track(events)


def _instrument(name: str, program: int, channel: int, notes: Notes) -> Any:
    """The track of an instrument. At one tick notes end before others start."""
    # mido keeps its character set in a global variable, and leaves it changed when a letter is not in the set;
    # so it is given the bytes of UTF-8 as the letters of Latin 1, its default, which holds any bytes.
    name = name.encode("utf-8", "replace").decode("latin-1")
    pitches = notes["pitch"].tolist()
    events = [
        (0, mido.MetaMessage("track_name", name=name)),
        (0, mido.Message("program_change", program=program, channel=channel)),
    ]
    events += [
        (tick, mido.Message("note_off", note=pitch, channel=channel))
        for tick, pitch in zip(notes["end"].tolist(), pitches, strict=True)
    ]
    events += [
        (tick, mido.Message("note_on", note=pitch, velocity=velocity, channel=channel))
        for tick, pitch, velocity in zip(notes["start"].tolist(), pitches, notes["velocity"].tolist(), strict=True)
    ]
    return _track(events)


def _track(events: list[tuple[int, Any]]) -> Any:
    """Messages at their ticks to messages that say how long after the one before they come; mido adds the end."""
    track = mido.MidiTrack()
    now = 0
    for tick, message in sorted(events, key=itemgetter(0)):
        message.time = tick - now
        track.append(message)
        now = tick
    return track
