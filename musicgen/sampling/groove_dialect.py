"""Grooves to the sampler: bars are counted by the clock, and a continuation has the instruments of its prompt.

The hard choice: tokens say neither tempo nor velocities nor instruments, so they travel beside them, as a *setting*:
plain data, taken from the prompt, kept with states, and given back to the music when it is decoded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.midi.score import DEFAULT_BPM, Notes, Score, TimeSignature, Track, make_notes, make_tempos
from musicgen.sampling.choose import Taste
from musicgen.sampling.constraints import Constraints
from musicgen.sampling.dialect import Prompt
from musicgen.sampling.groove_guide import BAR, GrooveGuide
from musicgen.sampling.guide import FreeGuide, Guide
from musicgen.sampling.prompt import load_prompt, taken_bars
from musicgen.tokens.groove import KEYS, Groove
from musicgen.tokens.groove_quantise import PITCHES, TICKS, TRIO, VELOCITY, choose_trio, quantise_trio
from musicgen.tokens.quantise import TokenError

FINER = 40
"""Files have 480 ticks a beat, as sequencers like it, and tokens 12."""
SLOWEST, FASTEST = 10, 500
"""Tempos that a file may have."""
_OFF, _SHIFT = Groove.vocabulary.first("NoteOff"), Groove.vocabulary.first("Shift")


class GrooveDialect:
    """The token language of grooves, to a sampler: see `Dialect`."""

    language = Groove()
    taste = Taste(temperature=0.6)
    first = Groove.begin
    bar_ticks = BAR * FINER

    def guide(
        self, constraints: Constraints, tokens: Sequence[int], prompt_bars: int, setting: Mapping[str, Any]
    ) -> Guide:
        """What may follow: see `GrooveGuide`."""
        if constraints.grammar:
            tempo = _tempo(constraints, setting)
            return GrooveGuide(self.language, constraints, tokens, prompt_bars, tempo)
        return FreeGuide(
            self.language,
            constraints,
            tokens,
            [self.language.begin],
            lambda moment: int((TICKS * moment.beat + moment.tick) // BAR),
        )

    def complete_bars(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """How many bars are complete after each token, by the clock."""
        return clock(tokens) // BAR

    def read_prompt(self, source: Path | str | Score, bars: int | None) -> Prompt:
        """The events of the first bars of a piece; what sounds at their end goes on."""
        score, name, metre = load_prompt(source)
        try:
            trio, quantisation = quantise_trio(score)
        except TokenError as error:
            raise UserError(f"{name}: cannot be a prompt for a model that speaks groove: {error}") from None
        skipped = int(trio.notes["start"].min()) // BAR
        silence = f", {skipped} empty bars skipped" if skipped else ""
        notes = trio.notes.copy()
        notes["start"] -= skipped * BAR
        notes["end"] -= skipped * BAR
        taken, words = taken_bars(bars, int(notes["start"].max()) // BAR + 1)
        setting = setting_of(score, choose_trio(score), (skipped + taken) * 4)
        return self.prompt(notes, taken, setting, f"{name}: {quantisation}{silence}{metre}; {words}")

    def prompt(self, notes: Notes, bars: int, setting: Mapping[str, Any], report: str) -> Prompt:
        """The events of the first bars of a trio, in ticks of 12 a beat; what ends with the last of them has ended."""
        tokens = self.language.encode_notes(notes[notes["start"] < bars * BAR])[:-1]
        tokens = tokens[clock(tokens) <= bars * BAR]
        while tokens[-1] >= _SHIFT and len(tokens) > 1:  # a shift belongs to the event that it leads to
            tokens = tokens[:-1]
        return Prompt(tokens.tolist(), bars, setting, report)

    def rendering(self, constraints: Constraints, setting: Mapping[str, Any]) -> GrooveRendering:
        """How pieces sound: with the instruments, velocities and tempo of a setting, or with plain ones."""
        tracks = tuple(Track(*track) for track in setting.get("tracks", TRIO))
        velocities = [int(velocity) for velocity in setting.get("velocities", [VELOCITY] * len(TRIO))]
        return GrooveRendering(tracks, velocities, _tempo(constraints, setting))


def clock(tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Ticks since the beginning after each token, shape (tokens,)."""
    ids = np.asarray(tokens, np.int64)
    is_shift = (ids >= _SHIFT) & (ids < Groove.end)
    beats, tick = np.divmod(np.where(is_shift, ids - _SHIFT + 1, 0), TICKS)
    latest = np.maximum.accumulate(np.where(is_shift, np.arange(len(ids)), 0))
    time: NDArray[np.int64] = TICKS * np.cumsum(beats) + tick[latest]
    return time


