"""A prepared corpus of grooves: the notes of every accompaniment in one table, and an index of them.

On disk it is a folder like that of `musicgen.data.corpus`, with `notes.npy` where that has `tokens.npy`.

The hard choice: five splits. `train`, `valid` and `test` have no family of styles in common. `ival` and `itest` are of
styles that are trained on, but of files that are not: what a model makes of a known style and of an unknown one can be
told apart, and neither is recall. (The published code has its in-domain files in training too.)
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, get_args

import numpy as np

from musicgen.data.corpus import map_array, read_index, read_manifest
from musicgen.data.groove_table import BAR, Instrument
from musicgen.data.split import SPLITS
from musicgen.errors import UserError
from musicgen.midi.parts import Part
from musicgen.midi.score import DEFAULT_BPM, NOTE, Notes
from musicgen.tokens import Tokens
from musicgen.tokens.groove import Groove
from musicgen.tokens.groove_quantise import PITCHES
from musicgen.tokens.tokenizer import load_tokenizer

NOTES = "notes.npy"
IN_DOMAIN = ("ival", "itest")
TEMPOS = (10.0, 1000.0)
"""The slowest and the fastest."""
PARTS: tuple[Part, ...] = get_args(Part)
PLACES = {"bass": 0, "drums": 1}
"""Tracks of a trio; 2 is whatever joins them."""


@dataclass(frozen=True)
class GrooveSong:
    """A line of the index.

    Attributes:
        path: Of the source file, relative to the input folder.
        sha256: Of the source file; None if it could not be read.
        family: The styles that are kin to this one; splits keep them together.
        style: Of the accompaniment.
        split: `train`, `valid`, `test`, `ival` or `itest`; None if it was left out.
        dropped: Why it was left out; None if it was not.
        offset: Its first row in `notes.npy`.
        notes: How many it has.
        bars: ... from the first in which something begins to the last.
        counted: Bars of count-in that were left out.
        seconds: How long the file lasts.
        tempo: Beats a minute where it begins.
        tracks: Its instruments, by the number that notes have for them.
    """

    path: str
    sha256: str | None
    family: str
    style: str
    split: str | None = None
    dropped: str | None = None
    offset: int = 0
    notes: int = 0
    bars: int = 0
    counted: int = 0
    seconds: float = 0.0
    tempo: float = DEFAULT_BPM
    tracks: tuple[Instrument, ...] = ()

    @classmethod
    def from_json(cls, line: str) -> GrooveSong:
        """The record that a line holds.

        Raises:
            ValueError: It holds none.
            TypeError, KeyError: It holds other keys.
        """
        fields = json.loads(line)
        song = cls(**{**fields, "tracks": tuple(Instrument(**track) for track in fields["tracks"])})
        if not song.is_sound():
            raise ValueError(line)
        return song

    def is_sound(self) -> bool:
        """Whether every field holds what it can hold."""
        numbers = (number for track in self.tracks for number in (track.notes, track.program))
        counts = (self.offset, self.notes, self.bars, self.counted, *numbers)
        texts = (self.path, self.family, self.style, *(track.name for track in self.tracks))
        hashes = (self.sha256, self.dropped)
        return (
            all(type(count) is int and count >= 0 for count in counts)
            and all(isinstance(text, str) for text in texts)
            and all(text is None or isinstance(text, str) for text in hashes)
            and all(track.part in PARTS and track.program < 128 for track in self.tracks)
            and all(type(number) in (int, float) for number in (self.tempo, self.seconds))
            and TEMPOS[0] <= self.tempo <= TEMPOS[1]
            and (self.split is None or (self.split in (*SPLITS, *IN_DOMAIN) and self.bars > 0 < self.notes))
            and (self.split is None or self.notes == sum(track.notes for track in self.tracks))
        )

    def to_json(self) -> str:
        """The line, in ASCII."""
        return json.dumps({**asdict(self), "tracks": [track._asdict() for track in self.tracks]})


@dataclass(frozen=True)
class GrooveCorpus:
    """Accompaniments as tables of notes.

    Attributes:
        notes: Rows of `NOTE` of all accompaniments, 12 ticks a beat; of each, instrument after instrument.
        index: A record for each source file, kept or not.
        language: What tokens are made of them.
        about: How it was made, as `corpus.json` says it.
    """

    notes: Notes
    index: tuple[GrooveSong, ...]
    language: Groove
    about: dict[str, Any]

    def songs(self, split: str | None = None) -> tuple[GrooveSong, ...]:
        """The accompaniments of a split, or all that were kept."""
        return tuple(song for song in self.index if song.split is not None and split in (None, song.split))

    def __getitem__(self, song: GrooveSong) -> Notes:
        """The notes of an accompaniment: a view, not a copy."""
        return self.notes[song.offset : song.offset + song.notes]

    def trio(self, song: GrooveSong, other: int | None = None) -> Notes:
        """Bass (track 0), drums (1) and one of the other instruments (2).

        Args:
            song: The accompaniment.
            other: The number of the track that joins them; None for that with the most notes.
        """
        others = [number for number, track in enumerate(song.tracks) if track.part == "other"]
        third = max(others, key=lambda number: song.tracks[number].notes, default=None) if other is None else other
        places = [2 if number == third else PLACES.get(track.part, -1) for number, track in enumerate(song.tracks)]
        sizes, notes = [track.notes for track in song.tracks], self[song]
        ends = accumulate(sizes)
        chosen = [
            (place, notes[end - size : end]) for place, size, end in zip(places, sizes, ends, strict=True) if place >= 0
        ]
        trio = np.concatenate([part for _, part in chosen])
        trio["track"] = np.repeat([place for place, _ in chosen], [len(part) for _, part in chosen])
        return trio

    def pieces(self, split: str, most: int | None = None) -> list[Tokens]:
        """The trios of a split as tokens, or the first of them: what a model is judged on."""
        return [self.language.encode_notes(self.trio(song)) for song in self.songs(split)[:most]]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of all that is trained on: the notes, who plays them, and what is for training."""
        digest = hashlib.sha256(self.notes.tobytes())
        for song in self.songs():
            digest.update(song.to_json().encode())
        return digest.hexdigest()

    @classmethod
    def open(cls, folder: Path | str) -> GrooveCorpus:
        """A prepared corpus of grooves.

        The index and the ranges of all columns are checked here; hashes, and each note, by `musicgen.data.verify`.

        Raises:
            UserError: It is not one, or not whole.
        """
        folder = Path(folder)
        about = read_manifest(folder)
        language = load_tokenizer(folder)
        if not isinstance(language, Groove):
            raise UserError(f"{folder}: holds {language.name} tokens, not grooves; prepare grooves with source=groove")
        index = read_index(folder, GrooveSong.from_json)
        notes = map_array(folder / NOTES)
        corpus = cls(notes, index, language, about)
        ends = [song.offset + song.notes for song in corpus.songs()]
        is_table = notes.dtype == NOTE and notes.ndim == 1 and max(ends, default=0) == len(notes)
        if not is_table or not _in_range(notes, corpus.songs()):
            raise UserError(f"{folder / NOTES}: not the notes that the index speaks of; prepare it again")
        return corpus


def _in_range(notes: Notes, songs: tuple[GrooveSong, ...]) -> bool:
    """Whether no column has a number that no note of any of these grooves can have."""
    if not songs:
        return True
    ends = {
        "start": (0, BAR * max(song.bars for song in songs) - 1),
        "pitch": (0, PITCHES - 1),
        "velocity": (1, 127),
        "track": (0, max(len(song.tracks) for song in songs) - 1),
    }
    fits = all(low <= notes[name].min() and notes[name].max() <= high for name, (low, high) in ends.items())
    return fits and bool((notes["end"] > notes["start"]).all())
