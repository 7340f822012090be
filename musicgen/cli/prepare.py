"""`musicgen prepare`: a folder of MIDI becomes a training corpus; or a corpus is checked.

The hard choice: the work shows itself as it goes, but nothing appears at the output folder before all of it is done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from musicgen.cli.compose import configure
from musicgen.cli.typed import build
from musicgen.errors import UserError

if TYPE_CHECKING:
    from musicgen.data.open import AnyCorpus

ABOUT = """\
usage: musicgen prepare input=DIR output=DIR [key=value ...]
       musicgen prepare source=synthetic output=DIR [songs=200 bars=32 seed=0]
       musicgen prepare verify=DIR [input=DIR]

Turns a folder of MIDI files into a training corpus: tokens.npy, index.jsonl (a line for every file, with the reason
if it was left out), tokenizer.json and a picture. POP909 and Pop1K7 are recognised; in any other folder every MIDI
file is a song. Files that are not in 4/4, have no notes or are broken are reported and left out.

Accompaniments become a corpus of grooves, with notes.npy. Groove2Groove, folders of which most files are called
FAMILY/STYLE.a.mid, and those with an index.tsv are recognised; source=groove takes any folder of MIDI files for one,
each of its folders for a family of styles.

keys:
  input=DIR      folder of MIDI files
  output=DIR     folder that becomes the corpus
  layout=NAME    auto (the default), pop909, pop1k7, groove2groove, styles or folder
  splits=DIR     folder with train.txt, valid.txt and test.txt, a path a line; otherwise 90, 5 and 5 % of songs, or
                 for valid and test each 10 % of the styles of grooves, at most 50
  seed=0         of the split (and of the composer)
  workers=N      processes; one for each core if not given
  overwrite=true replaces a corpus that is already there
  source=groove  the files are accompaniments, whatever they are called (pop_piano: they are not)
  source=synthetic songs=200 bars=32   pieces from the built-in composer, no input needed (or synthetic_grooves)
  verify=DIR     checks a corpus: hashes, grammar, splits, and with input=DIR the source files

