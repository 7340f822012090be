"""`Score`: the one form that music has in memory, between a MIDI file and tokens.

The hard choice: notes are rows of one array, not objects. All that is done to them (quantising, encoding,
searching, drawing) is then done to whole columns, and a song of two thousand notes takes a fraction of a
millisecond where a list of objects takes tens. Times are in ticks, integers that add up; seconds are computed
from the tempo map by whoever wants them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.chord import Chord

Notes = NDArray[np.void]
Tempos = NDArray[np.void]
Beats = NDArray[np.void]

NOTE = np.dtype([("start", "i8"), ("end", "i8"), ("pitch", "i2"), ("velocity", "i2"), ("track", "i2")])
"""A note: first tick, tick after the last, MIDI pitch, velocity, and the number of its track."""
TEMPO = np.dtype([("tick", "i8"), ("bpm", "f8")])
"""From `tick` on, there are `bpm` quarter notes a minute."""
BEAT = np.dtype([("tick", "i8"), ("is_downbeat", "?")])
"""A beat somebody heard at `tick`, whether or not the file's own grid has one there."""

DEFAULT_BPM = 120.0
"""What MIDI says of a file that does not say its tempo."""


class Track(NamedTuple):
    """An instrument: notes name it by its place in `Score.tracks`."""

    name: str = ""
    program: int = 0
    is_drum: bool = False


class TimeSignature(NamedTuple):
    """From `tick` on, a bar has `numerator` notes of which `denominator` make a whole."""

    tick: int
    numerator: int
    denominator: int


class ChordMark(NamedTuple):
    """From `tick` on, `chord` sounds."""

    tick: int
    chord: Chord


@dataclass(frozen=True, eq=False)
class Score:
    """A piece of music. Nothing in it is changed once it is made.

    Attributes:
        ticks_per_beat: Ticks in a quarter note.
        notes: Rows of `NOTE`, ordered by start, then track, then pitch from the highest down.
        tracks: The instruments.
        tempos: Rows of `TEMPO` in order of time.
        time_signatures: In order of time. A piece without any is in 4/4, as MIDI has it.
        chords: Chord changes in order of time.
        beats: Rows of `BEAT`: annotated beats, if somebody annotated them.
    """

    ticks_per_beat: int
    notes: Notes
    tracks: tuple[Track, ...] = (Track("Piano"),)
    tempos: Tempos = field(default_factory=lambda: np.empty(0, TEMPO))
    time_signatures: tuple[TimeSignature, ...] = ()
    chords: tuple[ChordMark, ...] = ()
    beats: Beats = field(default_factory=lambda: np.empty(0, BEAT))

    def __post_init__(self) -> None:
        notes = self.notes
        order = np.lexsort((notes["velocity"], notes["end"], -notes["pitch"], notes["track"], notes["start"]))
        object.__setattr__(self, "notes", notes[order])
        object.__setattr__(self, "tempos", self.tempos[np.argsort(self.tempos["tick"], kind="stable")])
        object.__setattr__(self, "beats", self.beats.copy())  # what the caller has stays the caller's
        for array in (self.notes, self.tempos, self.beats):
            array.setflags(write=False)

    def replace(self, **changes: Any) -> Score:
        """A copy in which some attributes are others."""
        return dataclasses.replace(self, **changes)

    @property
    def end(self) -> int:
        """The tick at which the last note ends; 0 if there is none."""
        return int(self.notes["end"].max(initial=0))

    @property
    def duration(self) -> float:
        """Seconds until the last note ends."""
        return float(self.seconds(np.array([self.end]))[0])

    def is_drum(self, notes: Notes) -> NDArray[np.bool_]:
        """Whether each of some notes of this score is on a track of drums, shape (notes,)."""
        drums: NDArray[np.bool_] = np.array([track.is_drum for track in self.tracks] or [False])[notes["track"]]
        return drums

    def seconds(self, ticks: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """When ticks come, by the tempo map. Tick 0 is at 0 s; what comes before it is at negative times.

        Args:
            ticks: Of any shape.
        """
        changes, times, rates = self._tempo_map()
        where = np.maximum(np.searchsorted(changes, ticks, side="right") - 1, 0)
        return times[where] + (ticks - changes[where]) * rates[where]

    def ticks(self, seconds: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest ticks to moments: the inverse of `seconds`. What comes before the piece is at negative ticks."""
        changes, times, rates = self._tempo_map()
        where = np.maximum(np.searchsorted(times, seconds, side="right") - 1, 0)
        return np.rint(changes[where] + (seconds - times[where]) / rates[where]).astype(np.int64)

    def _tempo_map(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Ticks of tempo changes, from 0 on, when they come, and the seconds that a tick lasts after each."""
        before = self.tempos["bpm"][self.tempos["tick"] <= 0]  # the last of them is in force at tick 0
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


def make_notes(
    start: NDArray[np.integer[Any]] | list[int],
    end: NDArray[np.integer[Any]] | list[int],
    pitch: NDArray[np.integer[Any]] | list[int],
    velocity: NDArray[np.integer[Any]] | list[int] | int,
    track: NDArray[np.integer[Any]] | list[int] | int = 0,
) -> Notes:
    """Rows of `NOTE` from columns; a single velocity or track serves all notes."""
    notes = np.empty(len(start), NOTE)
    for name, column in zip(NOTE.names or (), (start, end, pitch, velocity, track), strict=True):
        notes[name] = column
    return notes


def make_tempos(changes: list[tuple[int, float]]) -> Tempos:
    """Rows of `TEMPO` from pairs of tick and quarter notes a minute."""
    return np.array(changes, TEMPO)
