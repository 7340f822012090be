"""`Score`: music in memory, between a MIDI file and tokens.

Design note: notes are rows of one array, not objects. Quantising, encoding, searching and drawing work on whole
columns: a song of two thousand notes takes a fraction of a millisecond, where a list of objects takes tens. Times are
integer ticks; seconds are computed from the tempo map when needed.
"""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.chord import Chord

Notes = NDArray[np.void]
Tempos = NDArray[np.void]
Beats = NDArray[np.void]
Pedals = NDArray[np.void]

NOTE = np.dtype([("start", "i8"), ("end", "i8"), ("pitch", "i2"), ("velocity", "i2"), ("track", "i2")])
"""A note: first tick, tick after the last, MIDI pitch, velocity, and the number of its track."""
TEMPO = np.dtype([("tick", "i8"), ("bpm", "f8")])
"""From `tick` on, the tempo is `bpm` quarter notes per minute."""
BEAT = np.dtype([("tick", "i8"), ("is_downbeat", "?")])
"""An annotated beat at `tick`, which need not be on the grid of the file."""
PEDAL = np.dtype([("tick", "i8"), ("track", "i2"), ("is_down", "?")])
"""From `tick` on, the sustain pedal of a track is down or up."""

DEFAULT_BPM = 120.0
"""The tempo of a MIDI file that states none."""


Part = Literal["bass", "drums", "other"]


class Track(NamedTuple):
    """An instrument. Notes refer to it by its index in `Score.tracks`.

    `role` says which part of an accompaniment it plays; None means unknown.
    """

    name: str = ""
    program: int = 0
    is_drum: bool = False
    role: Part | None = None


class TimeSignature(NamedTuple):
    """From `tick` on, a bar has `numerator` notes of length 1/`denominator`."""

    tick: int
    numerator: int
    denominator: int


class ChordMark(NamedTuple):
    """From `tick` on, `chord` sounds."""

    tick: int
    chord: Chord


class Marker(NamedTuple):
    """A text at `tick`."""

    tick: int
    text: str


ARRAYS = {"notes", "tempos", "beats", "pedals"}
"""Attributes of a `Score` that are put in order."""


