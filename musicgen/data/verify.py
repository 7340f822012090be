"""Whether a prepared corpus is what it says it is.

The hard choice: nothing that the corpus says of itself is believed. Hashes are taken again, every song is held
against the grammar, and copies are looked for again in the tokens; of grooves, every note is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from musicgen.data.corpus import INDEX, TOKENS, Corpus, Song
from musicgen.data.duplicates import Sketch, group_songs, sketch
from musicgen.data.groove_corpus import NOTES, GrooveCorpus
from musicgen.data.groove_verify import check_grooves
from musicgen.data.open import open_corpus
from musicgen.data.prepare import hash_source
from musicgen.data.split import SPLITS
from musicgen.errors import UserError
from musicgen.guard import guarded_map
from musicgen.tokens import Remi, Tokens
from musicgen.tokens.tokenizer import FILE as TOKENIZER

Check = tuple[str, Sketch] | UserError
Progress = Callable[[Iterable[Check], int], Iterable[Check]]


def verify(
    folder: Path,
    source: Path | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[str]:
    """All that is wrong with a corpus, in sentences; none if it is whole.

    Args:
        folder: The corpus.
        source: The folder it was made from, if its files are to be hashed too.
        workers: Processes that check songs.
        progress: Wraps the songs as they are checked, to show how far it is.

    Raises:
        UserError: It cannot be opened at all.
    """
    corpus = open_corpus(folder)
    music = NOTES if isinstance(corpus, GrooveCorpus) else TOKENS
    hashes = corpus.about.get("sha256")
    problems = [
        f"{folder / name}: changed since it was prepared"
        for name in (music, INDEX, TOKENIZER)
        if not isinstance(hashes, dict) or hash_source(folder / name) != hashes.get(name)
    ]
    if isinstance(corpus, GrooveCorpus):
        problems += check_grooves(corpus)
    else:
        problems += _check_songs(corpus, workers, progress)
    if source is not None:
        problems += [
            f"{source / song.path}: missing, or changed since the corpus was prepared"
            for song in corpus.index
            if hash_source(source / song.path) != song.sha256
        ]
    return problems


def _check_songs(corpus: Corpus, workers: int, progress: Progress | None) -> Iterator[str]:
    """Songs must fill the array, follow the grammar, and be in one split with their copies."""
    yield from _check_places(corpus)
    songs = corpus.songs()
    checks: Iterable[Check] = guarded_map(check_song, ((corpus[song],) for song in songs), workers)
    if progress is not None:
        checks = progress(checks, len(songs))
    sketches: dict[str, Sketch] = {}
    for song, check in zip(songs, checks, strict=True):
        if isinstance(check, UserError):
            yield f"{song.path}: {check}"
            continue
        sentence, sketches[song.path] = check
        if sentence:
            yield f"{song.path}: {sentence}"
    yield from _check_splits(songs, sketches)


def check_song(tokens: Tokens) -> tuple[str, Sketch]:
    """What is wrong with a song's grammar (nothing: ""), and its sketch. Runs in a child process."""
    language = Remi()
    errors = language.grammar.errors(tokens)
    sentence = f"token {errors[0].place}: {errors[0].sentence}" if errors else ""
    return sentence, sketch(language.decode(tokens))


def _check_places(corpus: Corpus) -> Iterator[str]:
    """Songs must fill the array, one after the other."""
    expected = 0
    for song in corpus.songs():
        if song.offset != expected:
            yield f"{song.path}: at token {song.offset}, where {expected} was expected"
        expected = song.offset + song.tokens


def _check_splits(songs: tuple[Song, ...], sketches: dict[str, Sketch]) -> Iterator[str]:
    """Every split must be known, and copies must be in one of them."""
    yield from (f"{song.path}: unknown split {song.split!r}" for song in songs if song.split not in SPLITS)
    whole = [song for song in songs if song.path in sketches]
    groups = group_songs([sketches[song.path] for song in whole])
    for song, group in zip(whole, groups, strict=True):
        if song.split != whole[group].split:
            yield f"{song.path} ({song.split}): the same song as {whole[group].path} ({whole[group].split})"
