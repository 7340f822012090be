"""Chord recognition with the `chorder` package, for pieces without chord markers.

For every two beats the package searches the notes of the whole piece, so an hour of music would take a day. We give it
sixteen bars at a time, which does not change the result.
"""

from __future__ import annotations

from musicgen.midi.chord import NO_CHORD, Chord
from musicgen.midi.convert import to_miditoolkit
from musicgen.midi.score import ChordMark, Score

BLOCK_BEATS = 64


def find_chords(score: Score) -> tuple[ChordMark, ...]:
    """Chord changes, at beats. Empty if there are no notes.

    Args:
        score: A score whose beats are on its own grid. Drums are ignored.
    """
    found: list[Chord] = []
    block = BLOCK_BEATS * score.ticks_per_beat
    for first in range(0, score.end, block):
        found += _chords_of_block(score, first, first + block)
    changes = [beat for beat, chord in enumerate(found) if beat == 0 or chord != found[beat - 1]]
    return tuple(ChordMark(beat * score.ticks_per_beat, found[beat]) for beat in changes)


def _chords_of_block(score: Score, first: int, last: int) -> list[Chord]:
    """The chord of each beat from tick `first`, which is on a beat, to tick `last`."""
    from chorder import Dechorder

    notes = score.notes[(score.notes["end"] > first) & (score.notes["start"] < last)]
    notes = notes[~score.is_drum(notes)]
    beats = -(-(min(score.end, last) - first) // score.ticks_per_beat)
    if not len(notes):
        return [NO_CHORD] * beats
    notes["start"], notes["end"] = notes["start"].clip(first) - first, notes["end"].clip(max=last) - first
    found = Dechorder.dechord(to_miditoolkit(Score(score.ticks_per_beat, notes, score.tracks)))
    chords = [Chord(item.root_pc, item.quality) if item.is_complete() else NO_CHORD for item in found]
    return (chords + [NO_CHORD] * beats)[:beats]
