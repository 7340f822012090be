"""Which part each track plays: drums, bass, or something else.

A track may state its role. For other tracks the role is guessed.

Design note: the guess looks at the whole piece. Composers call riffs and pads "bass" and give solos to bass guitars, so
one track alone tells little. Among several, the bass is the track with a bass instrument, or else with a bass name,
that plays lowest. Two tracks may share one bass line (they take turns), so all tracks near the lowest count as the
bass.
"""

from __future__ import annotations

import re

import numpy as np

from musicgen.midi.score import Notes, Score, Track
from musicgen.midi.score import Part as Part

BASS_PROGRAMS = range(32, 40)
"""General MIDI's basses, counted from 0."""
BASS_NAME = re.compile(r"bass(?!oon)|walk", re.IGNORECASE)
HIGHEST_MEAN = 48.0
"""A track that is a bass only by its name has a mean pitch below this: the C under middle C."""
ONE_BASS = 12.0
"""Basses with mean pitches less than an octave apart count as one bass."""


def part_of(track: Track, notes: Notes) -> Part:
    """The part of a single track: by its channel, its instrument, or its name and pitches."""
    if track.is_drum:
        return "drums"
    is_named = BASS_NAME.search(track.name) is not None and _mean_pitch(notes) < HIGHEST_MEAN
    return "bass" if track.program in BASS_PROGRAMS or is_named else "other"


def parts(score: Score) -> list[Part]:
    """The part of each track of a piece: its role, or a guess."""
    notes = [score.notes[score.notes["track"] == number] for number in range(len(score.tracks))]
    alone = [part_of(track, played) for track, played in zip(score.tracks, notes, strict=True)]
    claims = [number for number, part in enumerate(alone) if part == "bass" and len(notes[number])]
    by_instrument = [number for number in claims if score.tracks[number].program in BASS_PROGRAMS]
    means = {number: _mean_pitch(notes[number]) for number in by_instrument or claims}
    lowest = min(means.values(), default=0.0)
    basses = {number for number, mean in means.items() if mean < lowest + ONE_BASS}
    guessed: list[Part] = [
        "bass" if number in basses else "other" if part == "bass" and len(notes[number]) else part
        for number, part in enumerate(alone)
    ]
    return [track.role or part for track, part in zip(score.tracks, guessed, strict=True)]


def _mean_pitch(notes: Notes) -> float:
    """The mean pitch of notes; 0 if there are none."""
    return float(np.mean(notes["pitch"])) if len(notes) else 0.0