example: musicgen prepare input=my_midi output=corpus
"""
T = TypeVar("T")


@dataclass(frozen=True)
class PrepareConfig:
    """What `conf/prepare.yaml` holds, key by key."""

    source: Literal["auto", "pop_piano", "groove", "synthetic", "synthetic_grooves"]
    input: Path | None
    output: Path | None
    layout: Literal["auto", "pop909", "pop1k7", "groove2groove", "styles", "folder"]
    splits: Path | None
    seed: int
    workers: int | None
    overwrite: bool
    songs: int
    bars: int
    verify: Path | None

    def __post_init__(self) -> None:
        for name in ("workers", "songs", "bars"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: takes a number from 1 on")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: takes a number from 0 on")


def run(arguments: list[str]) -> int:
    """Prepare, or verify."""
    composed = configure("prepare", ABOUT, arguments, paths=("input", "output", "splits", "verify"))
    if composed is None:
        return 0
    config = build(PrepareConfig, composed)
    if config.verify is not None:
        check(config.verify, config)
    else:
        prepare(config)
    return 0


def prepare(config: PrepareConfig) -> None:
    """Make the corpus and say what is in it."""
    from musicgen.data.groove_corpus import GrooveCorpus
    from musicgen.data.groove_prepare import write_grooves
    from musicgen.data.groove_summary import draw_grooves
    from musicgen.data.open import open_corpus
    from musicgen.data.prepare import write_corpus
    from musicgen.data.summary import PICTURE, draw_summary
    from musicgen.files import atomic_folder

    given = _required(config, "output")
    output = given.resolve()  # what comes to be there is another folder, even if we are in it
    check_output(given, output, config.overwrite)
    make = plan(config)
    with atomic_folder(output) as folder:
        corpus = make()
        if not corpus.songs():
            raise UserError(f"no song could be kept:\n{_summary(corpus)}")
        if isinstance(corpus, GrooveCorpus):
            write_grooves(corpus, folder)
            draw_grooves(corpus, folder / PICTURE)
        else:
            write_corpus(corpus, folder)
            draw_summary(corpus, folder / PICTURE)
    print(_summary(open_corpus(output)))
    print(f"\nthe corpus is in {given}; {given / PICTURE} shows it")


def plan(config: PrepareConfig) -> Callable[[], AnyCorpus]:
    """See what there is to do, and return what does it.

    Raises:
        UserError: Nothing can be done.
    """
    from musicgen.data.groove_prepare import compose_grooves, gather_grooves
    from musicgen.data.prepare import compose_songs, gather

    about = {"source": config.source, "songs": config.songs, "bars": config.bars}
    if config.source == "synthetic":
        songs = _progress(compose_songs(config.songs, config.bars, config.seed), config.songs)
        return partial(gather, songs, config.seed, None, about)
    if config.source == "synthetic_grooves":
        grooves = _progress(compose_grooves(config.songs, config.bars, config.seed), config.songs)
        return partial(gather_grooves, grooves, config.seed, None, about)
    return _plan_grooves(config) or _plan_songs(config)


def _plan_songs(config: PrepareConfig) -> Callable[[], AnyCorpus]:
    from musicgen.data.layouts import find_songs
    from musicgen.data.prepare import encode_files, gather
    from musicgen.data.split import read_lists

    source = _required(config, "input")
    layout, paths = find_songs(source, config.layout)
    lists = None if config.splits is None else read_lists(config.splits, paths)
    results = _progress(encode_files(source, paths, layout, min(_workers(config), len(paths))), len(paths))
    about = {"source": "pop_piano", "layout": layout, "given_splits": lists is not None}
    return partial(gather, results, config.seed, lists, about)


def _plan_grooves(config: PrepareConfig) -> Callable[[], AnyCorpus] | None:
    """None if the input is not, or is not to be, one of grooves."""
    from musicgen.data.groove_layouts import FOLDER, LAYOUTS, find_grooves, find_kin
    from musicgen.data.groove_prepare import gather_grooves, read_files
    from musicgen.data.split import read_lists

    if config.source == "pop_piano" or (config.source == "auto" and config.layout == FOLDER):
        return None
    source = _required(config, "input")
    found = find_grooves(source, config.layout)
    if found is None and config.source == "groove" and config.layout == "auto":
        found = find_grooves(source, FOLDER)
    if found is None:
        if config.source == "groove" or config.layout in LAYOUTS:
            wanted = "MIDI files" if config.layout == "auto" else f"grooves in the layout {config.layout}"
            raise UserError(f"input={source}: no {wanted} in it")
        return None
    layout, paths = found
    kin = find_kin(source, paths, layout)
    lists: dict[str, str] | None = {path: known.split for path, known in kin.items() if known.split is not None} or None
    if config.splits is not None:
        lists = read_lists(config.splits, paths)
    results = _progress(read_files(source, paths, layout, kin, min(_workers(config), len(paths))), len(paths))
    about = {"source": "groove", "layout": layout, "given_splits": lists is not None}
    unlisted = [path for path, known in kin.items() if not known.is_listed]
    if unlisted:
        about["unlisted"] = unlisted
    return partial(gather_grooves, results, config.seed, lists, about)


def _summary(corpus: AnyCorpus) -> str:
    from musicgen.data.groove_corpus import GrooveCorpus
    from musicgen.data.groove_summary import summarise_grooves
    from musicgen.data.summary import summarise

    return summarise_grooves(corpus) if isinstance(corpus, GrooveCorpus) else summarise(corpus)


def check_output(given: Path, output: Path, overwrite: bool) -> None:
    """See that nothing is at the output but, if it may be overwritten, a corpus and nothing else.

    Raises:
        UserError: Something is.
    """
    from musicgen.data.corpus import INDEX, MANIFEST, TOKENS
    from musicgen.data.groove_corpus import NOTES
    from musicgen.data.summary import PICTURE
    from musicgen.files import kind_of
    from musicgen.tokens.tokenizer import FILE

    kind = kind_of(output)
    if kind in ("file", "other"):
        raise UserError(f"output={given}: exists and is not a folder; choose another name")
    found = {path.name for path in output.iterdir()} if kind == "folder" else set()
    if found and (MANIFEST not in found or found - {MANIFEST, PICTURE, TOKENS, NOTES, INDEX, FILE}):
        raise UserError(f"output={given}: holds other things than a prepared corpus; choose another folder")
    if found and not overwrite:
        raise UserError(f"output={given}: holds a prepared corpus already; overwrite=true makes it anew")


def check(folder: Path, config: PrepareConfig) -> None:
    """Verify a corpus.

    Raises:
        UserError: Something is wrong with it.
    """
    from musicgen.data.open import open_corpus
    from musicgen.data.verify import verify

    problems = verify(folder, config.input, _workers(config), _progress)
    if problems:
        shown = "\n".join(f"  {problem}" for problem in problems[:20])
        more = f"\n  and {len(problems) - 20:,} more" if len(problems) > 20 else ""
        raise UserError(f"verify={folder}: the corpus is not sound, prepare it again:\n{shown}{more}")
    corpus = open_corpus(folder)
    source = " source files," if config.input is not None else ""
    print(f"{folder}: {len(corpus.songs()):,} songs are as they were prepared (hashes,{source} grammar, splits)")


def _workers(config: PrepareConfig) -> int:
    return config.workers or os.cpu_count() or 1


def _required(config: PrepareConfig, name: str) -> Path:
    value: Path | None = getattr(config, name)
    if value is None:
        raise UserError(f"{name} is missing: write {name}=DIR (see `musicgen prepare --help`)")
    return value


def _progress(items: Iterable[T], total: int) -> Iterable[T]:
    from tqdm import tqdm

    bar: Iterable[T] = tqdm(items, total=total, unit="song", disable=None)  # none where nobody watches
    return bar
