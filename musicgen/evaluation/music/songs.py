"""Songs from a MIDI file, from a folder of MIDI files, or from a prepared corpus.

Design note: a song is a `Score` and a name, wherever it comes from, so the same code measures generated and real music.
The part of a file before the marker `Continuation` is a prompt, not written by a model, and is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from musicgen.data.corpus import MANIFEST, Corpus
from musicgen.errors import UserError
from musicgen.evaluation import Progress
from musicgen.evaluation.midi_input import files_at, parse_music, read_each, shown
from musicgen.files import kind_of
from musicgen.languages.language import Language
from musicgen.languages.song import current_split
from musicgen.midi.score import Notes, Score

HELD_OUT = ("valid", "test")
Split = Literal["held_out", "train", "valid", "test", "seen_style_valid", "seen_style_test", "ival", "itest", "all"]
"""Splits of a prepared corpus; `held_out` means `valid` and `test`."""


@dataclass(frozen=True)
class Song:
    """A piece of music.

    Attributes:
        name: Its path in the folder or the corpus, on one line.
        score: Its notes. Notes from a file are not quantised, and those of its prompt are left out.
        file: The file it was read from; None for a song of a corpus.
        prompt: The notes of its prompt, at their ticks; None if it has no prompt.
    """

    name: str
    score: Score
    file: Path | None = None
    prompt: Notes | None = None

    @property
    def whole(self) -> Score:
        """Its notes with those of its prompt."""
        if self.prompt is None:
            return self.score
        return self.score.replace(notes=np.concatenate([self.prompt, self.score.notes]))


@dataclass(frozen=True)
class Gathered:
    """Songs, and a line for each that could not be read.

    Attributes:
        songs: In the order of their paths.
        left_out: The lines.
        language: The name of the corpus' language; None for songs from files.
    """

    songs: tuple[Song, ...]
    left_out: tuple[str, ...] = ()
    language: Language | None = None


def is_prepared(place: Path) -> bool:
    """Whether a prepared corpus is at this place."""
    return kind_of(place / MANIFEST) == "file"


def gather(place: Path, key: str, split: Split, progress: Progress, trios: bool = False) -> Gathered:
    """The songs of a file, of a folder, or of a split of a prepared corpus. Messages name the option `key`.

    With `trios`, songs of a groove corpus have only bass, drums and one other instrument, as a model reads them.
    """
    if is_prepared(place):
        return _from_corpus(Corpus.open(place), place, key, split, trios)
    return _from_files(place, key, progress)


def splits_of(corpus: Corpus, split: Split) -> tuple[str, ...]:
    """The splits of a corpus that a name stands for."""
    return {"held_out": HELD_OUT, "all": corpus.language.splits}.get(split, (current_split(split),))


def has_split(place: Path, split: Split) -> bool:
    """Whether a prepared corpus has songs of a split."""
    corpus = Corpus.open(place)
    return any(corpus.songs(name) for name in splits_of(corpus, split))


def _from_corpus(corpus: Corpus, place: Path, key: str, split: Split, trios: bool) -> Gathered:
    songs = tuple(_decoded(corpus, splits_of(corpus, split), trios))
    if not songs:
        held = sorted({song.split for song in corpus.songs() if song.split})
        raise UserError(f"{key}={place}: has no songs of the split {split} (it has {', '.join(held) or 'none'})")
    return Gathered(songs, language=corpus.language)


def _decoded(corpus: Corpus, splits: Iterable[str], trios: bool) -> Iterator[Song]:
    for split in splits:
        yield from (Song(shown(song.path), corpus.score(song, every_part=not trios)) for song in corpus.songs(split))


def _from_files(place: Path, key: str, progress: Progress) -> Gathered:
    paths = files_at(place, key)
    workers = min(os.cpu_count() or 1, len(paths))
    found, left_out = read_each(read_song, dict.fromkeys(paths, ()), workers, progress)
    if not found:
        raise UserError(f"{key}={place}: no file in it can be used; the first is {left_out[0]}")
    names = {path: path.name if path == place else path.relative_to(place).as_posix() for path in found}
    songs = (Song(shown(names[path]), score, path, prompt) for path, (score, prompt) in found.items())
    return Gathered(tuple(songs), tuple(left_out))


def read_song(path: str) -> tuple[Score, Notes | None]:
    """The music of a file after its prompt, and the notes of its prompt.

    A malformed file may end the process, so call it in a child process.
    """
    score, first = parse_music(path)
    is_prompt = score.notes["start"] < first
    return score.replace(notes=score.notes[~is_prompt]), score.notes[is_prompt] if first else None
