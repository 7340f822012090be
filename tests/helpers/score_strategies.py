"""Scores for hypothesis, with much in them that no MIDI file can say."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from musicgen.midi.chord import NO_CHORD, QUALITIES, Chord
from musicgen.midi.score import BEAT, NOTE, ChordMark, Score, TimeSignature, Track, make_tempos

NAMES = st.sampled_from(["", "  ", "Piano", "Flügel", "ピアノ", "🎹", "a\x00b", "\ud800"]) | st.text(max_size=6)
CHORDS = st.just(NO_CHORD) | st.builds(Chord, st.integers(0, 11), st.sampled_from(QUALITIES))
MARKS = st.lists(st.tuples(st.integers(0, 2400), NAMES), max_size=4)
# Few pitches and short pieces, so that notes collide.
PITCHES = st.sampled_from([-1, 0, 60, 61, 62, 127, 128])


def tracks(most: int = 4, programs: int = 128) -> st.SearchStrategy[tuple[Track, ...]]:
    track = st.builds(Track, NAMES, st.integers(0, programs - 1), st.booleans(), st.none())
    return st.lists(track, min_size=1, max_size=most).map(tuple)


@st.composite
def scores(
    draw: st.DrawFn, earliest: int = -20, shortest: int = -2, most_tracks: int = 4, programs: int = 128
) -> Score:
    """A score with all that can be wrong with one; less of it if nothing is `earliest` or `shortest` below 0."""
    parts = draw(tracks(most_tracks, programs))
    ticks = st.integers(earliest, 2000)
    notes = st.tuples(ticks, st.integers(shortest, 400), PITCHES, st.integers(-3, 140), st.integers(0, len(parts) - 1))
    rows = [(start, start + length, *rest) for start, length, *rest in draw(st.lists(notes, max_size=40))]
    return Score(
        ticks_per_beat=draw(st.sampled_from([1, 24, 120, 480, 960, 32767])),
        notes=np.array(rows, NOTE),
        tracks=parts,
        tempos=make_tempos(draw(st.lists(st.tuples(ticks, st.floats(20, 300)), max_size=4))),
        time_signatures=tuple(
            draw(
                st.lists(
                    st.builds(
                        TimeSignature, ticks, st.integers(1, 12) | st.just(255), st.sampled_from([1, 2, 4, 8, 64])
                    ),
                    max_size=4,
                )
            )
        ),
        chords=tuple(draw(st.lists(st.builds(ChordMark, ticks, CHORDS), max_size=4))),
        beats=np.array(
            draw(st.lists(st.tuples(ticks, st.booleans()), max_size=4, unique_by=lambda beat: beat[0]).map(sorted)),
            BEAT,
        ),
    )
