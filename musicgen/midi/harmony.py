"""Chords of a piece that does not name them, found by the `chorder` package.

The hard choice: the package looks at two beats at a time but searches the whole piece for their notes, so that an
hour of music would take it a day. It is given sixteen bars at a time, which changes nothing in what it finds.
"""

from __future__ import annotations

from musicgen.midi.chord import NO_CHORD, Chord
from musicgen.midi.convert import to_miditoolkit
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

    notes = score.notes[(score.notes["end"] > first) & (score.notes["start"] < last)]
    notes = notes[~score.is_drum(notes)]
    beats = -(-(min(score.end, last) - first) // score.ticks_per_beat)
    if not len(notes):
        return [NO_CHORD] * beats
    notes["start"], notes["end"] = notes["start"].clip(first) - first, notes["end"].clip(max=last) - first
    found = Dechorder.dechord(to_miditoolkit(Score(score.ticks_per_beat, notes, score.tracks)))
    chords = [Chord(item.root_pc, item.quality) if item.is_complete() else NO_CHORD for item in found]
    return (chords + [NO_CHORD] * beats)[:beats]
