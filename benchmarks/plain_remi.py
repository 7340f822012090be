"""REMI written out plainly: miditoolkit and a loop over notes, as one would write it first.

What `benchmarks/corpus.py` compares our encoder with, and what the tests hold it against: the tokens are the same.
"""

from __future__ import annotations

from pathlib import Path

import miditoolkit
import numpy as np

from musicgen.languages import Remi
from musicgen.midi.chord import Chord

VOCABULARY = Remi().vocabulary


def encode_plainly(path: Path) -> list[int]:
    """The tokens of a metrical MIDI file of one piano in 4/4."""
    midi = miditoolkit.MidiFile(path)
    sixteenth = midi.ticks_per_beat / 4
    velocities = scaled_velocities([note.velocity for track in midi.instruments for note in track.notes])

    notes: dict[int, dict[int, list[int]]] = {}  # position to pitch to duration and velocity
    place = 0
    for track in midi.instruments:
        for note in track.notes:
            position = int(note.start / sixteenth + 0.5)
            duration = min(max(int(2 * (note.end - note.start) / sixteenth + 0.5), 1), 32)
            velocity = velocities[place]
            place += 1
            here = notes.setdefault(position, {})
            if note.pitch in here:
                duration, velocity = max(duration, here[note.pitch][0]), max(velocity, here[note.pitch][1])
            here[note.pitch] = [duration, velocity]

    last: dict[int, int] = {}  # pitch to the position where it was struck last
    for position in sorted(notes):
        for pitch in notes[position]:
            if pitch in last:
                before = notes[last[pitch]][pitch]
                before[0] = min(before[0], 2 * (position - last[pitch]))
            last[pitch] = position

    first = 16 * (min(notes) // 16)
    end = 16 * (max(notes) // 16 + 1)
    tempos = {first: nearest_tempo(120.0)}
    for change in midi.tempo_changes:
        position = int(change.time / sixteenth + 0.5)
        if position < end:
            tempos[max(position, first)] = nearest_tempo(change.tempo)
    tempos = without_repeats(tempos)
    chords: dict[int, str] = {}
    for marker in midi.markers:
        chord = Chord.from_mark(marker.text)
        position = int(marker.time / sixteenth + 0.5)
        if chord is not None and position < end:
            chords[max(position, first)] = f"Chord_{chord}"
    chords = without_repeats(chords)

    names: list[str] = []
    for position in range(first, end):
        if position % 16 == 0:
            names.append("Bar")
        if position not in notes and position not in chords and position not in tempos:
            continue
        names.append(f"Beat_{position % 16}")
        if position in chords:
            names.append(chords[position])
        if position in tempos:
            names.append(tempos[position])
        for pitch in sorted(notes.get(position, {}), reverse=True):
            duration, velocity = notes[position][pitch]
            level = min(max(round((velocity - 40) / 2), 0), 23)
            names += [f"Pitch_{pitch}", f"Velocity_{40 + 2 * level}", f"Duration_{duration / 2:g}"]
    names += ["Bar", "EOS"]
    return [VOCABULARY[name] for name in names]


def scaled_velocities(velocities: list[int]) -> list[int]:
    """Velocities, moved into 40 to 86 if more than a twentieth lie outside."""
    outside = sum(velocity < 39 or velocity > 87 for velocity in velocities)
    if outside <= 0.05 * len(velocities):
        return velocities
    softest, loudest = np.percentile(velocities, [1, 99])
    squeeze = min(1.0, 46 / max(loudest - softest, 1.0))
    floor = min(max(softest, 40), 86 - squeeze * (loudest - softest))
    return [round(floor + squeeze * (velocity - softest)) for velocity in velocities]


def nearest_tempo(bpm: float) -> str:
    """The token of the nearest tempo."""
    return f"Tempo_{32 + 3 * min(max(round((bpm - 32) / 3), 0), 64)}"


def without_repeats(changes: dict[int, str]) -> dict[int, str]:
    """Changes by position, without those that change nothing."""
    kept: dict[int, str] = {}
    before = ""
    for position in sorted(changes):
        if changes[position] != before:
            kept[position] = before = changes[position]
    return kept
