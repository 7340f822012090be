"""An accompaniment as a table of notes: all its instruments, on the grid of groove tokens.

Design note: a table keeps all instruments. Which of them joins bass and drums is drawn anew for every training example.
So a corpus cannot store tokens; it stores tables, from which tokens are made in a fraction of a millisecond.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musicgen.languages.grid import TokenError, nearest
from musicgen.languages.groove.quantise import PITCHES
from musicgen.languages.groove.time import BAR, TICKS
from musicgen.languages.metre import COMMON, in_metres
from musicgen.midi.parts import Part, parts
from musicgen.midi.score import Notes, Score, make_notes

CLICKS = (31, 37, 39, 42, 44, 75, 76, 77)
"""Drums that count in: sticks, side stick, claps, hi-hats, claves and wood blocks of General MIDI."""
MOST_CLICKS = 4
"""The most clicks in a bar of count-in."""
MOST_COUNTED = 2
"""The most bars of count-in."""


class Instrument(NamedTuple):
    """A track of a table."""

    part: Part
    name: str
    program: int
    notes: int


class Table(NamedTuple):
    """An accompaniment.

    Attributes:
        notes: Rows of `NOTE` in ticks of 12 per beat, instrument by instrument, each ordered by start. No note begins
            on a pitch that still sounds on its track.
        instruments: The instrument of each track: bass and drums first, if there are any, then the others.
        bars: How many bars there are, up to the last in which a note begins.
        counted: Bars of count-in that were left out.
    """

    notes: Notes
    instruments: tuple[Instrument, ...]
    bars: int
    counted: int


def make_table(score: Score, counted: int | None = None, played: list[Part] | None = None) -> Table:
    """The table of a piece.

    All basses become one instrument, and so do all drums, and other tracks with the same name and program. Notes begin
    and end on ticks and last at least one tick. Notes that begin together on one pitch are merged, and a note ends
    where its pitch is struck again. Empty bars at the beginning and a count-in are left out.

    Args:
        score: The piece.
        counted: How many bars of count-in there are; None to detect them.
        played: The part of each track; None to guess it.

    Raises:
        TokenError: It does not begin in 4/4, or it is not an accompaniment of at least two parts.
    """
    if not len(score.notes):
        raise TokenError("no notes")
    score = in_metres(score, [COMMON]).score
    group, names = _instruments(score, parts(score) if played is None else played)
    start = nearest(score.notes["start"], score.ticks_per_beat, TICKS)
    end = np.maximum(nearest(score.notes["end"], score.ticks_per_beat, TICKS), start + 1)
    key = PITCHES * group[score.notes["track"]] + score.notes["pitch"]
    order = np.lexsort((start, key))
    start, end, key, velocity = start[order], end[order], key[order], score.notes["velocity"][order]
    first = np.flatnonzero(np.append(True, (np.diff(start) != 0) | (np.diff(key) != 0)))
    start, key, velocity = start[first], key[first], np.maximum.reduceat(velocity, first)
    again = np.where(np.diff(key, append=-1) == 0, np.append(start[1:], 0), np.iinfo(np.int64).max)
    end = np.minimum(np.maximum.reduceat(end, first), again)
    notes = make_notes(start, end, key % PITCHES, velocity, key // PITCHES)

    if counted is None:
        notes = _moved(notes, int(notes["start"].min()) // BAR)
        counted = count_in(notes, np.array([part == "drums" for part, _, _ in names]))
    notes = _moved(notes, counted)
    if len(notes):
        notes = _moved(notes, int(notes["start"].min()) // BAR)
    sizes = np.bincount(notes["track"], minlength=len(names)).tolist()
    present = {part for (part, _, _), size in zip(names, sizes, strict=True) if size}
    if len(present) < 2:
        there = f"only {present.pop()}" if present else "none of them"
        raise TokenError(f"a groove needs at least two of bass, drums and other, and this file has {there}")
    instruments = tuple(Instrument(*name, size) for name, size in zip(names, sizes, strict=True))
    notes = notes[np.lexsort((notes["pitch"], notes["start"], notes["track"]))]
    return Table(notes, instruments, int(notes["start"].max()) // BAR + 1, counted)


def _instruments(score: Score, played: list[Part]) -> tuple[np.ndarray, list[tuple[Part, str, int]]]:
    """The number of the instrument that each track becomes, and part, name and program of each instrument."""
    ranks = ("bass", "drums", "other")
    members: dict[tuple[int, str, int], list[int]] = {}
    for number, (part, track) in enumerate(zip(played, score.tracks, strict=True)):
        # All tracks may have the title as their name, so the program is compared too.
        label = (track.name or f"track {number}", track.program) if part == "other" else ("", 0)
        members.setdefault((ranks.index(part), *label), []).append(number)
    counts = np.bincount(score.notes["track"], minlength=len(score.tracks))
    group = np.empty(len(score.tracks), np.int64)
    names: list[tuple[Part, str, int]] = []
    for kind in sorted(members, key=lambda kind: (kind[0], members[kind])):
        tracks = members[kind]
        group[tracks] = len(names)
        main = score.tracks[max(tracks, key=lambda number: int(counts[number]))]  # the one with the most notes
        names.append((played[tracks[0]], main.name, main.program))
    return group, names


def count_in(notes: Notes, is_drum: np.ndarray) -> int:
    """Bars of count-in: bars at the beginning with nothing but a few clicks in each.

    Args:
        notes: The notes of a table. The first bar has notes.
        is_drum: Whether each track is drums.
    """
    drums = is_drum[notes["track"]]
    if drums.all() or not drums.any():
        return 0
    lead = int(notes["start"][~drums].min()) // BAR
    counting = notes[notes["start"] < lead * BAR]
    onsets = np.unique(counting["start"])
    clicks = np.bincount(onsets // BAR, minlength=lead)
    is_counted = (clicks >= 1) & (clicks <= MOST_CLICKS)
    return lead if lead <= MOST_COUNTED and is_counted.all() and np.isin(counting["pitch"], CLICKS).all() else 0


def _moved(notes: Notes, bars: int) -> Notes:
    """Notes moved some bars earlier, without those that would then begin before tick 0."""
    notes = notes[notes["start"] >= bars * BAR]
    notes["start"] -= bars * BAR
    notes["end"] -= bars * BAR
    return notes
