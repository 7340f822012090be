"""Checks a prepared corpus.

Nothing that the corpus says about itself is trusted: hashes are computed again, every song is checked by its language,
and copies are searched again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from musicgen.data.corpus import Corpus, hashed_files
from musicgen.data.prepare import hash_source
from musicgen.errors import UserError
from musicgen.inputs import hash_file
from musicgen.languages.duplicates import Sketch
from musicgen.languages.language import Language
from musicgen.subprocess_call import subprocess_map

Check = tuple[str, Sketch | None] | UserError
Progress = Callable[[Iterable[Check], int], Iterable[Check]]


def verify(folder: Path, source: Path | None = None, workers: int = 1, progress: Progress | None = None) -> list[str]:
    """Everything that is wrong with a corpus, as sentences; an empty list if nothing is.

    Args:
        folder: The corpus.
        source: The folder it was made from, to check the source files too.
        workers: Child processes that check songs.
        progress: Wraps the results as they come, to show progress.

    Raises:
        UserError: The corpus cannot be opened.
    """
    corpus = Corpus.open(folder)
    hashes = corpus.about.get("sha256")
    problems = [
        f"{folder / name}: changed since it was prepared"
        for name in hashed_files(corpus.language)
        if not isinstance(hashes, dict) or hash_file(folder / name) != hashes.get(name)
    ]
    problems += _check_places(corpus)
    songs = corpus.songs()
    checks: Iterable[Check] = subprocess_map(
        check_song, ((corpus.language, corpus[song], song) for song in songs), workers
    )
    if progress is not None:
        checks = progress(checks, len(songs))
    sketches: dict[str, Sketch | None] = {}
    for song, check in zip(songs, checks, strict=True):
        sentence = str(check) if isinstance(check, UserError) else check[0]
        if not isinstance(check, UserError):
            sketches[song.path] = check[1]
        if sentence:
            problems.append(f"{song.path}: {sentence}")
    splits = corpus.language.splits
    problems += [f"{song.path}: unknown split {song.split!r}" for song in songs if song.split not in splits]
    problems += corpus.language.check_splits(songs, sketches)
    if source is not None:
        problems += [
            f"{source / song.path}: missing, or changed since the corpus was prepared"
            for song in corpus.index
            if hash_source(source / song.path) != song.sha256
        ]
    return problems


def check_song(language: Language, rows: NDArray[Any], song: Any) -> tuple[str, Sketch | None]:
    """What is wrong with a song ("" for nothing), and its sketch. Runs in a child process."""
    return language.check_song(rows, song)


def _check_places(corpus: Corpus) -> list[str]:
    """Songs must fill the array, one after the other."""
    problems, expected, row = [], 0, corpus.language.row
    for song in corpus.songs():
        if song.offset != expected:
            problems.append(f"{song.path}: at {row} {song.offset}, where {expected} was expected")
        expected = song.offset + song.rows
    return problems
