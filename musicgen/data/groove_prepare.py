"""From a folder of accompaniments to a prepared corpus of grooves.

The hard choice: as with songs, files are read in child processes that may die of them, and the splits are decided
here, of styles in the order of their paths, so that the corpus is the same, byte for byte, with any number of workers.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from musicgen.data.corpus import FORMAT, write_files
from musicgen.data.groove_corpus import IN_DOMAIN, NOTES, TEMPOS, GrooveCorpus, GrooveSong
from musicgen.data.groove_kin import check_kin, join_kin
from musicgen.data.groove_layouts import COUNT_IN, Kin, known_parts
from musicgen.data.groove_table import make_table
from musicgen.data.prepare import SECONDS, hash_source
from musicgen.data.split import draw_splits
from musicgen.data.synthetic_grooves import compose_groove, family_of, style_name
from musicgen.errors import UserError
from musicgen.guard import guarded_map
from musicgen.midi.parts import Part
from musicgen.midi.read import parse_file, read_bytes
from musicgen.midi.score import DEFAULT_BPM, NOTE, Notes, Score
from musicgen.tokens.groove import Groove

HELD_OUT, MOST_HELD_OUT = 0.1, 50
"""The part of styles in each of `valid` and `test`, and of styles of which a file is in `ival` and `itest`."""


class Read(NamedTuple):
    """An accompaniment and what is to be known of it: what a worker sends back."""

    record: GrooveSong
    notes: Notes


def read_groove(
    score: Score, path: str, sha256: str, kin: Kin, counted: int | None = None, played: list[Part] | None = None
) -> Read:
    """Make the table of a piece.

    Raises:
        UserError: It is not an accompaniment, and why.
    """
    table = make_table(score, counted, played)
    begun = score.tempos["bpm"][score.tempos["tick"] <= score.notes["start"][0]]
    record = GrooveSong(
        path,
        sha256,
        kin.family,
        kin.style,
        notes=len(table.notes),
        bars=table.bars,
        counted=table.counted,
        seconds=round(score.duration, 3),
        tempo=round(float(begun[-1].clip(*TEMPOS)), 3) if len(begun) else DEFAULT_BPM,
        tracks=table.instruments,
    )
    return Read(record, table.notes)


def read_file(folder: str, path: str, layout: str, kin: Kin) -> Read:
    """Read a file and make its table. Runs in a child process."""
    digest = hashlib.sha256(read_bytes(Path(folder) / path)).hexdigest()
    score = parse_file(Path(folder) / path)
    return read_groove(score, path, digest, kin, COUNT_IN.get(layout), known_parts(score, layout))


def read_files(
    folder: Path, paths: Sequence[str], layout: str, kin: dict[str, Kin], workers: int
) -> Iterator[Read | GrooveSong]:
    """Accompaniments, in order; for a file that cannot be used, the line of the index that says why.

    Args:
        folder: Of the files.
        paths: Relative to it.
        layout: A name of `musicgen.data.groove_layouts.LAYOUTS`.
        kin: Style and family of each.
        workers: Child processes.
    """
    calls = [(str(folder), path, layout, kin[path]) for path in paths]
    for path, result in zip(paths, guarded_map(read_file, calls, workers, SECONDS), strict=True):
        if isinstance(result, UserError):
            reason = str(result).replace(f"{folder}/", "").removeprefix(f"{path}: ")
            known = kin[path]
            yield GrooveSong(path, hash_source(folder / path), known.family, known.style, dropped=reason)
        else:
            yield result


def compose_grooves(songs: int, bars: int, seed: int) -> Iterator[Read]:
    """Synthetic accompaniments, two in a style.

    Args:
        songs: How many.
        bars: Length of each.
        seed: Other seeds, other grooves; the styles stay.
    """
    for number in range(songs):
        style = number // 2
        kin = Kin(family_of(style), style_name(style))
        name = f"synthetic/{seed}/{kin.style}.{number:05d}"
        score = compose_groove(seed * 1_000_003 + number, style, bars)
        yield read_groove(score, name, hashlib.sha256(f"{name}/{bars}".encode()).hexdigest(), kin, counted=0)


def gather_grooves(
    results: Iterable[Read | GrooveSong], seed: int, lists: dict[str, str] | None, about: dict[str, Any]
) -> GrooveCorpus:
    """A corpus, in memory, of accompaniments.

    Args:
        results: Accompaniments, and lines for files that cannot be used.
        seed: For the splits.
        lists: The split of each by path, if somebody chose it; what is not in it is left out.
        about: What the corpus is to say of itself.

    Raises:
        UserError: The lists have kin in two splits.
    """
    results = list(results)
    records = [result.record for result in results if isinstance(result, Read)]
    splits = _drawn(records, seed) if lists is None else {song.path: lists.get(song.path) for song in records}
    check_kin([replace(song, split=splits[song.path]) for song in records])
    splits |= _in_domain([song for song in records if splits[song.path] == "train"], seed)
    index, kept, offset = [], [], 0
    for result in results:
        if isinstance(result, GrooveSong):
            index.append(result)
            continue
        record, notes = result
        split = splits[record.path]
        if split is None:
            index.append(replace(record, dropped="in none of the given lists", notes=0))
            continue
        index.append(replace(record, split=split, offset=offset))
        kept.append(notes)
        offset += len(notes)
    table = np.concatenate([np.empty(0, NOTE), *kept])
    return GrooveCorpus(table, tuple(index), Groove(), {"format": FORMAT, "seed": seed, **about})


def _drawn(songs: Sequence[GrooveSong], seed: int) -> dict[str, str | None]:
    """The split of each file: all kin are drawn together, and styles counted."""
    styles = sorted({(song.family, song.style) for song in songs})
    kin = {(song.family, song.style): group for song, group in zip(songs, join_kin(songs), strict=True)}
    hashes: dict[tuple[str, str], str] = {}
    for song in songs:
        style = (song.family, song.style)
        hashes[style] = min(hashes.get(style, "g"), str(song.sha256))  # a letter after those of any hash
    groups = [kin[style] for style in styles]
    held_out = max(1, min(int(HELD_OUT * len(styles)), MOST_HELD_OUT))
    drawn = draw_splits([hashes[style] for style in styles], groups, seed, held_out)
    by_style = dict(zip(styles, drawn, strict=True))
    return {song.path: by_style[song.family, song.style] for song in songs}


def _in_domain(songs: Sequence[GrooveSong], seed: int) -> dict[str, str | None]:
    """Files that are kept from training, of styles that are not: the last file of some styles that have several.

    Files of which there are copies are none of them: the copies are trained on.
    """
    files: dict[tuple[str, str], list[str]] = defaultdict(list)
    copies = Counter(song.sha256 for song in songs)
    unique = {song.path for song in songs if copies[song.sha256] == 1}
    for song in songs:
        files[song.family, song.style].append(song.path)
    queue = sorted(
        (style for style in files if len(files[style]) > 1 and max(files[style]) in unique),
        key=lambda style: hashlib.blake2b("/".join([str(seed), *style]).encode("utf-8", "surrogateescape")).digest(),
    )
    count = min(int(HELD_OUT * len(files)), MOST_HELD_OUT, len(queue) // len(IN_DOMAIN))
    return {
        max(files[style]): split
        for place, split in enumerate(IN_DOMAIN)
        for style in queue[place * count : (place + 1) * count]
    }


def write_grooves(corpus: GrooveCorpus, folder: Path) -> None:
    """Write the files of a corpus, its manifest last."""
    lines = (song.to_json() for song in corpus.index)
    write_files(folder, (NOTES, corpus.notes), lines, corpus.language, corpus.about)
