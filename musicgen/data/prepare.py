"""From a folder of MIDI to a prepared corpus.

Design note: files are read in child processes, because a malformed file may crash the reader. Everything that depends
on order (the index, groups of copies, splits) is decided here, over songs in the order of their paths. So a malformed
file costs one line of the index, and the corpus is the same, byte for byte, with any number of workers.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.data.corpus import FORMAT, Corpus
from musicgen.errors import UserError
from musicgen.files import check_folder
from musicgen.inputs import hash_file
from musicgen.languages.language import PLAINLY, Language
from musicgen.languages.layouts import Found
from musicgen.languages.reading import UNCLEAR, bring_in
from musicgen.languages.registry import LANGUAGES
from musicgen.languages.song import Read, Song
from musicgen.midi.pop909 import is_annotated
from musicgen.midi.read import MAX_BYTES, read_bytes
from musicgen.request import Reading
from musicgen.subprocess_call import SECONDS, subprocess_map

AUTO = "auto"


def find_songs(
    folder: Path, layout: str = AUTO, source: str = AUTO, tokens: str | None = None
) -> tuple[Language, Found]:
    """The language that a folder is prepared in, and its songs.

    Args:
        folder: The input folder.
        layout: A layout of some language, or `auto`.
        source: What a language calls its files (`Language.source`), or `auto` for the first language that recognises
            the folder, or else the first that takes any folder.
        tokens: The vocabulary, `paper` or `extended`; None for the first that there is.

    Raises:
        UserError: No language finds songs in it, or it has no such vocabulary.
    """
    check_folder("input", folder, "give a folder of MIDI files")
    if source not in sources():
        raise UserError(f"source={source}: takes one of {', '.join([*sources(), *synthetic_sources()])}")
    known = dict.fromkeys(name for language in languages() for name in language.layouts)
    if layout != AUTO and layout not in known:
        raise UserError(f"layout={layout}: choose from {AUTO}, {', '.join(known)}")
    for language in languages():
        if source not in (AUTO, language.source) or layout not in (AUTO, *language.layouts):
            continue
        found = language.find(folder, layout, source == language.source)
        if found is not None:
            return in_tokens(language, tokens), found
    wanted = "MIDI files (*.mid, *.midi, *.kar)" if layout == AUTO else f"songs in the layout {layout}"
    raise UserError(f"input={folder}: no {wanted} in it")


def read_file(language: Language, folder: str, path: str, layout: str, facts: Any, reading: Reading = PLAINLY) -> Read:
    """Read a file. Runs in a child process."""
    file = Path(folder) / path
    digest = hashlib.sha256(read_bytes(file)).hexdigest()
    score, done = bring_in(language.load(Path(folder), path, layout), reading, is_annotated(file))
    if UNCLEAR in done:
        raise UserError("live playing without a clear beat (grid=file takes the grid of the file)")
    return language.read(language.complete(score), path, digest, layout, facts)._replace(done=tuple(done))


def read_files(
    language: Language, folder: Path, found: Found, workers: int, reading: Reading = PLAINLY
) -> Iterator[Read | Song]:
    """The files of a folder, in order. A file that cannot be used becomes a record that says why."""
    calls = [(language, str(folder), path, found.layout, found.facts.get(path), reading) for path in found.paths]
    for path, result in zip(found.paths, subprocess_map(read_file, calls, workers, SECONDS), strict=True):
        if isinstance(result, UserError):
            # The record has the relative path. The place of the input folder does not belong in the corpus.
            reason = str(result).replace(f"{folder}/", "").removeprefix(f"{path}: ")
            yield language.left_out(path, hash_source(folder / path), reason, found.facts.get(path))
        else:
            yield result


def compose_songs(language: Language, songs: int, bars: int, seed: int) -> Iterator[Read]:
    """Synthetic songs."""
    for number in range(songs):
        name, score, facts = language.compose(number, seed, bars)
        digest = hashlib.sha256(f"{name}/{bars}".encode()).hexdigest()
        yield language.read(score, name, digest, "synthetic", facts)


def gather(
    language: Language,
    results: Iterable[Read | Song],
    seed: int,
    lists: Mapping[str, str] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Corpus:
    """Gather songs into a corpus, in memory.

    Args:
        language: The language of the songs.
        results: Songs, and records of files that cannot be used.
        seed: Draws the splits.
        lists: The split of each song by path, if the user chose it. Songs in no list are left out.
        about: What the corpus says about itself.

    Raises:
        UserError: The lists cannot be kept.
    """
    results = list(results)
    placements = iter(language.assign([item for item in results if isinstance(item, Read)], seed, lists))
    index: list[Song] = []
    kept: list[Any] = [np.empty(0, language.dtype)]
    offset = 0
    for result in results:
        if isinstance(result, Song):
            index.append(result)
            continue
        place = next(placements)
        song = replace(result.song, split=place.split, dropped=place.dropped, **place.fields)
        if place.split is None:
            nothing: dict[str, Any] = {song.counted: 0}
            index.append(replace(song, **nothing))
            continue
        index.append(replace(song, offset=offset))
        kept.append(result.rows)
        offset += len(result.rows)
    done = Counter(name for item in results if isinstance(item, Read) for name in item.done)
    facts = {"format": FORMAT, "seed": seed, **(about or {})}
    if done:
        facts["files_with"] = dict(sorted(done.items()))
    return Corpus(np.concatenate(kept), tuple(index), language, facts)


def in_tokens(language: Language, tokens: str | None) -> Language:
    """The language of the same files that makes corpora in some vocabulary.

    Raises:
        UserError: There is none.
    """
    same = [item for item in languages() if item.source == language.source]
    found = next((item for item in same if tokens in (None, item.variant)), None)
    if found is not None:
        return found
    if any(item.variant == tokens and item.reads(language) for item in LANGUAGES.values()):
        return language  # its corpora do not depend on the vocabulary
    known = " and ".join(item.variant for item in same)
    raise UserError(f"tokens={tokens}: {language.title} can be prepared with {known} tokens only")


def synthetic_corpus(
    source: str, songs: int, bars: int, seed: int, progress: Any = None, tokens: str | None = None
) -> Corpus:
    """A corpus of synthetic songs, by the name that a language gives them.

    Raises:
        UserError: No language has such songs.
    """
    language = next((item for item in languages() if item.synthetic == source and source), None)
    if language is None:
        raise UserError(f"source={source}: choose from {', '.join(synthetic_sources())}")
    language = in_tokens(language, tokens)
    composed: Iterable[Read] = compose_songs(language, songs, bars, seed)
    if progress is not None:
        composed = progress(composed, songs)
    return gather(language, composed, seed, about={"source": source, "songs": songs, "bars": bars})


def languages() -> list[Language]:
    """The languages that make corpora; others read theirs."""
    return [language for language in LANGUAGES.values() if not language.corpora]


def sources() -> list[str]:
    """What `source=` may be for a folder."""
    return [AUTO, *dict.fromkeys(language.source for language in languages())]


def synthetic_sources() -> list[str]:
    """What `source=` may be for music composed by the program."""
    return list(dict.fromkeys(language.synthetic for language in languages() if language.synthetic))


def hash_source(path: Path) -> str | None:
    """The hash of a source file; None if it cannot be read, or is too large for music."""
    try:
        return hash_file(path, MAX_BYTES)
    except OSError:
        return None


def files_of_any_corpus() -> Sequence[str]:
    """The names of the arrays that corpora of the known languages have."""
    return [language.array for language in languages()]
