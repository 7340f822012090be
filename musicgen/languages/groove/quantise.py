"""Any piece as a trio of bass, drums and one other instrument, on the grid that groove tokens can express.

All basses are one part, and so are all drums. One other track stays, by default the one with the most notes; further
tracks are dropped and counted. Quantising is a separate step: `decode(encode(score))` is exactly the score that it
gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musicgen.errors import UserError
from musicgen.languages.grid import Shifts, TokenError, counted, nearest, resolve_overlaps
from musicgen.languages.groove.time import TICKS
from musicgen.languages.metre import COMMON, in_metres
from musicgen.midi.parts import Part, parts
from musicgen.midi.score import Notes, Score, TimeSignature, Track, make_notes

PITCHES = 128
TRIO = (Track("Bass", 33, role="bass"), Track("Drums", 0, True, "drums"), Track("Other", 0, role="other"))
Trio = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Numbers of the tracks that are the bass, the drums, and the other instrument."""
VELOCITY = 64
"""The velocity of every note: tokens do not store velocities."""


@dataclass(frozen=True)
class TrioQuantisation:
    """What quantising did to the notes of a piece.

    Attributes:
        notes: Notes of the piece.
        moved: Notes of the three tracks that began audibly off the grid.
        shift: By how many milliseconds these were shifted on average.
        lengthened: Notes of the three tracks that were shorter than a tick of the grid.
        trimmed: Notes of the three tracks that were cut where the same pitch is struck again.
        merged: Notes that fell on another note of the same track and pitch.
        dropped: Notes of other instruments.
        metre: What was done to the bars; empty if nothing was.
    """

    notes: int
    moved: int
    shift: float
    lengthened: int
    trimmed: int
    merged: int
    dropped: int
    metre: str = ""

    def __str__(self) -> str:
        words = [counted(self.notes, "note")]
        if self.moved:
            words.append(f"{self.moved:,} moved ({self.shift:.0f} ms on average)")
        counts = {"lengthened": self.lengthened, "trimmed": self.trimmed, "merged": self.merged}
        words += [f"{value:,} {name}" for name, value in counts.items() if value]
        return ", ".join([*words, self.metre] if self.metre else words)


def quantise_trio(score: Score, trio: Trio | None = None) -> tuple[Score, TrioQuantisation]:
    """The nearest trio that tokens can express.

    It has three tracks, `TRIO`, at 12 ticks per beat, in 4/4. Notes begin and end on ticks, last at least one tick, and
    end where their pitch is struck again on their track. Tempo, velocities and instruments are not kept.

    Args:
        score: The piece.
        trio: The tracks that the three come from; by default `choose_trio` says so.

    Raises:
        TokenError: It has no notes, or does not begin in 4/4.
    """
    if not len(score.notes):
        raise TokenError("no notes")
    read = in_metres(score, [COMMON])
    score = read.score
    taken = take_trio(score, trio)
    notes = taken.notes
    if not len(notes):
        raise TokenError("no notes of a bass, drums or another instrument")
    start = nearest(notes["start"], score.ticks_per_beat, TICKS)
    end = nearest(notes["end"], score.ticks_per_beat, TICKS)
    shifts = Shifts.of(taken, start * (score.ticks_per_beat / TICKS))
    short = end <= start

    end, key = np.maximum(end, start + 1), PITCHES * notes["track"].astype(np.int64) + notes["pitch"]
    kept, stop = resolve_overlaps(start, end, key)
    quantised = Score(
        ticks_per_beat=TICKS,
        notes=make_notes(start[kept], stop, key[kept] % PITCHES, VELOCITY, key[kept] // PITCHES),
        tracks=TRIO,
        time_signatures=(TimeSignature(0, 4, 4),),
    )
    return quantised, TrioQuantisation(
        notes=len(score.notes),
        moved=int(shifts.is_moved.sum()),
        shift=shifts.mean,
        lengthened=int(short.sum()),
        trimmed=int((stop < end[kept]).sum()),
        merged=len(notes) - len(kept),
        dropped=len(score.notes) - len(notes),
        metre=read.words,
    )


def take_trio(score: Score, trio: Trio | None = None) -> Score:
    """The notes of bass, drums and one other instrument, as they are, on the tracks of a trio."""
    places = np.full(len(score.tracks), -1)
    for place, tracks in enumerate(trio or choose_trio(score)):
        places[list(tracks)] = place
    notes = score.notes[places[score.notes["track"]] >= 0].copy()
    notes["track"] = places[notes["track"]]
    return score.replace(notes=notes, tracks=TRIO)


def choose_trio(score: Score, notes: Notes | None = None, other: str | int | None = None) -> Trio:
    """The tracks that are the bass, the drums, and one other instrument.

    Args:
        score: The piece, which says what part each track plays.
        notes: Those of its notes that count: the other instrument has the most of them. All by default.
        other: The other instrument by its name, or by its number counted from 1, if the user chose it.

    Raises:
        UserError: There is no such track.
    """
    part = parts(score)
    counts = np.bincount((score.notes if notes is None else notes)["track"], minlength=len(part)).tolist()
    third = busiest_other(part, counts) if other is None else _find_track(score, other)
    bass, drums = (
        tuple(number for number, name in enumerate(part) if name == wanted and number != third)
        for wanted in ("bass", "drums")
    )
    return bass, drums, () if third is None else (third,)


def _find_track(score: Score, other: str | int) -> int:
    """The number of a track, counted from 0, that the user names."""
    wanted = str(other).strip().lower()
    names = [track.name.strip().lower() for track in score.tracks]
    found = [number for number, name in enumerate(names) if name == wanted]
    found = found or [number for number, name in enumerate(names) if wanted and wanted in name]
    if not found and wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        found = [int(wanted) - 1]
    if not found or score.tracks[found[0]].is_drum:
        known = ", ".join(f"{number} {track.name}".strip() for number, track in enumerate(score.tracks, 1))
        problem = "is a track of drums" if found else "no track has this name or number"
        raise UserError(f"other={other}: {problem}; the tracks are {known}")
    return found[0]


def busiest_other(parts: Sequence[Part], notes: Sequence[int]) -> int | None:
    """The number of the track that is neither bass nor drums and has the most notes; None if there is none."""
    others = [number for number, part in enumerate(parts) if part == "other"]
    return max(others, key=lambda number: notes[number], default=None)
