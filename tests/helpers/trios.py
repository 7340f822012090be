"""Random grooves for tests: notes and scores of any kind, and pieces that the grammar allows."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from musicgen.languages import Groove, Tokens
from musicgen.midi import Score, TimeSignature, Track, make_notes
from musicgen.midi.score import Notes

GROOVE = Groove()
FEW = np.array([1, 5, 60, 127, 128 + 36, 128 + 38, 256, 256 + 60, 383])
"""Keys that random music prefers, so that one is often wanted while it sounds."""


def random_groove(seed: int, length: int) -> Tokens:
    """A walk through the grammar that ends soon after `length` tokens."""
    random = np.random.default_rng(seed)
    words = GROOVE.vocabulary
    on, off, shift, end = (words.number(family) for family in ("NoteOn", "NoteOff", "Shift", "EOS"))
    state, tokens = GROOVE.grammar.start(), list[int]()
    while not state.is_complete:
        allowed = np.flatnonzero(state.mask())
        families = np.unique(words.family[allowed])
        if len(tokens) > length:  # make for the end: by way of a note, if there was none
            wanted = [end, off, shift] if state.counters.sounding.any() or end in families else [on]
            choice = next(family for family in wanted if family in families)
        else:
            choice = random.choice(families[families != end])
        options = allowed[words.family[allowed] == choice]
        few = options[np.isin(words.value[options], FEW)] if choice in (on, off) else options[-1:]
        token = int(random.choice(few if len(few) and random.random() < 0.6 else options))
        assert state.advance(token)
        tokens.append(token)
    return np.array(tokens, np.uint16)


@st.composite
def trio_notes(draw: st.DrawFn) -> Notes:
    """Notes of a trio in any order, some doubled, overlapping, or of no length; few keys, some far apart in time."""
    size = draw(st.integers(1, 40))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    start = random.integers(0, draw(st.sampled_from([2, 30, 200, 2000])), size)
    key = random.choice(FEW[: draw(st.integers(1, len(FEW)))], size)
    return make_notes(start, start + random.integers(0, 50, size), key % 128, 64, key // 128)


@st.composite
def bands(draw: st.DrawFn) -> Score:
    """Any band in 4/4: a few tracks of any instrument, notes off the grid, long, short and doubled."""
    per_beat = draw(st.sampled_from([10, 12, 96, 192, 480]))
    names = st.sampled_from(["Bass", "Walk", "Piano", "", "Bass-Sax", "Bassoon"])
    tracks = draw(st.lists(st.builds(Track, names, st.integers(28, 42), st.booleans()), min_size=1, max_size=6))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(1, 80))
    start = random.integers(0, 8 * per_beat, size)
    middle = random.integers(30, 80, len(tracks))
    track = random.integers(0, len(tracks), size)
    notes = make_notes(
        start,
        start + random.integers(0, 2 * per_beat, size),
        middle[track] + random.integers(-3, 4, size),
        random.integers(1, 128, size),
        track,
    )
    return Score(per_beat, notes, tuple(tracks), time_signatures=draw(st.sampled_from([(), (TimeSignature(0, 4, 4),)])))
