"""How grooves sound: tokens store neither tempo nor velocities nor instruments, so these come from a *setting*.

A setting is plain data. It is taken from the prompt, kept with states, and given back to the music when it is decoded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.groove.codec import END, KEYS, OFF, SHIFT, decode_report
from musicgen.languages.groove.quantise import PITCHES, TRIO, VELOCITY
from musicgen.languages.groove.time import TICKS, after_shift
from musicgen.midi.score import DEFAULT_BPM, Notes, Score, TimeSignature, make_notes, make_tempos

FINER = 40
"""Files have 480 ticks per beat, which is usual in sequencers; tokens have 12."""
SLOWEST, FASTEST = 10, 500
"""Tempos that a file may have."""


def tempo_of(constraints: Constraints, setting: Mapping[str, Any]) -> float:
    """The tempo of a piece: the tempo of its prompt, limited by the constraints."""
    tempo = float(setting.get("tempo", DEFAULT_BPM))
    low, high = constraints.tempo or (tempo, tempo)
    if constraints.tempo is not None and not SLOWEST <= low <= high <= FASTEST:
        raise UserError(f"tempo={low:g}{'' if low == high else f'-{high:g}'}: takes {SLOWEST} to {FASTEST}")
    return min(max(tempo, low, SLOWEST), high, FASTEST)


def setting_of(score: Score, trio: Sequence[Sequence[int]], beats: int) -> dict[str, Any]:
    """What a continuation inherits from the first beats of a piece: instruments, mean velocities and tempo.

    Args:
        score: The piece.
        trio: Numbers of the tracks that are the bass, the drums and the other instrument.
        beats: How many beats.
    """
    notes = score.notes[score.notes["start"] < beats * score.ticks_per_beat]
    tracks, velocities = [], []
    usual = round(float(notes["velocity"].mean())) if len(notes) else VELOCITY
    for ours, numbers in zip(TRIO, trio, strict=True):
        theirs = score.tracks[numbers[0]] if numbers else ours
        tracks.append([theirs.name or ours.name, theirs.program, ours.is_drum])
        own = notes["velocity"][np.isin(notes["track"], numbers)]
        velocities.append(round(float(own.mean())) if len(own) else usual)
    last = score.seconds(np.array([beats - 4, beats]) * score.ticks_per_beat)  # live playing has a tempo for every beat
    return {"tracks": tracks, "velocities": velocities, "tempo": round(240 / max(float(np.diff(last)[0]), 1e-3), 3)}


class GrooveRendering:
    """How a piece sounds.

    Args:
        constraints: May say the tempo.
        setting: As `setting_of` gives it; missing values get plain defaults.
    """

    def __init__(self, constraints: Constraints, setting: Mapping[str, Any]) -> None:
        given = zip(TRIO, setting.get("tracks", TRIO), strict=True)
        self.tracks = tuple(ours._replace(name=name, program=program) for ours, (name, program, *_) in given)
        self.velocities = np.array([int(velocity) for velocity in setting.get("velocities", [VELOCITY] * len(TRIO))])
        self.tempo = tempo_of(constraints, setting)

    def decode(self, tokens: Sequence[int]) -> Score:
        """The music of a whole piece."""
        return self.score(decode_report(tokens)[0].notes)

    def decoder(self) -> GrooveDecoder:
        """A decoder that reads one token at a time."""
        return GrooveDecoder(self)

    def score(self, notes: Notes, is_first: bool = True) -> Score:
        """Notes in ticks of 12 per beat as music. Only the first part of a piece has the tempo."""
        notes = notes.copy()
        notes["start"] *= FINER
        notes["end"] *= FINER
        notes["velocity"] = self.velocities[notes["track"]]
        tempos = make_tempos([(0, self.tempo)] if is_first else [])
        return Score(TICKS * FINER, notes, self.tracks, tempos, (TimeSignature(0, 4, 4),))


class GrooveDecoder:
    """Turns tokens into music as they come: everything before the first note that still sounds is certain."""

    def __init__(self, rendering: GrooveRendering) -> None:
        self._rendering = rendering
        self._clock, self._is_first = 0, True
        self._began: dict[int, int] = {}
        self._notes: list[tuple[int, int, int]] = []

    def feed(self, tokens: Sequence[int]) -> tuple[Score, int]:
        """The notes that have become certain, and the tick up to which all notes are known."""
        for token in tokens:
            if token < SHIFT:
                key = token % KEYS
                if key in self._began:
                    start = self._began.pop(key)
                    self._notes.append((start, max(self._clock, start + 1), key))
                if token < OFF:
                    self._began[key] = self._clock
            elif token < END:
                self._clock = after_shift(self._clock, token - SHIFT + 1)
        until = min(self._began.values(), default=self._clock)
        return self._part(until), until * FINER

    def close(self) -> Score:
        """The notes that are left. Those that still sound end now."""
        self._notes += [(start, max(self._clock, start + 1), key) for key, start in self._began.items()]
        return self._part(math.inf)

    def _part(self, until: float) -> Score:
        certain = [note for note in self._notes if note[0] < until]
        self._notes = [note for note in self._notes if note[0] >= until]
        start, end, key = np.array(certain, np.int64).reshape(-1, 3).T
        part = self._rendering.score(make_notes(start, end, key % PITCHES, VELOCITY, key // PITCHES), self._is_first)
        self._is_first = False
        return part
