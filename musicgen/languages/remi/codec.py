"""REMI: pop piano as bars, positions, chords, tempos and notes.

A piece reads `Bar`; a `Metre` if it changes there (and tokens have metres); then, for every position of the bar where
something begins, `Beat`, a `Chord` and a `Tempo` if they change there, and for each note, from the highest down,
`Pitch`, `Velocity`, `Duration`. After the last bar come a closing `Bar` and `EOS`. That is the order of the Pop1K7 data
set.

Design note: encoding is sorting. Every token gets a key (its place in units, and its rank there), and one stable sort
puts the piece together. There is no loop over notes. Decoding reads columns off the array in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grid import Integers
from musicgen.languages.remi.quantise import Bars
from musicgen.languages.remi.tokens import CHORD_NUMBER, CHORDS, PITCHES, TICKS_PER_BEAT, TokenSet
from musicgen.languages.vocabulary import Tokens
from musicgen.midi.score import ChordMark, Score, TimeSignature, Track, make_notes, tempo_rows


class Layout(NamedTuple):
    """Where each token is. All arrays have the shape (tokens,).

    Attributes:
        bar: The number of its bar, from -1 on.
        start: Where that bar begins, in units.
        length: Units in that bar.
        metre: The number of its metre.
        is_metre: Whether it says the metre of its bar: the first token after a `Bar`.
    """

    bar: Integers
    start: Integers
    length: Integers
    metre: Integers
    is_metre: NDArray[np.bool_]


def lay_out(ids: NDArray[np.int64], tokens: TokenSet, start: int = 0, metre: int | None = None) -> Layout:
    """Where each token is, by the bars and metres before it.

    Args:
        ids: Tokens. Before a metre is said, bars are in 4/4.
        tokens: What they can say.
        start: Where their first bar begins, in units.
        metre: The number of the metre before them.
    """
    words = tokens.vocabulary
    is_bar = ids == words["Bar"]
    bar = np.cumsum(is_bar) - 1
    metre = tokens.common if metre is None else metre
    if not tokens.has_metres:
        length = np.full(len(ids), tokens.bar_lengths[metre])
        return Layout(bar, start + length * bar.clip(0), length, np.full(len(ids), metre), np.zeros_like(is_bar))
    known = words.ids["Metre"]
    is_metre = (ids >= known.start) & (ids < known.stop) & np.concatenate([[False], is_bar[:-1]])[: len(ids)]
    bars = int(bar[-1]) + 1 if len(ids) else 0
    of_bar = np.full(bars + 1, -1)
    of_bar[0] = metre  # before the first bar
    of_bar[bar[is_metre] + 1] = ids[is_metre] - known.start
    of_bar = of_bar[np.maximum.accumulate(np.where(of_bar >= 0, np.arange(bars + 1), 0))]
    lengths = np.array(tokens.bar_lengths)[of_bar]
    starts = start + np.concatenate([[0, 0], np.cumsum(lengths[1:])])[: bars + 1]
    return Layout(bar, starts[bar + 1], lengths[bar + 1], of_bar[bar + 1], is_metre)


def encode(score: Score, tokens: TokenSet) -> Tokens:
    """A quantised piece in tokens."""
    first, notes, ticks = tokens.vocabulary.first, score.notes, tokens.unit_ticks
    table = Bars.of(score, tokens)
    place = notes["start"] // ticks
    last = int(table.bar(place[-1]))
    bars = np.append(table.starts[: last + 1], table.starts[last] + tokens.bar_lengths[int(table.metres[last])])
    tempo_place = score.tempos["tick"] // ticks
    chord_place = np.array([mark.tick // ticks for mark in score.chords], np.int64)
    beats = np.unique(np.concatenate([place, tempo_place, chord_place]))
    triples = np.stack(
        [
            first("Pitch") + notes["pitch"] - PITCHES[0],
            first("Velocity") + (notes["velocity"] - tokens.velocities[0]) // tokens.velocities.step,
            first("Duration") + tokens.longest_within((notes["end"] - notes["start"]) // ticks),
        ],
        axis=1,
    )
    tempos = (score.tempos["bpm"].astype(np.int64) - tokens.tempos[0]) // tokens.tempos.step
    parts = [  # in the order that they have at one place
        (bars, np.full(len(bars), first("Bar"))),
        (beats, first("Beat") + (beats - bars[table.bar(beats)]) // tokens.step),
        (chord_place, first("Chord") + np.array([CHORD_NUMBER[mark.chord] for mark in score.chords], np.int64)),
        (tempo_place, first("Tempo") + tempos),
        (np.repeat(place, 3), triples.ravel()),
    ]
    if tokens.has_metres:
        metres = [tokens.metres.index(item[1:]) for item in score.time_signatures]
        parts.insert(1, (table.firsts, first("Metre") + np.array(metres)))
    order = np.argsort(np.concatenate([where for where, _ in parts]), kind="stable")
    ids = np.concatenate([what for _, what in parts])[order]
    return np.append(ids, tokens.vocabulary["EOS"]).astype(np.uint16)


def decode(piece: NDArray[Any] | Sequence[int], tokens: TokenSet, start: int = 0, metre: int | None = None) -> Score:
    """The piece that tokens stand for. If tokens break the grammar, the parts that make sense are read.

    Args:
        piece: Tokens. Those after the first `EOS` are ignored. They need not begin a piece or follow the grammar: a
            note is read if its three tokens are together after a `Beat` of its bar.
        tokens: What they can say.
        start: Where their first bar begins, in units.
        metre: The number of the metre before them; 4/4 if not given.
    """
    words = tokens.vocabulary
    ids: NDArray[np.int64] = np.asarray(piece, np.int64)
    ids = ids[np.cumsum(ids == words["EOS"]) == 0]
    ids = ids[ids != words["PAD"]]
    layout = lay_out(ids, tokens, start, metre)
    family, value = words.family[ids], words.value[ids]
    bar, beat, tempo, chord, pitch, velocity, duration = (
        family == words.number(name) for name in ("Bar", "Beat", "Tempo", "Chord", "Pitch", "Velocity", "Duration")
    )
    latest = np.maximum.accumulate(np.where(bar | beat, np.arange(len(ids)), 0)) if len(ids) else np.empty(0, np.int64)
    offset = tokens.step * value[latest]
    placed = (layout.bar >= 0) & beat[latest] & (offset < layout.length)
    tick = (layout.start + offset) * tokens.unit_ticks
    following, after = np.append(velocity[1:], [False]), np.append(duration[2:], [False, False])[: len(ids)]
    notes = np.flatnonzero(placed & pitch & following[: len(ids)] & after)
    said, named = placed & tempo, placed & chord
    return Score(
        ticks_per_beat=TICKS_PER_BEAT,
        notes=make_notes(
            tick[notes],
            tick[notes] + tokens.lengths[value[notes + 2]] * tokens.unit_ticks,
            PITCHES[0] + value[notes],
            tokens.velocities[0] + tokens.velocities.step * value[notes + 1],
        ),
        tracks=(Track("Piano"),),
        tempos=tempo_rows(tick[said], tokens.tempos[0] + tokens.tempos.step * value[said]),
        time_signatures=_signatures(layout, tokens, start, metre),
        chords=tuple(ChordMark(at, CHORDS[name]) for at, name in np.stack([tick[named], value[named]], 1).tolist()),
    )


def _signatures(layout: Layout, tokens: TokenSet, start: int, metre: int | None) -> tuple[TimeSignature, ...]:
    """The metre before the tokens (or at their beginning, if they say none there), and every change."""
    changes = [(start, tokens.common if metre is None else metre)]
    changes += [(int(layout.start[i]), int(layout.metre[i])) for i in np.flatnonzero(layout.is_metre)]
    if len(changes) > 1 and changes[1][0] == start:
        del changes[0]
    return tuple(TimeSignature(unit * tokens.unit_ticks, *tokens.metres[number]) for unit, number in changes)
