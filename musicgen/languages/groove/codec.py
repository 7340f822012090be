"""Grooves in tokens: a bass, drums and one other instrument as events in time.

A piece reads `BOS`; then, for every moment at which something happens, the `Shift`s that lead to it, `NoteOff` for each
note that ends and `NoteOn` for each note that begins, in the order of track and pitch; and at last `EOS`. The
vocabulary is the paper's, id by id. The published code orders the events of a moment as they stood in the file, and
puts a shift that goes nowhere between them. Here the order is fixed and such shifts do not exist.

Design note: encoding is sorting. An event is one number, made of its time and its rank at that time. One sort of these
numbers puts the piece in order, and time and rank are read off them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.grid import Integers, TokenError, resolve_overlaps
from musicgen.languages.groove.quantise import PITCHES, TRIO, VELOCITY
from musicgen.languages.groove.time import LONGEST, TICKS, after_shifts
from musicgen.languages.vocabulary import Tokens, Vocabulary
from musicgen.midi.score import Notes, Score, TimeSignature, make_notes

_NOTES = [f"{track + 1}_{pitch}" for track in range(len(TRIO)) for pitch in range(PITCHES)]
FAMILIES = {
    "NoteOn": _NOTES,
    "NoteOff": _NOTES,
    "Shift": [f"{ticks // TICKS}_{ticks % TICKS}" for ticks in range(1, LONGEST + 1)],  # beats, and the tick
    "EOS": [""],
    "BOS": [""],
}
VOCABULARY = Vocabulary(FAMILIES)
KEYS = len(_NOTES)
"""A track and a pitch in one number are a key: 128 keys a track."""
RANKS = 1024
"""At least twice the keys, and a power of two, which divides fast."""
ON, OFF, SHIFT = (VOCABULARY.first(family) for family in ("NoteOn", "NoteOff", "Shift"))
END, BEGIN = VOCABULARY["EOS"], VOCABULARY["BOS"]
_EVENTS = np.concatenate([OFF + np.arange(KEYS), [0], ON + np.arange(KEYS)]).astype(np.uint16)
"""The ids of events in the order that they have at one time. Something else may stand between ends and beginnings."""


@dataclass(frozen=True)
class GrooveReport:
    """What decoding found. If the grammar accepts the piece, only `notes` is not 0.

    Attributes:
        notes: Notes decoded.
        unclosed: Notes that no `NoteOff` ends; they end with the piece.
        instant: Notes that end when they begin; they last a tick.
        restruck: `NoteOn` tokens on a key that sounds; they end the note that sounds.
        spurious: `NoteOff` tokens on a key that is silent.
        null_shifts: Shifts that go nowhere.
        backward_shifts: Shifts that go back in time.
        skipped: Ids that mean nothing here, such as a `BOS` that is not first.
    """

    notes: int
    unclosed: int
    instant: int
    restruck: int
    spurious: int
    null_shifts: int
    backward_shifts: int
    skipped: int


def encode_notes(notes: Notes, end: int | None = None) -> Tokens:
    """Notes of a trio in tokens.

    A note lasts at least a tick and ends where its key is struck again. If several notes begin together on one
    key, the longest is kept.

    Args:
        notes: Rows of `NOTE` in ticks of 12 per beat, on tracks 0 (bass), 1 (drums) and 2, in any order.
        end: Encode only what is before this tick. Notes that sound there end there.

    Raises:
        TokenError: There are no notes.
        ValueError: Some notes begin before tick 0, or are not on the three tracks and 128 pitches.
    """
    if end is not None:
        notes = notes[notes["start"] < end]
    if not len(notes):
        raise TokenError("no notes")
    start, stop, key = separate(notes, end)
    numbers = events(start, stop, key)
    return np.append(write_events(BEGIN, numbers), END).astype(np.uint16)


def separate(notes: Notes, end: int | None = None) -> tuple[Integers, Integers, Integers]:
    """Start, end and key of notes, without overlaps on a key, ordered by key and start; as `encode_notes` has them."""
    start, track, pitch = notes["start"].astype(np.int64), notes["track"].astype(np.int64), notes["pitch"]
    if start.min() < 0:
        raise ValueError(f"a note begins at tick {start.min()}, before the piece")
    if track.min() < 0 or track.max() >= len(TRIO) or pitch.min() < 0 or pitch.max() >= PITCHES:
        raise ValueError(f"notes are on tracks 0 to {len(TRIO) - 1} and of pitches 0 to {PITCHES - 1}")
    stop = np.maximum(notes["end"], start + 1)
    if end is not None:
        stop = np.minimum(stop, end)
    key = PITCHES * track + pitch
    kept, stop = resolve_overlaps(start, stop, key)
    return start[kept], stop, key[kept]


def events(start: Integers, stop: Integers, key: Integers) -> Integers:
    """The events of notes in order, each as one number: its time, then its rank. Notes end before others begin."""
    return np.sort(np.concatenate([stop * RANKS + key, start * RANKS + KEYS + 1 + key]))


def write_events(first: int, numbers: Integers, before: Integers | None = None) -> Tokens:
    """A token, and then events with the shifts that lead to them.

    Args:
        first: The token.
        numbers: Events in order, as `events` has them, shape (events,).
        before: The time before each event, where it is not that of the event before it, shape (events,).
    """
    time, rank = numbers // RANKS, numbers & (RANKS - 1)
    if before is None:
        before = np.append(0, time[:-1])
    distance = time - before // TICKS * TICKS  # from the beat of the moment before
    shifts = np.where(time > before, -(-distance // LONGEST), 0)
    place = np.cumsum(shifts + 1)
    # Later writes overwrite earlier ones: the longest shifts, the last shift to each event, the events. If no shift
    # leads to an event, the shift written for it is overwritten by the event before.
    tokens = np.full(place[-1] + 1 if len(place) else 1, SHIFT + LONGEST - 1, np.uint16)
    tokens[place - 1] = SHIFT + (distance - 1) % LONGEST
    tokens[place] = _EVENTS[rank]
    tokens[0] = first
    return tokens


def decode_report(tokens: NDArray[Any] | Sequence[int]) -> tuple[Score, GrooveReport]:
    """The trio that tokens stand for, and what was wrong with them.

    Args:
        tokens: Ids. Those after the first `EOS` are ignored. They need not begin a piece or follow the grammar:
            the next event on a key ends the note that sounds there, and the last moment ends all notes.
    """
    ids = np.asarray(tokens, np.int64)
    ids = ids[np.cumsum(ids == END) == 0]
    skipped = (ids < 0) | (ids >= END)
    begins = len(ids) > 0 and ids[0] == BEGIN
    ids = ids[~skipped]

    score, report = decode_events(ids, ticks_after(ids))
    return score, replace(report, skipped=int(skipped.sum()) - int(begins))


def decode_events(ids: Integers, clock: Integers) -> tuple[Score, GrooveReport]:
    """The trio that events and shifts stand for, and what was wrong with them.

    Args:
        ids: Ids of events and shifts, shape (tokens,).
        clock: The tick after each, shape (tokens,).
    """
    is_shift = ids >= SHIFT
    moves = np.diff(clock, prepend=0)[is_shift]
    event = np.flatnonzero(~is_shift)
    event = event[np.argsort(ids[event] % KEYS, kind="stable")]  # key by key, each in the order of tokens
    key, time, is_on = ids[event] % KEYS, clock[event], ids[event] < OFF
    goes_on = np.diff(key, append=-1) == 0  # whether the next event is on the same key; False for the last event
    was_on = np.roll(is_on & goes_on, 1)  # the event before was on the same key, and began a note
    stop = np.where(goes_on, np.roll(time, -1), clock.max(initial=0))
    is_twin = is_on & goes_on & np.roll(is_on, -1) & (stop == time)
    note = is_on & ~is_twin
    score = Score(
        ticks_per_beat=TICKS,
        notes=make_notes(
            time[note], np.maximum(stop, time + 1)[note], key[note] % PITCHES, VELOCITY, key[note] // PITCHES
        ),
        tracks=TRIO,
        time_signatures=(TimeSignature(0, 4, 4),),
    )
    return score, GrooveReport(
        notes=int(note.sum()),
        unclosed=int((is_on & ~goes_on).sum()),
        instant=int((note & goes_on & (stop <= time)).sum()),
        restruck=int((is_on & was_on).sum()),
        spurious=int((~is_on & ~was_on).sum()),
        null_shifts=int((moves == 0).sum()),
        backward_shifts=int((moves < 0).sum()),
        skipped=0,
    )


def ticks_after(tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Ticks since the beginning after each token, shape (tokens,)."""
    ids = np.asarray(tokens, np.int64)
    return after_shifts(np.where((ids >= SHIFT) & (ids < END), ids - SHIFT + 1, 0))
