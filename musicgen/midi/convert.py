"""Conversions between a `Score` and the objects of miditoolkit, pretty_midi and muspy.

Nothing is cleaned on the way. A MIDI file cannot hold notes that overlap or have no length, but these objects can, so
converting there and back keeps all notes. What a package itself refuses, such as a note that ends before it starts, is
refused here too; call `musicgen.midi.write.clean` first.

Chords and annotated beats become markers in miditoolkit and text events in pretty_midi: `A_M7_A` for a chord, `Beat`
and `Downbeat`. In muspy, chords are annotations in a group `chord`, and a beat on a barline is a downbeat. Other
markers, annotations, barlines, key signatures, lyrics, pedals and other controllers are not read. The roles of tracks
and a score's other markers are not converted.

The packages are imported only when they are used: muspy alone takes three seconds.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.chord import Chord
from musicgen.midi.score import (
    BEAT,
    NOTE,
    Beats,
    ChordMark,
    Notes,
    Score,
    TimeSignature,
    Track,
    make_notes,
    make_tempos,
)
from musicgen.midi.write import chord_text, midi_bytes

if TYPE_CHECKING:
    import miditoolkit
    import muspy
    import pretty_midi

BEAT_TEXT, DOWNBEAT_TEXT = "Beat", "Downbeat"
CHORD_GROUP = "chord"


def to_miditoolkit(score: Score) -> miditoolkit.MidiFile:
    """A `miditoolkit.MidiFile`, with chords and beats as markers."""
    import miditoolkit

    midi = miditoolkit.MidiFile(ticks_per_beat=score.ticks_per_beat)
    midi.instruments = [
        miditoolkit.Instrument(
            track.program,
            track.is_drum,
            track.name,
            notes=[miditoolkit.Note(velocity, pitch, start, end) for start, end, pitch, velocity, _ in notes.tolist()],
        )
        for track, notes in _parts(score)
    ]
    midi.tempo_changes = [miditoolkit.TempoChange(bpm, tick) for tick, bpm in score.tempos.tolist()]
    midi.time_signature_changes = [
        miditoolkit.TimeSignature(numerator, denominator, tick)
        for tick, numerator, denominator in score.time_signatures
    ]
    midi.markers = [miditoolkit.Marker(text, tick) for tick, text in _texts(score)]
    midi.max_tick = score.end + 1  # the package counts one more than the last tick
    return midi


def from_miditoolkit(midi: miditoolkit.MidiFile) -> Score:
    """The score of a `miditoolkit.MidiFile`."""
    texts = [(marker.time, marker.text) for marker in midi.markers]
    return Score(
        ticks_per_beat=midi.ticks_per_beat,
        notes=np.array(
            [
                (note.start, note.end, note.pitch, note.velocity, number)
                for number, instrument in enumerate(midi.instruments)
                for note in instrument.notes
            ],
            NOTE,
        ),
        tracks=tuple(Track(item.name, int(item.program), bool(item.is_drum)) for item in midi.instruments),
        tempos=make_tempos([(change.time, change.tempo) for change in midi.tempo_changes]),
        time_signatures=tuple(
            TimeSignature(item.time, item.numerator, item.denominator) for item in midi.time_signature_changes
        ),
        chords=_read_chords(texts),
        beats=_read_beats(texts),
    )


def to_pretty_midi(score: Score) -> pretty_midi.PrettyMIDI:
    """A `pretty_midi.PrettyMIDI` with the same resolution and tempos, and with chords and beats as text events.

    Its times are in seconds, which it converts back to the same ticks. Tempos are those of a MIDI file: whole
    microseconds per beat, from the first tick on, without repetitions.
    """
    import pretty_midi

    # Tempos can only be read from a file, so it reads a file that has nothing else.
    tempos_alone = Score(score.ticks_per_beat, np.empty(0, NOTE), tracks=(), tempos=score.tempos)
    midi = pretty_midi.PrettyMIDI(io.BytesIO(midi_bytes(tempos_alone)))
    clock = from_pretty_midi(midi)

    def seconds(ticks: Sequence[int] | NDArray[np.int64]) -> list[float]:
        return clock.seconds(np.asarray(ticks, np.int64)).tolist()

    for track, notes in _parts(score):
        instrument = pretty_midi.Instrument(track.program, track.is_drum, track.name)
        columns = notes["velocity"].tolist(), notes["pitch"].tolist(), seconds(notes["start"]), seconds(notes["end"])
        instrument.notes = [pretty_midi.Note(*note) for note in zip(*columns, strict=True)]
        midi.instruments.append(instrument)
    signatures, texts = score.time_signatures, _texts(score)
    midi.time_signature_changes = [
        pretty_midi.TimeSignature(item.numerator, item.denominator, time)
        for item, time in zip(signatures, seconds([item.tick for item in signatures]), strict=True)
    ]
    midi.text_events = [
        pretty_midi.Text(text, time)
        for (_, text), time in zip(texts, seconds([tick for tick, _ in texts]), strict=True)
    ]
    return midi


def from_pretty_midi(midi: pretty_midi.PrettyMIDI) -> Score:
    """The score of a `pretty_midi.PrettyMIDI`. Seconds become the nearest ticks of its tempo map."""
    # It stores the seconds of a tick. Rounding removes the error of dividing by them.
    changes = zip(*midi.get_tempo_changes(), strict=True)
    tempos = make_tempos([(midi.time_to_tick(time), round(float(bpm), 9)) for time, bpm in changes])
    clock = Score(midi.resolution, np.empty(0, NOTE), tempos=tempos)

    def ticks(seconds: list[float]) -> NDArray[np.int64]:
        return clock.ticks(np.array(seconds, np.float64))

    rows = [(number, note) for number, instrument in enumerate(midi.instruments) for note in instrument.notes]
    signatures, events = midi.time_signature_changes, midi.text_events
    texts = list(zip(ticks([item.time for item in events]).tolist(), [item.text for item in events], strict=True))
    return clock.replace(
        notes=make_notes(
            start=ticks([note.start for _, note in rows]),
            end=ticks([note.end for _, note in rows]),
            pitch=[note.pitch for _, note in rows],
            velocity=[note.velocity for _, note in rows],
            track=[number for number, _ in rows],
        ),
        tracks=tuple(Track(item.name, int(item.program), bool(item.is_drum)) for item in midi.instruments),
        time_signatures=tuple(
            TimeSignature(tick, item.numerator, item.denominator)
            for tick, item in zip(ticks([item.time for item in signatures]).tolist(), signatures, strict=True)
        ),
        chords=_read_chords(texts),
        beats=_read_beats(texts),
    )


def to_muspy(score: Score) -> muspy.Music:
    """A `muspy.Music`, with chords as annotations, and with beats and barlines if the score has beats."""
    import muspy

    return muspy.Music(
        resolution=score.ticks_per_beat,
        tempos=[muspy.Tempo(tick, bpm) for tick, bpm in score.tempos.tolist()],
        time_signatures=[muspy.TimeSignature(*signature) for signature in score.time_signatures],
        barlines=[muspy.Barline(tick) for tick, is_downbeat in score.beats.tolist() if is_downbeat],
        beats=[muspy.Beat(tick) for tick, _ in score.beats.tolist()],
        annotations=[muspy.Annotation(tick, chord_text(chord), CHORD_GROUP) for tick, chord in score.chords],
        tracks=[
            muspy.Track(
                track.program,
                track.is_drum,
                track.name,
                notes=[
                    muspy.Note(start, pitch, end - start, velocity) for start, end, pitch, velocity, _ in notes.tolist()
                ],
            )
            for track, notes in _parts(score)
        ],
    )


def from_muspy(music: muspy.Music) -> Score:
    """The score of a `muspy.Music`. Its chord objects become notes."""
    downbeats = {barline.time for barline in music.barlines}
    notes = [
        (note.time, note.end, note.pitch, note.velocity, number)
        for number, track in enumerate(music.tracks)
        for note in track.notes
    ]
    notes += [
        (chord.time, chord.end, pitch, chord.velocity, number)
        for number, track in enumerate(music.tracks)
        for chord in track.chords
        for pitch in chord.pitches
    ]
    return Score(
        ticks_per_beat=music.resolution,
        notes=np.array(notes, NOTE),
        tracks=tuple(Track(item.name or "", item.program, item.is_drum) for item in music.tracks),
        tempos=make_tempos([(tempo.time, tempo.qpm) for tempo in music.tempos]),
        time_signatures=tuple(
            TimeSignature(item.time, item.numerator, item.denominator) for item in music.time_signatures
        ),
        chords=_read_chords(
            (item.time, item.annotation) for item in music.annotations if isinstance(item.annotation, str)
        ),
        beats=np.array([(beat.time, beat.time in downbeats) for beat in music.beats], BEAT),
    )


def _parts(score: Score) -> list[tuple[Track, Notes]]:
    """Each track with its notes."""
    return [(track, score.notes[score.notes["track"] == number]) for number, track in enumerate(score.tracks)]


def _texts(score: Score) -> list[tuple[int, str]]:
    """Chords and beats as texts at ticks, in order of time."""
    chords = [(tick, chord_text(chord)) for tick, chord in score.chords]
    beats = [(tick, DOWNBEAT_TEXT if is_downbeat else BEAT_TEXT) for tick, is_downbeat in score.beats.tolist()]
    return sorted(chords + beats, key=lambda item: item[0])


def _read_chords(texts: Iterable[tuple[int, str]]) -> tuple[ChordMark, ...]:
    return tuple(ChordMark(tick, chord) for tick, text in texts if (chord := Chord.from_mark(text)) is not None)


def _read_beats(texts: Iterable[tuple[int, str]]) -> Beats:
    return np.array([(tick, text == DOWNBEAT_TEXT) for tick, text in texts if text in (BEAT_TEXT, DOWNBEAT_TEXT)], BEAT)
