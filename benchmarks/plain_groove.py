"""Groove tokens written out plainly: a loop over notes and one over events, as one would write it first.

What `benchmarks/groove_tokens.py` compares our encoder with, and what the tests hold it against: the tokens are the
same.
"""

from __future__ import annotations

from musicgen.languages import Groove
from musicgen.midi.score import Notes

VOCABULARY = Groove.vocabulary


def encode_plainly(notes: Notes) -> list[int]:
    """The tokens of notes on three tracks, at 12 ticks a beat."""
    keys: dict[tuple[int, int], dict[int, int]] = {}  # track and pitch to starts and ends
    for start, end, pitch, _, track in notes.tolist():
        ends = keys.setdefault((track, pitch), {})
        ends[start] = max(end, start + 1, ends.get(start, 0))

    events: list[tuple[int, int, int, int]] = []  # time, 0 for an end and 1 for a beginning, track, pitch
    for (track, pitch), ends in keys.items():
        starts = sorted(ends)
        for place, start in enumerate(starts):
            end = ends[start]
            if place + 1 < len(starts):
                end = min(end, starts[place + 1])
            events.append((start, 1, track, pitch))
            events.append((end, 0, track, pitch))

    names = ["BOS"]
    now = 0
    for time, begins, track, pitch in sorted(events):
        if time > now:
            names += [f"Shift_{beats}_{tick}" for beats, tick in shifts(now, time)]
            now = time
        names.append(f"{'NoteOn' if begins else 'NoteOff'}_{track + 1}_{pitch}")
    names.append("EOS")
    return [VOCABULARY[name] for name in names]


def shifts(now: int, then: int) -> list[tuple[int, int]]:
    """Beats and tick of the shifts from one time to a later one."""
    beats = then // 12 - now // 12
    result = [(2, 0)] * (beats // 2)
    if beats % 2 or then % 12:
        result.append((beats % 2, then % 12))
    return result