@dataclass(frozen=True, eq=False)
class Score:
    """A piece of music. It never changes.

    Attributes:
        ticks_per_beat: Ticks in a quarter note.
        notes: Rows of `NOTE`, ordered by start, then track, then pitch from the highest down.
        tracks: The instruments.
        tempos: Rows of `TEMPO` in order of time.
        time_signatures: In order of time. A piece without any is in 4/4, as in MIDI.
        chords: Chord changes in order of time.
        beats: Rows of `BEAT`: annotated beats, if there are any.
        markers: Other texts, in order of time: neither the numbers of bars nor chords.
        pedals: Rows of `PEDAL` in order of time. Notes end where their keys are released: see `musicgen.midi.pedal`.
    """

    ticks_per_beat: int
    notes: Notes
    tracks: tuple[Track, ...] = (Track("Piano"),)
    tempos: Tempos = field(default_factory=lambda: np.empty(0, TEMPO))
    time_signatures: tuple[TimeSignature, ...] = ()
    chords: tuple[ChordMark, ...] = ()
    beats: Beats = field(default_factory=lambda: np.empty(0, BEAT))
    markers: tuple[Marker, ...] = ()
    pedals: Pedals = field(default_factory=lambda: np.empty(0, PEDAL))

    def __post_init__(self) -> None:
        notes = self.notes
        order = np.lexsort((notes["velocity"], notes["end"], -notes["pitch"], notes["track"], notes["start"]))
        object.__setattr__(self, "notes", notes[order])
        object.__setattr__(self, "tempos", self.tempos[np.argsort(self.tempos["tick"], kind="stable")])
        object.__setattr__(self, "beats", self.beats.copy())  # the array of the caller stays writable
        object.__setattr__(self, "pedals", self.pedals[np.argsort(self.pedals["tick"], kind="stable")])
        for array in (self.notes, self.tempos, self.beats, self.pedals):
            array.setflags(write=False)

    def replace(self, **changes: Any) -> Score:
        """A copy with some attributes changed."""
        if changes.keys() & ARRAYS or not changes.keys() <= {field.name for field in dataclasses.fields(self)}:
            return dataclasses.replace(self, **changes)
        same = copy.copy(self)  # its arrays are in order and never change
        for name, value in changes.items():
            object.__setattr__(same, name, value)
        return same

    @property
    def end(self) -> int:
        """The tick at which the last note ends. 0 without notes."""
        return int(self.notes["end"].max(initial=0))

    @property
    def duration(self) -> float:
        """Seconds until the last note ends."""
        return float(self.seconds(np.array([self.end]))[0])

    def is_drum(self, notes: Notes) -> NDArray[np.bool_]:
        """Whether each of some notes of this score is on a drum track, shape (notes,)."""
        drums: NDArray[np.bool_] = np.array([track.is_drum for track in self.tracks] or [False])[notes["track"]]
        return drums

    def seconds(self, ticks: NDArray[Any]) -> NDArray[np.float64]:
        """The times of ticks, or of places between them. Tick 0 is at 0 s, and earlier ticks have negative times."""
        changes, times, rates = self._tempo_map()
        where = np.maximum(np.searchsorted(changes, ticks, side="right") - 1, 0)
        return times[where] + (ticks - changes[where]) * rates[where]

    def ticks(self, seconds: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest ticks to times: the inverse of `seconds`. Negative times have negative ticks."""
        changes, times, rates = self._tempo_map()
        where = np.maximum(np.searchsorted(times, seconds, side="right") - 1, 0)
        return np.rint(changes[where] + (seconds - times[where]) / rates[where]).astype(np.int64)

    def _tempo_map(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Ticks of tempo changes (the first is 0), their times, and the seconds per tick after each."""
        before = self.tempos["bpm"][self.tempos["tick"] <= 0]  # the last of them holds at tick 0
        later = self.tempos[self.tempos["tick"] > 0]
        changes = np.concatenate([[0], later["tick"]])
        bpm = np.concatenate([before[-1:] if len(before) else [DEFAULT_BPM], later["bpm"]])
        rates = 60.0 / (bpm * self.ticks_per_beat)
        times = np.concatenate([[0.0], np.cumsum(np.diff(changes) * rates[:-1])])
        return changes, times, rates

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Score):
            return NotImplemented
        return all(
            np.array_equal(ours, theirs) if isinstance(ours, np.ndarray) else ours == theirs
            for ours, theirs in zip(self._parts(), other._parts(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def _parts(self) -> list[Any]:
        return [getattr(self, item.name) for item in dataclasses.fields(self)]


def fault_of(score: Score) -> str:
    """What makes a score unfit for MIDI, in words; empty if nothing does. Every file and every state is asked this."""
    notes, tempos = score.notes, score.tempos
    limits = {"pitch": (0, 127), "velocity": (1, 127), "track": (0, len(score.tracks) - 1)}
    for name, (low, high) in limits.items():
        if len(notes) and not (low <= notes[name].min() and notes[name].max() <= high):
            return f"a note whose {name} is not from {low} to {high}"
    if (notes["start"] < 0).any() or (notes["end"] < notes["start"]).any():
        return "a note that ends before it starts, or starts before the piece"
    if not (np.isfinite(tempos["bpm"]) & (tempos["bpm"] > 0)).all():
        return "a tempo that is not above zero"
    if any(type(track.program) is not int or not 0 <= track.program <= 127 for track in score.tracks):
        return "an instrument whose program is not from 0 to 127"
    if any(not isinstance(track.name, str) for track in score.tracks):
        return "an instrument whose name is not a text"
    return ""


def make_notes(
    start: NDArray[np.integer[Any]] | list[int],
    end: NDArray[np.integer[Any]] | list[int],
    pitch: NDArray[np.integer[Any]] | list[int],
    velocity: NDArray[np.integer[Any]] | list[int] | int,
    track: NDArray[np.integer[Any]] | list[int] | int = 0,
) -> Notes:
    """Rows of `NOTE` from columns. A single velocity or track holds for all notes."""
    notes = np.empty(len(start), NOTE)
    for name, column in zip(NOTE.names or (), (start, end, pitch, velocity, track), strict=True):
        notes[name] = column
    return notes


def tempo_rows(ticks: NDArray[Any], bpm: NDArray[Any]) -> Tempos:
    """Rows of `TEMPO` from columns."""
    tempos = np.empty(len(ticks), TEMPO)
    tempos["tick"], tempos["bpm"] = ticks, bpm
    return tempos


def make_tempos(changes: list[tuple[int, float]]) -> Tempos:
    """Rows of `TEMPO` from pairs of tick and quarter notes per minute."""
    return np.array(changes, TEMPO)
