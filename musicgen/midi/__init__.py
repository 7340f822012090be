"""Music in memory (`Score`), and reading, writing, drawing and playing MIDI files."""

from musicgen.midi.chord import NO_CHORD, Chord
from musicgen.midi.read import MidiError, read_midi
from musicgen.midi.score import ChordMark, Score, TimeSignature, Track, make_notes, make_tempos
from musicgen.midi.stream import MidiStream
from musicgen.midi.write import write_midi

__all__ = [
    "NO_CHORD",
    "Chord",
    "ChordMark",
    "MidiError",
    "MidiStream",
    "Score",
    "TimeSignature",
    "Track",
    "make_notes",
    "make_tempos",
    "read_midi",
    "write_midi",
]