def _tempo(constraints: Constraints, setting: Mapping[str, Any]) -> float:
    """The tempo of a piece: that of its prompt, as far as the constraints allow."""
    tempo = float(setting.get("tempo", DEFAULT_BPM))
    low, high = constraints.tempo or (tempo, tempo)
    if constraints.tempo is not None and not SLOWEST <= low <= high <= FASTEST:
        raise UserError(f"tempo={low:g}{'' if low == high else f'-{high:g}'}: takes {SLOWEST} to {FASTEST}")
    return min(max(tempo, low, SLOWEST), high, FASTEST)


def setting_of(score: Score, trio: Sequence[Sequence[int]], beats: int) -> dict[str, Any]:
    """What a continuation takes over from so many beats of a piece: instruments, mean velocities and the tempo.

    Args:
        score: The piece.
        trio: Numbers of the tracks that are bass, drums and the other.
        beats: How many.
    """
    notes = score.notes[score.notes["start"] < beats * score.ticks_per_beat]
    tracks, velocities = [], []
    usual = round(float(notes["velocity"].mean())) if len(notes) else VELOCITY
    for ours, numbers in zip(TRIO, trio, strict=True):
        theirs = score.tracks[numbers[0]] if numbers else ours
        tracks.append([theirs.name or ours.name, theirs.program, ours.is_drum])
        own = notes["velocity"][np.isin(notes["track"], numbers)]
        velocities.append(round(float(own.mean())) if len(own) else usual)
    tempo = score.tempos["bpm"][score.tempos["tick"] <= int(notes["start"].max(initial=0))][-1:].tolist()
    return {"tracks": tracks, "velocities": velocities, "tempo": tempo[0] if tempo else DEFAULT_BPM}


class GrooveRendering:
    """How pieces sound.

    Args:
        tracks: The instruments: bass, drums and the other.
        velocities: Of the notes of each.
        tempo: Quarter notes a minute.
    """

    def __init__(self, tracks: tuple[Track, ...], velocities: Sequence[int], tempo: float) -> None:
        self.tracks, self.velocities, self.tempo = tracks, np.array(velocities), tempo

    def decode(self, tokens: Sequence[int]) -> Score:
        """The music of a whole piece."""
        return self.score(GrooveDialect.language.decode(tokens).notes)

    def decoder(self) -> GrooveDecoder:
        """The same, as tokens come."""
        return GrooveDecoder(self)

    def score(self, notes: Notes, is_first: bool = True) -> Score:
        """Notes in ticks of 12 a beat as music; only its first part says the tempo."""
        notes = notes.copy()
        notes["start"] *= FINER
        notes["end"] *= FINER
        notes["velocity"] = self.velocities[notes["track"]]
        tempos = make_tempos([(0, self.tempo)] if is_first else [])
        return Score(TICKS * FINER, notes, self.tracks, tempos, (TimeSignature(0, 4, 4),))


class GrooveDecoder:
    """Music from tokens as they come: what is before the first note that still sounds is certain."""

    def __init__(self, rendering: GrooveRendering) -> None:
        self._rendering = rendering
        self._clock, self._is_first = 0, True
        self._began: dict[int, int] = {}
        self._notes: list[tuple[int, int, int]] = []

    def feed(self, tokens: Sequence[int]) -> tuple[Score, int]:
        """The notes that have become certain, and up to when that is all there are."""
        for token in tokens:
            if token < _SHIFT:
                key = token % KEYS
                if key in self._began:
                    start = self._began.pop(key)
                    self._notes.append((start, max(self._clock, start + 1), key))
                if token < _OFF:
                    self._began[key] = self._clock
            elif token < Groove.end:
                beats, tick = divmod(token - _SHIFT + 1, TICKS)
                self._clock = (self._clock // TICKS + beats) * TICKS + tick
        until = min(self._began.values(), default=self._clock)
        part = self._part(until)
        return part, until * FINER

    def close(self) -> Score:
        """The notes that were left; those that still sound end now."""
        self._notes += [(start, max(self._clock, start + 1), key) for key, start in self._began.items()]
        return self._part(math.inf)

    def _part(self, until: float) -> Score:
        certain = [note for note in self._notes if note[0] < until]
        self._notes = [note for note in self._notes if note[0] >= until]
        start, end, key = np.array(certain, np.int64).reshape(-1, 3).T
        part = self._rendering.score(make_notes(start, end, key % PITCHES, VELOCITY, key // PITCHES), self._is_first)
        self._is_first = False
        return part
