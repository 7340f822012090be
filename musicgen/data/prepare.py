"""From a folder of MIDI to a prepared corpus.

The hard choice: songs are read and encoded in child processes that may die of them, and all that has an order (the
index, the groups of copies, the splits) is decided here, of songs in the order of their paths. So one malformed file
costs one line of the index, and the corpus is the same, byte for byte, with any number of workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from musicgen.data.corpus import FORMAT, TOKENS, Corpus, Song, write_files
from musicgen.data.duplicates import Sketch, group_songs, sketch
from musicgen.data.layouts import load_song
from musicgen.data.split import SPLITS, draw_splits
from musicgen.data.synthetic import compose
from musicgen.errors import UserError
from musicgen.files import hash_file
from musicgen.guard import guarded_map
from musicgen.midi.read import read_bytes
from musicgen.midi.score import Score
from musicgen.tokens import Remi, Tokens

SECONDS = 60.0
"""For one file. The longest song that anybody plays takes less than one."""


class Encoded(NamedTuple):
    """A song in tokens and what is to be known of it: what a worker sends back."""

    record: Song
    tokens: Tokens
    sketch: Sketch


def encode_song(score: Score, path: str, sha256: str) -> Encoded:
    """Put a piece in tokens.

    Raises:
        UserError: It cannot be, and why.
    """
    language = Remi()
    tokens, quantisation = language.encode(score)
    piece = language.decode(tokens)
    record = Song(
        path,
        sha256,
        tokens=len(tokens),
        bars=len(language.bar_starts(tokens)) - 1,  # the last closes the piece
        notes=len(piece.notes),
        seconds=round(piece.duration, 3),
        quantised=asdict(quantisation),
    )
    return Encoded(record, tokens, sketch(piece))


def encode_file(folder: str, path: str, layout: str) -> Encoded:
    """Read a file and put it in tokens. Runs in a child process."""
    digest = hashlib.sha256(read_bytes(Path(folder) / path)).hexdigest()
    return encode_song(load_song(Path(folder), path, layout), path, digest)


def encode_files(folder: Path, paths: Sequence[str], layout: str, workers: int) -> Iterator[Encoded | Song]:
    """Songs in tokens, in order; for a file that cannot be used, the line of the index that says why.

    Args:
        folder: Of the files.
        paths: Relative to it.
        layout: A name of `musicgen.data.layouts.LAYOUTS`.
        workers: Child processes.
    """
    calls = [(str(folder), path, layout) for path in paths]
    for path, result in zip(paths, guarded_map(encode_file, calls, workers, SECONDS), strict=True):
        if isinstance(result, UserError):
            # The line has the path, and where the input folder is does not belong into the corpus.
            reason = str(result).replace(f"{folder}/", "").removeprefix(f"{path}: ")
            yield Song(path, hash_source(folder / path), dropped=reason)
        else:
            yield result


def compose_songs(songs: int, bars: int, seed: int) -> Iterator[Encoded]:
    """Synthetic songs in tokens.

    Args:
        songs: How many.
        bars: Length of each.
        seed: Other seeds, other songs.
    """
    for number in range(songs):
        score = compose(seed * 1_000_003 + number, bars)
        name = f"synthetic/{seed}/{number:05d}"
        yield encode_song(score, name, hashlib.sha256(f"{name}/{bars}".encode()).hexdigest())


def gather(results: Iterable[Encoded | Song], seed: int, lists: dict[str, str] | None, about: dict[str, Any]) -> Corpus:
    """A corpus, in memory, of songs in tokens.

    Args:
        results: Songs, and lines for files that cannot be used.
        seed: For the split.
        lists: The split of each song by path, if somebody chose it; songs that are not in it are left out.
        about: What the corpus is to say of itself.
    """
    results = list(results)
    songs = [result for result in results if isinstance(result, Encoded)]
    groups = group_songs([song.sketch for song in songs])
    if lists is None:
        drawn: list[str | None] = list(draw_splits([str(song.record.sha256) for song in songs], groups, seed))
    else:
        drawn = [lists.get(song.record.path) for song in songs]
    fates = _fates([song.record.path for song in songs], groups, drawn)
    index, kept, offset = [], [], 0
    for result in results:
        if isinstance(result, Song):
            index.append(result)
            continue
        split, dropped, group = next(fates)
        record = replace(result.record, split=split, dropped=dropped, group=group)
        if split is None:
            index.append(replace(record, tokens=0))
            continue
        index.append(replace(record, offset=offset))
        kept.append(result.tokens)
        offset += len(result.tokens)
    tokens = np.concatenate([np.empty(0, np.uint16), *kept])
    return Corpus(tokens, tuple(index), Remi(), {"format": FORMAT, "seed": seed, **about})


def _fates(
    paths: Sequence[str], groups: Sequence[int], splits: Sequence[str | None]
) -> Iterator[tuple[str | None, str | None, str]]:
    """For each song its split, the reason why it has none, and the path of the first of its group.

    Drawn splits keep copies together. Where lists that somebody gave do not, the copy that was to be held out
    stays, and those in earlier splits go.
    """
    latest: dict[int, tuple[int, str]] = {}
    for path, group, split in zip(paths, groups, splits, strict=True):
        if split is not None and SPLITS.index(split) > latest.get(group, (-1, ""))[0]:
            latest[group] = SPLITS.index(split), path
    for group, split in zip(groups, splits, strict=True):
        if split is None:
            yield None, "in none of the given lists", paths[group]
        elif split != (winner := SPLITS[latest[group][0]]):
            yield None, f"the same song as {latest[group][1]}, which is in {winner!r}", paths[group]
        else:
            yield split, None, paths[group]


def write_corpus(corpus: Corpus, folder: Path) -> None:
    """Write the files of a corpus, its manifest last."""
    lines = (song.to_json() for song in corpus.index)
    write_files(folder, (TOKENS, corpus.tokens), lines, corpus.language, corpus.about)


def hash_source(path: Path) -> str | None:
    """The hash of a source file; None if it cannot be read."""
    try:
        return hash_file(path)
    except OSError:
        return None
