"""Metrics of form, of harmony and of a prompt's end, as slowly and plainly as they can be said; in 4/4."""

from __future__ import annotations

import math
from itertools import pairwise

from music_oracle import plain

from musicgen.midi.score import Score

KICK, SNARE = {35, 36}, {37, 38, 40}


def sixteenth(tick: int, bars: int) -> int:
    return min((tick + 3) // 6, 16 * bars - 1)


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def jaccard(one: set[object], other: set[object]) -> float:
    return len(one & other) / len(one | other)


def slow_bars(score: Score) -> dict[str, list[set[object]]]:
    notes = plain(score)
    count = max(note[0] for note in notes) // 96 + 1
    bars: dict[str, list[set[object]]] = {
        kind: [set() for _ in range(count)] for kind in ("notes", "pitches", "onsets")
    }
    for start, _, pitch, is_drum in notes:
        bar, place = divmod(sixteenth(start, count), 16)
        bars["notes"][bar].add((place, pitch, is_drum))
        bars["onsets"][bar].add(place)
        if not is_drum:
            bars["pitches"][bar].add(pitch)
    return bars


def slow_form(score: Score) -> dict[str, float]:
    found = {}
    for kind, bars in slow_bars(score).items():
        for lag in (1, 2, 4, 8):
            pairs = [(bars[number], bars[number + lag]) for number in range(len(bars) - lag)]
            found[f"{kind} alike at {lag}"] = mean([jaccard(*pair) for pair in pairs if pair[0] | pair[1]])
    bars = slow_bars(score)["notes"]
    best = [
        max(jaccard(bar, earlier) for earlier in bars[:number]) for number, bar in enumerate(bars) if number and bar
    ]
    return {**found, "best earlier bar": mean(best)}


def slow_harmony(score: Score) -> dict[str, float]:
    notes = [(int(n["start"]), int(n["end"]), int(n["pitch"]), score.tracks[n["track"]]) for n in score.notes]
    bars = max(note[0] for note in notes) // 96 + 1
    at = {item.tick: item.chord for item in score.chords if item.tick < 96 * bars}
    written, chord = [], None
    for tick in range(max(96 * bars, max(note[1] for note in notes))):
        chord = at.get(tick, chord)
        written.append(chord)
    changes = [new for old, new in pairwise([None, *written]) if new != old]
    agreed = [
        pitch % 12 in chord.pitch_classes
        for start, end, pitch, track in notes
        if not track.is_drum
        for chord in written[start:end]
        if chord is not None and chord.quality != "N"
    ]
    shared = []
    for start, end, pitch, track in notes:
        if track.name == "Bass":
            heard = {
                other[2] % 12 for other in notes if other[3].name == "Piano" and other[0] < end and other[1] > start
            }
            shared += [pitch % 12 in heard] if heard else []
    real = [chord for chord in changes if chord is not None and chord.quality != "N"]
    return {
        "chords per bar": len(real) / bars if score.chords else math.nan,
        "notes in the chord": mean(list(map(float, agreed))),
        "bass in the other part": mean(list(map(float, shared))),
    }


def slow_kick_and_snare(score: Score, prompt_bars: int) -> tuple[float, float]:
    bars = [
        {("kick" if thing[1] in KICK else "snare", thing[0]) for thing in bar if thing[2] and thing[1] in KICK | SNARE}
        for bar in slow_bars(score)["notes"]
    ]
    prompt, later = bars[:prompt_bars], bars[prompt_bars:]
    if not any(prompt) or not later:
        return math.nan, math.nan
    best = [max(jaccard(bar, given) if bar | given else 1.0 for given in prompt) for bar in later]
    return mean([float(bar in prompt) for bar in later]), mean(best)
