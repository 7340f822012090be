"""MIDI files of the kinds that real collections have and that nobody expects, written with mido."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable

import mido

Event = tuple[float, mido.Message | mido.MetaMessage]
"""Something that happens, and its time in beats."""
BEAT = 480


def note(start: float, length: float, pitch: int, velocity: int = 80, channel: int = 0) -> list[Event]:
    """A note."""
    return [
        (start, mido.Message("note_on", note=pitch, velocity=velocity, channel=channel)),
        (start + length, mido.Message("note_off", note=pitch, channel=channel)),
    ]


def line(starts: Iterable[float], length: float = 0.25, low: int = 60, channel: int = 0) -> list[Event]:
    """Notes one after the other."""
    return [event for place, start in enumerate(starts) for event in note(start, length, low + place % 7, 80, channel)]


def metre(beat: float, upper: int, lower: int) -> Event:
    """A time signature."""
    return beat, mido.MetaMessage("time_signature", numerator=upper, denominator=lower)


def tempo(beat: float, bpm: float) -> Event:
    """A tempo."""
    return beat, mido.MetaMessage("set_tempo", tempo=round(6e7 / bpm))


def pedal(beat: float, value: int) -> Event:
    """The sustain pedal."""
    return beat, mido.Message("control_change", control=64, value=value)


def program(number: int, channel: int) -> Event:
    """An instrument."""
    return 0.0, mido.Message("program_change", program=number, channel=channel)


def file_of(*tracks: list[Event], kind: int = 1, division: int = BEAT) -> bytes:
    """The bytes of a file."""
    midi = mido.MidiFile(type=kind, ticks_per_beat=division)
    for events in tracks:
        track, now = mido.MidiTrack(), 0
        for beat, message in sorted(events, key=lambda event: (event[0], event[1].type != "note_off")):
            tick = round(beat * division)
            track.append(message.copy(time=tick - now))
            now = tick
        midi.tracks.append(track)
    data = io.BytesIO()
    midi.save(file=data)
    return data.getvalue()


def beats(bars: int, each: int = 4) -> list[float]:
    """A note on every beat."""
    return [float(beat) for beat in range(bars * each)]


def two_signatures() -> bytes:
    """Two time signatures at tick 0; the second holds."""
    return file_of([metre(0, 1, 4), metre(0, 3, 4), *line(beats(4, 3))])


def pickup() -> bytes:
    """An upbeat in a bar of 1/4, then 4/4."""
    return file_of([metre(0, 1, 4), metre(1, 4, 4), *line(beats(4)[:13])])


def late_signature() -> bytes:
    """A time signature inside a bar."""
    return file_of([metre(0, 4, 4), metre(6, 3, 4), *line(beats(6))])


def mixed_metres() -> bytes:
    """5/8 and 7/8 in turn."""
    changes = [metre(6 * pair + half * 2.5, 7 if half else 5, 8) for pair in range(4) for half in (0, 1)]
    return file_of([*changes, *line([place / 2 for place in range(48)])])


def strange_metre_later() -> bytes:
    """Two bars of 4/4, then 11/16."""
    return file_of([metre(0, 4, 4), metre(8, 11, 16), *line([place / 2 for place in range(32)])])


def strange_metre() -> bytes:
    """11/16 from the beginning."""
    return file_of([metre(0, 11, 16), *line([place / 4 for place in range(44)])])


def swing() -> bytes:
    """Swung eighths."""
    return file_of(line([beat + part for beat in range(16) for part in (0, 2 / 3)]))


def triplets() -> bytes:
    """Triplets of eighths against sixteenths."""
    return file_of(
        [
            *line([beat + part / 3 for beat in range(16) for part in range(3)], 1 / 3),
            *line([beat + part / 4 for beat in range(16) for part in range(4)], 1 / 4, 40),
        ]
    )


def tempo_ramp() -> bytes:
    """A tempo that rises every sixteenth."""
    return file_of([*(tempo(place / 4, 60 + place) for place in range(64)), *line(beats(4))])


def no_notes() -> bytes:
    """Nothing but a tempo."""
    return file_of([tempo(0, 100)])


def only_drums() -> bytes:
    """Nothing but drums."""
    return file_of(line(beats(4), 0.1, 36, 9))


def ten_tracks() -> bytes:
    """A band of ten tracks, drums among them."""
    parts = [[program(8 * part, part), *line(beats(8), 0.5, 30 + 5 * part, part)] for part in range(10)]
    return file_of([metre(0, 4, 4)], *parts)


def one_track() -> bytes:
    """Type 0: all channels in one track."""
    return file_of(
        [program(0, 0), program(33, 1), *line(beats(4)), *line(beats(4), 0.5, 36, 1), *line(beats(4), 0.1, 36, 9)],
        kind=0,
    )


def smpte() -> bytes:
    """Times in frames."""
    data = bytearray(file_of(line(beats(2))))
    data[12:14] = bytes([256 - 25, 40])
    return bytes(data)


def held_pedal() -> bytes:
    """A pedal that is never released."""
    return file_of([pedal(0, 127), *line(beats(4), 0.25)])


def half_pedal() -> bytes:
    """A pedal that moves all the time."""
    return file_of([*(pedal(place / 16, place % 128) for place in range(256)), *line(beats(4), 0.25)])


def silent_strokes() -> bytes:
    """Notes that end with a stroke of velocity 0, and strokes of velocity 0 alone."""
    strokes: list[Event] = []
    for beat in range(16):
        strokes.append((beat, mido.Message("note_on", note=60, velocity=70)))
        strokes.append((beat + 0.5, mido.Message("note_on", note=60, velocity=0)))
        strokes.append((beat + 0.75, mido.Message("note_on", note=62, velocity=0)))
    return file_of(strokes)


def huge_rest() -> bytes:
    """Four bars, and one note very much later."""
    return file_of([*line(beats(4)), *note(100_000, 1, 60)])


def too_long() -> bytes:
    """A delta of the greatest size that there is, at two ticks a beat."""
    return file_of([*line(beats(4)), *note(100_000_000, 1, 60)], division=2)


def hanging() -> bytes:
    """Notes that never end."""
    return file_of([(beat, mido.Message("note_on", note=60 + beat, velocity=70)) for beat in range(16)])


def band_in_two_four() -> bytes:
    """A band in 2/4."""
    parts = [line(beats(8), 0.1, 36, 9), [program(33, 1), *line(beats(8), 0.5, 36, 1)], line(beats(8), 0.5, 64)]
    return file_of([metre(0, 2, 4)], *parts)


def waltz_band() -> bytes:
    """A band in 3/4."""
    parts = [line(beats(8, 3), 0.1, 36, 9), [program(33, 1), *line(beats(8, 3), 0.5, 36, 1)], line(beats(8, 3))]
    return file_of([metre(0, 3, 4)], *parts)


FILES: tuple[Callable[[], bytes], ...] = (
    two_signatures, pickup, late_signature, mixed_metres, strange_metre_later, strange_metre, swing, triplets,
    tempo_ramp, no_notes, only_drums, ten_tracks, one_track, smpte, held_pedal, half_pedal, silent_strokes, huge_rest,
    too_long, hanging, band_in_two_four, waltz_band,
)  # fmt: skip
