"""Chords of a piece that does not name them, found by the `chorder` package.

The hard choice: the package looks at two beats at a time but searches the whole piece for their notes, so that an
hour of music would take it a day. It is given sixteen bars at a time, which changes nothing in what it finds.
"""

from __future__ import annotations

import numpy as np

from musicgen.midi.chord import NO_CHORD, Chord
from musicgen.midi.score import ChordMark, Score

BLOCK_BEATS = 64


def find_chords(score: Score) -> tuple[ChordMark, ...]:
    """Chord changes, at beats; none at all if there are no notes.

    Args:
        score: In which beats are where the file's own grid has them. Drums are not listened to.
    """
    found: list[Chord] = []
    block = BLOCK_BEATS * score.ticks_per_beat
    for first in range(0, score.end, block):
        found += _chords_of_block(score, first, first + block)
    changes = [beat for beat, chord in enumerate(found) if beat == 0 or chord != found[beat - 1]]
    return tuple(ChordMark(beat * score.ticks_per_beat, found[beat]) for beat in changes)


def _chords_of_block(score: Score, first: int, last: int) -> list[Chord]:
    """The chord of each beat between two ticks, of which `first` is a whole number of beats."""
    from chorder import Dechorder
    from miditoolkit import Instrument, MidiFile, Note

    drums = np.array([track.is_drum for track in score.tracks] or [False])
    notes = score.notes[(score.notes["end"] > first) & (score.notes["start"] < last)]
    notes = notes[~drums[notes["track"]]]
    end = min(int(notes["end"].max(initial=first)), last)
    midi = MidiFile(ticks_per_beat=score.ticks_per_beat)
    midi.instruments = [
        Instrument(
            0,
            notes=[
                Note(
                    int(note["velocity"]),
                    int(note["pitch"]),
                    int(max(note["start"], first)) - first,
                    int(min(note["end"], last)) - first,
                )
                for note in notes
            ],
        )
    ]
    midi.max_tick = end - first
    beats = -(-(min(score.end, last) - first) // score.ticks_per_beat)
    chords = (
        [Chord(c.root_pc, c.quality) if c.is_complete() else NO_CHORD for c in Dechorder.dechord(midi)]
        if len(notes)
        else []
    )
    return (chords + [NO_CHORD] * beats)[:beats]
