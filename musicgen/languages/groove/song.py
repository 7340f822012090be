"""The record of an accompaniment in a corpus, and how its notes are stored.

All instruments are stored, not a trio: which instrument joins bass and drums is drawn anew for every training example.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, get_args

import numpy as np

from musicgen.languages.groove.quantise import TRIO, busiest_other
from musicgen.languages.groove.table import Instrument
from musicgen.languages.song import Song
from musicgen.languages.split import SPLITS
from musicgen.midi.parts import Part
from musicgen.midi.score import DEFAULT_BPM, Notes, Track

SEEN_STYLES = ("seen_style_valid", "seen_style_test")
"""Splits of files that are not trained on, in styles that are."""
TEMPOS = (10.0, 1000.0)
"""The slowest and the fastest tempo that is stored."""
PARTS: tuple[Part, ...] = get_args(Part)
PLACES = {"bass": 0, "drums": 1}
"""Tracks of a trio; track 2 is the other instrument."""
COLUMNS = (
    "path", "sha256", "family", "style", "split", "dropped", "offset", "notes", "bars", "counted", "seconds", "tempo",
)  # fmt: skip


@dataclass(frozen=True)
class GrooveSong(Song):
    """A line of the index.

    Attributes:
        family: Related styles; splits keep them together.
        style: The style of the accompaniment.
        count_in: Bars of count-in that were left out (`counted` in the file).
        tempo: Beats per minute at the beginning.
        tracks: Its instruments; the number of a note's track is a place in this list.
    """

    family: str = ""
    style: str = ""
    count_in: int = 0
    tempo: float = DEFAULT_BPM
    tracks: tuple[Instrument, ...] = ()

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> GrooveSong:
        """Build a record from the fields of a line."""
        rest = {name: value for name, value in fields.items() if name not in ("tracks", "counted")}
        return cls(**rest, count_in=fields["counted"], tracks=tuple(Instrument(**track) for track in fields["tracks"]))

    def to_fields(self) -> dict[str, Any]:
        """The fields of its line, in the order that corpora have always had."""
        values = {**vars(self), "counted": self.count_in}
        return {name: values[name] for name in COLUMNS} | {"tracks": [track._asdict() for track in self.tracks]}

    def is_sound(self) -> bool:
        """Whether every field holds a value that it can have."""
        counts = (self.count_in, *(number for track in self.tracks for number in (track.notes, track.program)))
        return (
            super().is_sound()
            and all(type(count) is int and count >= 0 for count in counts)
            and all(isinstance(text, str) for text in (self.family, self.style, *(track.name for track in self.tracks)))
            and all(track.part in PARTS and track.program < 128 for track in self.tracks)
            and type(self.tempo) in (int, float)
            and TEMPOS[0] <= self.tempo <= TEMPOS[1]
            and (self.split is None or (self.split in (*SPLITS, *SEEN_STYLES) and self.bars > 0 < self.notes))
            and (self.split is None or self.notes == sum(track.notes for track in self.tracks))
        )

    def others(self) -> list[int]:
        """Numbers of the tracks that play something and are neither bass nor drums."""
        return [number for number, track in enumerate(self.tracks) if track.part == "other" and track.notes]

    def busiest_other(self) -> int | None:
        """The number of the other instrument with the most notes; None if there is none."""
        return busiest_other([track.part for track in self.tracks], [track.notes for track in self.tracks])

    def trio_tracks(self) -> tuple[Track, ...]:
        """Names and programs of bass, drums and the busiest other instrument; plain ones for those that are missing."""
        other = self.busiest_other()
        basses = [next((track for track in self.tracks if track.part == part), None) for part in PLACES]
        chosen = (*basses, None if other is None else self.tracks[other])
        return tuple(
            ours if theirs is None else ours._replace(name=theirs.name or ours.name, program=theirs.program)
            for ours, theirs in zip(TRIO, chosen, strict=True)
        )


def choose_notes(rows: Notes, song: GrooveSong, other: int | None = None) -> Notes:
    """Notes of bass (track 0), drums (1) and one other instrument (2).

    Args:
        rows: The notes of an accompaniment.
        song: Its record.
        other: The number of the track that joins bass and drums; None for the busiest.
    """
    third = song.busiest_other() if other is None else other
    places = [2 if number == third else PLACES.get(track.part, -1) for number, track in enumerate(song.tracks)]
    sizes = [track.notes for track in song.tracks]
    chosen = [
        (place, rows[end - size : end])
        for place, size, end in zip(places, sizes, accumulate(sizes), strict=True)
        if place >= 0
    ]
    trio = np.concatenate([part for _, part in chosen])
    trio["track"] = np.repeat([place for place, _ in chosen], [len(part) for _, part in chosen])
    return trio
