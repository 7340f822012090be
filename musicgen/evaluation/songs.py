"""Songs from wherever they are: a MIDI file, a folder of them, or a prepared corpus.

The hard choice: a song is a `Score` and a name, wherever it comes from, so that generated and real music are measured
by the same code. Files are parsed in child processes that may die of them; one that cannot be used is a line. What
comes before the marker `Continuation` in a file was given and not written by a model, and is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from musicgen.data.corpus import MANIFEST, Corpus
from musicgen.data.groove_corpus import IN_DOMAIN
from musicgen.data.open import AnyCorpus, open_corpus
from musicgen.data.split import SPLITS
from musicgen.errors import UserError
from musicgen.evaluation.style_files import continuation_start, midi_files
from musicgen.files import kind_of
from musicgen.guard import GuardError, guarded_map
from musicgen.midi.read import MidiError, parse_file, read_bytes
from musicgen.midi.score import Score, TimeSignature, Track
from musicgen.tokens.groove_quantise import TICKS, TRIO

SECONDS = 60.0
"""For one file. The longest that anybody plays takes less than one."""
HELD_OUT = ("valid", "test")
Split = Literal["held_out", "train", "valid", "test", "ival", "itest", "all"]
"""Of a prepared corpus; `held_out` is `valid` and `test`."""
Progress = Callable[[Iterable[Any], int], Iterable[Any]]
"""Takes what is to be gone through and how many there are, and gives the same to go through."""


@dataclass(frozen=True)
class Song:
    """A piece of music.

    Attributes:
        name: Its path in the folder or the corpus, on one line whatever is in it.
        score: Its notes; of a file none of its prompt, and as the file has them, on no grid.
        file: The file that it was read from; None if it is from a corpus.
    """

    name: str
    score: Score
    file: Path | None = None


@dataclass(frozen=True)
class Gathered:
    """Songs, and a line for each that could not be read.

    Attributes:
        songs: In the order of their paths.
        left_out: Lines.
        language: Of the prepared corpus that they are from; None if they are from files.
    """

    songs: tuple[Song, ...]
    left_out: tuple[str, ...] = ()
    language: str | None = None


def is_prepared(place: Path) -> bool:
    """Whether there is a prepared corpus."""
    return kind_of(place / MANIFEST) == "file"


def gather(place: Path, key: str, split: Split, progress: Progress, trios: bool = False) -> Gathered:
    """The songs at a place.

    Args:
        place: A file, a folder or a prepared corpus.
        key: By which it was given, for sentences.
        split: Of a prepared corpus; files have none.
        progress: Is told how far it is.
        trios: Of a corpus of grooves, bass, drums and one other instrument, as a model sees them, and not all.

    Raises:
        UserError: There are none.
    """
    if is_prepared(place):
        return _from_corpus(open_corpus(place), place, key, split, trios)
    return _from_files(place, key, progress)


def splits_of(split: Split) -> tuple[str, ...]:
    """The names that a corpus has for what is meant."""
    return {"held_out": HELD_OUT, "all": (*SPLITS, *IN_DOMAIN)}.get(split, (split,))


def has_split(place: Path, split: Split) -> bool:
    """Whether a prepared corpus has songs of a split."""
    corpus = open_corpus(place)
    return any(corpus.songs(name) for name in splits_of(split))


def _from_corpus(corpus: AnyCorpus, place: Path, key: str, split: Split, trios: bool) -> Gathered:
    songs = tuple(_decoded(corpus, splits_of(split), trios))
    if not songs:
        held = sorted({song.split for song in corpus.songs() if song.split})
        raise UserError(f"{key}={place}: has no songs of the split {split} (it has {', '.join(held) or 'none at all'})")
    return Gathered(songs, language=corpus.language.name)


def _decoded(corpus: AnyCorpus, splits: Iterable[str], trios: bool) -> Iterator[Song]:
    if isinstance(corpus, Corpus):
        for split in splits:
            yield from (Song(shown(song.path), corpus.language.decode(corpus[song])) for song in corpus.songs(split))
        return
    metre = (TimeSignature(0, 4, 4),)
    for split in splits:
        for song in corpus.songs(split):
            notes = corpus.trio(song) if trios else corpus[song]
            own = tuple(Track(item.name, item.program, item.part == "drums") for item in song.tracks)
            score = Score(TICKS, notes, TRIO if trios else own, time_signatures=metre)
            yield Song(shown(song.path), score)


def _from_files(place: Path, key: str, progress: Progress) -> Gathered:
    paths = midi_files(place, key)
    workers = min(os.cpu_count() or 1, len(paths))
    answers = progress(guarded_map(read_song, [(str(path),) for path in paths], workers, SECONDS), len(paths))
    songs, left_out = [], []
    for path, answer in zip(paths, answers, strict=True):
        if isinstance(answer, GuardError):
            left_out.append(f"{shown(path)}: not a MIDI file that can be read (reading it {answer})")
        elif isinstance(answer, UserError):
            left_out.append(str(answer))
        else:
            name = path.name if path == place else path.relative_to(place).as_posix()
            songs.append(Song(shown(name), answer, path))
    if not songs:
        raise UserError(f"{key}={place}: no file in it can be used; the first is {left_out[0]}")
    return Gathered(tuple(songs), tuple(left_out))


def read_song(path: str) -> Score:
    """What a child reads: the music of a file after its prompt.

    Malformed files may end the process: call it in one that may die.

    Raises:
        UserError: It cannot be used, and why.
    """
    score = parse_file(path)
    first = continuation_start(read_bytes(path))
    written = score.notes[score.notes["start"] >= first]
    if not len(written):
        raise MidiError(f"{shown(path)}: no notes{' after its prompt' if first else ''}")
    return score.replace(notes=written)


def shown(path: Path | str) -> str:
    """A path on one line, whatever is in its name."""
    return str(path) if str(path).isprintable() else repr(str(path))
