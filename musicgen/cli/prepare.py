"""`musicgen prepare`: a folder of MIDI becomes a training corpus; or a corpus is checked.

The hard choice: the work shows itself as it goes, but nothing appears at the output folder before all of it is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from musicgen.cli.compose import configure
from musicgen.cli.typed import build
from musicgen.errors import UserError

if TYPE_CHECKING:
    from musicgen.data.corpus import Song
    from musicgen.data.prepare import Encoded

ABOUT = """\
usage: musicgen prepare input=DIR output=DIR [key=value ...]
       musicgen prepare source=synthetic output=DIR [songs=200 bars=32 seed=0]
       musicgen prepare verify=DIR [input=DIR]

Turns a folder of MIDI files into a training corpus: tokens.npy, index.jsonl (a line for every file, with the reason
if it was left out), tokenizer.json and a picture. POP909 and Pop1K7 are recognised; in any other folder every MIDI
file is a song. Files that are not in 4/4, have no notes or are broken are reported and left out.

keys:
  input=DIR      folder of MIDI files
  output=DIR     folder that becomes the corpus
  layout=NAME    auto (the default), pop909, pop1k7 or folder
  splits=DIR     folder with train.txt, valid.txt and test.txt, a path a line; otherwise 90, 5 and 5 % of songs
  seed=0         of the split (and of the composer)
  workers=N      processes; one for each core if not given
  overwrite=true replaces a corpus that is already there
  source=synthetic songs=200 bars=32   pieces from the built-in composer, no input needed
  verify=DIR     checks a corpus: hashes, grammar, splits, and with input=DIR the source files

example: musicgen prepare input=my_midi output=corpus
"""
T = TypeVar("T")


@dataclass(frozen=True)
class PrepareConfig:
    """What `conf/prepare.yaml` holds, key by key."""

    source: Literal["pop_piano", "synthetic"]
    input: Path | None
    output: Path | None
    layout: Literal["auto", "pop909", "pop1k7", "folder"]
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
    from musicgen.data.corpus import Corpus
    from musicgen.data.layouts import find_songs
    from musicgen.data.prepare import compose_songs, encode_files, gather, write_corpus
    from musicgen.data.split import read_lists
    from musicgen.data.summary import PICTURE, draw_summary, summarise
    from musicgen.files import atomic_folder

    given = _required(config, "output")
    output = given.resolve()  # what comes to be there is another folder, even if we are in it
    check_output(given, output, config.overwrite)
    about: dict[str, Any] = {"source": config.source}
    lists: dict[str, str] | None = None
    if config.source == "synthetic":
        about |= {"songs": config.songs, "bars": config.bars}
        results: Iterable[Encoded | Song] = compose_songs(config.songs, config.bars, config.seed)
        total = config.songs
    else:
        source = _required(config, "input")
        layout, paths = find_songs(source, config.layout)
        lists = None if config.splits is None else read_lists(config.splits, paths)
        about |= {"layout": layout, "given_splits": lists is not None}
        results = encode_files(source, paths, layout, min(_workers(config), len(paths)))
        total = len(paths)
    with atomic_folder(output) as folder:
        corpus = gather(_progress(results, total), config.seed, lists, about)
        if not corpus.songs():
            raise UserError(f"no song could be kept:\n{summarise(corpus)}")
        write_corpus(corpus, folder)
        draw_summary(corpus, folder / PICTURE)
    print(summarise(Corpus.open(output)))
    print(f"\nthe corpus is in {given}; {given / PICTURE} shows it")


def check_output(given: Path, output: Path, overwrite: bool) -> None:
    """See that nothing is at the output but, if it may be overwritten, a corpus and nothing else.

    Raises:
        UserError: Something is.
    """
    from musicgen.data.corpus import HASHED, MANIFEST
    from musicgen.data.summary import PICTURE
    from musicgen.files import kind_of

    kind = kind_of(output)
    if kind in ("file", "other"):
        raise UserError(f"output={given}: exists and is not a folder; choose another name")
    found = {path.name for path in output.iterdir()} if kind == "folder" else set()
    if found and (MANIFEST not in found or found - {MANIFEST, PICTURE, *HASHED}):
        raise UserError(f"output={given}: holds other things than a prepared corpus; choose another folder")
    if found and not overwrite:
        raise UserError(f"output={given}: holds a prepared corpus already; overwrite=true makes it anew")


def check(folder: Path, config: PrepareConfig) -> None:
    """Verify a corpus.

    Raises:
        UserError: Something is wrong with it.
    """
    from musicgen.data.corpus import Corpus
    from musicgen.data.verify import verify

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
        raise UserError(f"{name} is missing: write {name}=DIR (see `musicgen prepare --help`)")
    return value


def _progress(items: Iterable[T], total: int) -> Iterable[T]:
    from tqdm import tqdm

    bar: Iterable[T] = tqdm(items, total=total, unit="song", disable=None)  # none where nobody watches
    return bar
