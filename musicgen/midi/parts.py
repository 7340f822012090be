"""Who plays what: drums, bass, or something else.

The hard choice: a piece is judged as a whole. Composers call riffs and pads "bass" and give solos to bass guitars, so
a track alone tells little; beside its neighbours, the bass is whoever has the instrument, or else the name, and plays
lowest. Two may be one bass (a walking line and a plain one take turns), so all near the lowest are.
"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np

from musicgen.midi.score import Notes, Score, Track

Part = Literal["bass", "drums", "other"]

BASS_PROGRAMS = range(32, 40)
"""General MIDI's basses, counted from 0."""
BASS_NAME = re.compile(r"bass(?!oon)|walk", re.IGNORECASE)
HIGHEST_MEAN = 48.0
"""A track that is a bass by name alone stays below the C under middle C on average."""
ONE_BASS = 12.0
"""Basses whose mean pitches are less than an octave apart are one bass."""


def part_of(track: Track, notes: Notes) -> Part:
    """What a track is taken for by itself: by its channel, its instrument, and last its name and pitches.

    Args:
        track: The track.
        notes: Its notes.
    """
    if track.is_drum:
        return "drums"
    is_named = BASS_NAME.search(track.name) is not None and _mean_pitch(notes) < HIGHEST_MEAN
    return "bass" if track.program in BASS_PROGRAMS or is_named else "other"


def parts(score: Score) -> list[Part]:
    """What each track of a piece is among the others."""
    notes = [score.notes[score.notes["track"] == number] for number in range(len(score.tracks))]
    alone = [part_of(track, played) for track, played in zip(score.tracks, notes, strict=True)]
    claims = [number for number, part in enumerate(alone) if part == "bass" and len(notes[number])]
    by_instrument = [number for number in claims if score.tracks[number].program in BASS_PROGRAMS]
    means = {number: _mean_pitch(notes[number]) for number in by_instrument or claims}
    lowest = min(means.values(), default=0.0)
    basses = {number for number, mean in means.items() if mean < lowest + ONE_BASS}
    return [
        "bass" if number in basses else "other" if part == "bass" and len(notes[number]) else part
        for number, part in enumerate(alone)
    ]


def _mean_pitch(notes: Notes) -> float:
    """The mean pitch of notes; 0 if there are none."""
    return float(np.mean(notes["pitch"])) if len(notes) else 0.0
