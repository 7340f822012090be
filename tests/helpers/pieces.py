"""Random music for tests: scores of any kind, and pieces that the grammar allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from musicgen.languages import ExtendedRemi, Remi, Tokens
from musicgen.midi import NO_CHORD, Chord, ChordMark, Score, TimeSignature, Track, make_notes, make_tempos
from musicgen.midi.chord import QUALITIES

REMI, EXTENDED = Remi(), ExtendedRemi()
BOTH = pytest.mark.parametrize("remi", [REMI, EXTENDED], ids=lambda language: language.name)


def random_piece(seed: int, length: int, remi: Remi = REMI) -> Tokens:
    """A walk through the grammar, without gaps, that ends soon after `length` tokens.

    Notes are likely, many of them on a few keys, so that a key is often wanted while it is down.
    """
    random = np.random.default_rng(seed)
    words = remi.vocabulary
    bar, pitch, end = (words.number(name) for name in ("Bar", "Pitch", "EOS"))
    state, tokens = remi.grammar.start(), list[int]()
    while not state.is_complete:
        allowed = np.flatnonzero(state.mask() & ~np.isin(np.arange(len(words)), remi.meaningless))
        families = np.unique(words.family[allowed])
        if len(tokens) > length:  # make for the end: by way of a note, if this bar has none
            wanted = [end, bar] if state.counters.bar_notes or end in families else [pitch]
            choice = next((family for family in wanted if family in families), random.choice(families))
        else:
            weights = np.where(
                families == pitch, 3.0, np.where(families == end, 0.0, np.where(families == bar, 0.3, 1.0))
            )
            choice = random.choice(families, p=weights / weights.sum())
        options = allowed[words.family[allowed] == choice]
        few = options[(options >= words["Pitch_60"]) & (options <= words["Pitch_65"])]
        token = int(random.choice(few if len(few) and random.random() < 0.7 else options))
        assert state.advance(token)
        tokens.append(token)
    return np.array(tokens, np.uint16)


@st.composite
def scores(draw: st.DrawFn, metres: st.SearchStrategy[tuple[TimeSignature, ...]] | None = None) -> Score:
    """Any music, in 4/4 or in some metres: tracks and drums, notes off the grid, out of range, long, short, doubled."""
    per_beat = draw(st.sampled_from([24, 96, 100, 480, 960]))
    count = draw(st.integers(1, 40))
    integers = lambda low, high: draw(st.lists(st.integers(low, high), min_size=count, max_size=count))  # noqa: E731
    start = np.array(integers(0, 12 * per_beat))
    tracks = draw(st.lists(st.booleans(), min_size=1, max_size=3))
    changes = st.integers(0, 14 * per_beat)
    chord = st.one_of(st.just(NO_CHORD), st.builds(Chord, st.integers(0, 11), st.sampled_from(QUALITIES)))
    ticks = sorted(draw(st.sets(changes, max_size=5)))
    return Score(
        ticks_per_beat=per_beat,
        notes=make_notes(
            start,
            start + np.array(integers(0, 6 * per_beat)),
            integers(15, 112),
            integers(1, 127),
            [track % len(tracks) for track in integers(0, 2)],
        ),
        tracks=tuple(Track(f"track {number}", number, drum) for number, drum in enumerate(tracks)),
        tempos=make_tempos([(draw(changes), draw(st.floats(1, 400))) for _ in range(draw(st.integers(0, 4)))]),
        time_signatures=draw(metres or st.sampled_from([(), (TimeSignature(0, 4, 4),)])),
        chords=tuple(ChordMark(tick, draw(chord)) for tick in ticks),
    )
