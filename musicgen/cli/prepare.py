"""`musicgen prepare`: a folder of MIDI becomes a training corpus; or a corpus is checked.

The hard choice: the work shows itself as it goes, but nothing appears at the output folder before all of it is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from musicgen.cli.compose import configure
from musicgen.errors import UserError

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
SOURCES = ("pop_piano", "synthetic")
T = TypeVar("T")


@dataclass(frozen=True)
class PrepareConfig:
    """What `conf/prepare.yaml` holds."""

    source: str
    input: Path | None
    output: Path | None
    layout: str
    splits: Path | None
    seed: int
    workers: int
    overwrite: bool
    songs: int
    bars: int
    verify: Path | None

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PrepareConfig:
        """Check what was given.

        Raises:
            UserError: A value that a key cannot take.
        """
        checked = dict(values)
        checked["workers"] = os.cpu_count() or 1 if values["workers"] is None else values["workers"]
        for item in fields(cls):
            value = checked[item.name]
            if item.type == "Path | None":
                checked[item.name] = None if value in (None, "") else Path(str(value)).expanduser()
            elif item.type == "int" and (not isinstance(value, int) or isinstance(value, bool)):
                raise UserError(f"{item.name}={value}: takes a whole number")
            elif item.type == "bool" and not isinstance(value, bool):
                raise UserError(f"{item.name}={value}: takes true or false")
        config = cls(**checked)
        for name in ("workers", "songs", "bars"):
            if getattr(config, name) < 1:
                raise UserError(f"{name}={getattr(config, name)}: takes a number from 1 on")
        if config.source not in SOURCES:
            raise UserError(f"source={config.source}: choose from {', '.join(SOURCES)}")
        return config


def run(arguments: list[str]) -> int:
    """Prepare, or verify."""
    composed = configure("prepare", ABOUT, arguments, paths=("input", "output", "splits", "verify"))
    if composed is None:
        return 0
    config = PrepareConfig.from_dict(composed)
    if config.verify is not None:
        check(config.verify, config)
    else:
        prepare(config)
    return 0


def prepare(config: PrepareConfig) -> None:
    """Make the corpus and say what is in it."""
    from musicgen.data.corpus import MANIFEST, Corpus
    from musicgen.data.layouts import find_songs
    from musicgen.data.prepare import compose_songs, encode_files, gather, write_corpus
    from musicgen.data.split import read_lists
    from musicgen.data.summary import PICTURE, draw_summary, summarise
    from musicgen.files import atomic_folder

    output = _required(config, "output")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        if not (output / MANIFEST).is_file():
            raise UserError(f"output={output}: holds something else than a prepared corpus; choose another folder")
        if not config.overwrite:
            raise UserError(f"output={output}: holds a prepared corpus already; overwrite=true makes it anew")
    about: dict[str, Any] = {"source": config.source}
    lists: dict[str, str] | None = None
    with atomic_folder(output) as folder:
        if config.source == "synthetic":
            about |= {"songs": config.songs, "bars": config.bars}
            corpus = gather(
                _progress(compose_songs(config.songs, config.bars, config.seed), config.songs), config.seed, None, about
            )
        else:
            source = _required(config, "input")
            layout, paths = find_songs(source, config.layout)
            lists = None if config.splits is None else read_lists(config.splits, paths)
            about |= {"layout": layout, "given_splits": lists is not None}
            results = encode_files(source, paths, layout, min(config.workers, len(paths)))
            corpus = gather(_progress(results, len(paths)), config.seed, lists, about)
        if not corpus.songs():
            raise UserError(f"no song could be kept:\n{summarise(corpus)}")
        write_corpus(corpus, folder)
        draw_summary(corpus, folder / PICTURE)
    print(summarise(Corpus.open(output)))
    print(f"\nthe corpus is in {output}; {output / PICTURE} shows it")


def check(folder: Path, config: PrepareConfig) -> None:
    """Verify a corpus.

    Raises:
        UserError: Something is wrong with it.
    """
    from musicgen.data.corpus import Corpus
    from musicgen.data.verify import verify

    problems = verify(folder, config.input, config.workers, _progress)
    if problems:
        shown = "\n".join(f"  {problem}" for problem in problems[:20])
        more = f"\n  and {len(problems) - 20:,} more" if len(problems) > 20 else ""
        raise UserError(f"verify={folder}: the corpus is not sound, prepare it again:\n{shown}{more}")
    corpus = Corpus.open(folder)
    source = " source files," if config.input is not None else ""
    print(f"{folder}: {len(corpus.songs()):,} songs are as they were prepared (hashes,{source} grammar, splits)")


def _required(config: PrepareConfig, name: str) -> Path:
    value: Path | None = getattr(config, name)
    if value is None:
        raise UserError(f"{name} is missing: write {name}=DIR (see `musicgen prepare --help`)")
    return value


def _progress(items: Iterable[T], total: int) -> Iterable[T]:
    from tqdm import tqdm

    bar: Iterable[T] = tqdm(items, total=total, unit="song", disable=None)  # none where nobody watches
    return bar
