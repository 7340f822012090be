"""`musicgen prepare`: turns a folder of MIDI files into a training corpus, or checks a corpus.

Design note: the output folder appears only when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from musicgen.cli.command import Command
from musicgen.cli.setup import progress
from musicgen.errors import UserError
from musicgen.files import check_folder, check_output, strangers
from musicgen.inputs import is_document
from musicgen.options import missing, option
from musicgen.request import Reading

if TYPE_CHECKING:
    from musicgen.data.corpus import Corpus

ABOUT = """\
usage: musicgen prepare input=DIR out=DIR [key=value ...]
       musicgen prepare source=synthetic out=DIR [songs=200 bars=32 seed=0]
       musicgen prepare verify=DIR [input=DIR]

Turns a folder of MIDI files into a training corpus: tokens.npy, index.jsonl (a line for each file, with the reason if
it was left out), tokenizer.json and a picture. POP909 and Pop1K7 are recognised; in other folders each MIDI file is a
song. Files without notes, in a metre that no token says, or broken are left out and reported.

Accompaniments become a corpus of grooves, with notes.npy. Groove2Groove, folders in which most files are called
FAMILY/STYLE.a.mid, and folders with an index.tsv are recognised. source=groove reads any folder of MIDI files as
grooves, and each folder in it as a family of styles.

{keys}

example: musicgen prepare input=my_midi out=corpus
"""


@dataclass(frozen=True)
class _First:
    """What help shows first."""

    input: Path | None = option(like="DIR", help="folder of MIDI files")
    out: Path | None = option(like="DIR", aliases=("output",), help="folder that becomes the corpus")
    source: str = option(
        "auto",
        help="what the files are: pop_piano or groove; auto recognises the folder. synthetic and synthetic_grooves "
        "compose songs and need no input",
    )
    layout: str = option(
        "auto", help="how the input folder is laid out: auto, pop909, pop1k7, groove2groove, styles or folder"
    )
    tokens: Literal["paper", "extended"] | None = option(
        help="vocabulary of pop piano: extended (if not given) has any common metre, triplets, long notes and all "
        "velocities; paper is that of the paper's models, in 4/4. A corpus of grooves has both"
    )
    splits: Path | None = option(
        like="DIR",
        help="folder with train.txt, valid.txt and test.txt, one path a line; if not given, valid and test get 5 % of "
        "the songs each, or 10 % of the styles of grooves, at most 50",
    )


@dataclass(frozen=True)
class PrepareConfig(Reading, _First):
    """The options of `musicgen prepare`."""

    seed: int = option(0, least=0, help="seed of the split, and of composed songs")
    workers: int | None = option(least=1, help="processes that read files; one for each core if not given")
    overwrite: bool = option(False, help="true replaces a corpus that is in the folder")
    songs: int = option(200, least=1, help="how many songs to compose (synthetic)")
    bars: int = option(32, least=1, help="bars of each composed song (synthetic)")
    verify: Path | None = option(
        like="DIR", help="checks this corpus: hashes, grammar and splits, and with input=DIR the source files"
    )


def run_prepare(config: PrepareConfig) -> None:
    """Prepare a corpus, or verify one."""
    if config.verify is not None:
        check(config.verify, config)
    else:
        prepare(config)


def prepare(config: PrepareConfig) -> None:
    """Make the corpus and print what is in it."""
    from musicgen.data.corpus import Corpus
    from musicgen.data.summary import PICTURE, draw_summary, summarise
    from musicgen.files import atomic_folder

    given = _required(config, "out")
    output = given.resolve()  # the folder is replaced, even if it is the working folder
    check_output(given, "a prepared corpus", _foreign, may_replace=config.overwrite, as_one=True)
    make = plan(config)
    with atomic_folder(output, _foreign if config.overwrite else None) as folder:
        corpus = make()
        if not corpus.songs():
            raise UserError(f"no song could be kept:\n{summarise(corpus)}")
        corpus.write(folder)
        draw_summary(corpus, folder / PICTURE)
        told = summarise(Corpus.open(folder))  # as a reader would, before it takes its place
    print(told)
    print(f"\nthe corpus is in {given}; {given / PICTURE} shows it")


def plan(config: PrepareConfig) -> Callable[[], Corpus]:
    """Find what there is to prepare, and return the function that does it.

    Raises:
        UserError: There is nothing to prepare.
    """
    from musicgen.data.prepare import find_songs, gather, read_files, synthetic_corpus, synthetic_sources
    from musicgen.languages.split import read_lists

    if config.source in synthetic_sources():
        if config.input is not None:
            raise UserError(f"input={config.input} and source={config.source}: leave out one of them")
        composed = (config.source, config.songs, config.bars, config.seed, _progress, config.tokens)
        return partial(synthetic_corpus, *composed)
    source = _required(config, "input")
    language, found = find_songs(source, config.layout, config.source, config.tokens)
    lists = found.lists if config.splits is None else read_lists(config.splits, found.paths)
    reading = Reading(**{field.name: getattr(config, field.name) for field in fields(Reading)})
    workers = min(_workers(config), len(found.paths))
    results = _progress(read_files(language, source, found, workers, reading), len(found.paths))
    about = {"source": language.source, "layout": found.layout, "given_splits": lists is not None, **found.about}
    return partial(gather, language, results, config.seed, lists, about)


def _foreign(out: Path) -> list[str]:
    """Names in a folder that are not part of a prepared corpus."""
    from musicgen.data.corpus import INDEX, MANIFEST, RECORD
    from musicgen.data.prepare import files_of_any_corpus
    from musicgen.data.summary import PICTURE
    from musicgen.languages.registry import FILE

    names = {MANIFEST, PICTURE, INDEX, FILE, *files_of_any_corpus()}
    ours = names if is_document(out / MANIFEST, {**RECORD, "sha256": dict}) else set()
    return strangers(out, lambda path: path.name in ours)


def check(folder: Path, config: PrepareConfig) -> None:
    """Verify a corpus.

    Raises:
        UserError: The corpus is damaged.
    """
    from musicgen.data.corpus import Corpus
    from musicgen.data.verify import verify

    if config.input is not None:
        check_folder("input", config.input, "give the folder of the source files")
    problems = verify(folder, config.input, _workers(config), _progress)
    if problems:
        shown = "\n".join(f"  {problem}" for problem in problems[:20])
        more = f"\n  and {len(problems) - 20:,} more" if len(problems) > 20 else ""
        raise UserError(f"verify={folder}: the corpus is not sound, prepare it again:\n{shown}{more}")
    corpus = Corpus.open(folder)
    source = " source files," if config.input is not None else ""
    print(f"{folder}: {len(corpus.songs()):,} songs are as they were prepared (hashes,{source} grammar, splits)")


def _workers(config: PrepareConfig) -> int:
    return config.workers or os.cpu_count() or 1


def _required(config: PrepareConfig, name: str) -> Path:
    value: Path | None = getattr(config, name)
    if value is None:
        raise missing(PrepareConfig, name, "prepare")
    return value


_progress = partial(progress, unit="song")


run = Command("prepare", ABOUT, PrepareConfig, run_prepare)
