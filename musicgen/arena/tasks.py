"""The tasks by name: where the data of each come from, and how long their sequences are."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from musicgen.arena import listops
from musicgen.arena.dataset import SPLITS, About, Dataset
from musicgen.arena.image import SIDE, load_image
from musicgen.arena.retrieval import load_retrieval
from musicgen.arena.sources import Say, columns, note_count
from musicgen.arena.text import load_text
from musicgen.errors import UserError

LISTOPS_FILES = {"train": "basic_train.tsv", "valid": "basic_val.tsv", "test": "basic_test.tsv"}


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        about: What it is, in a line.
        load: Reads the public files in a folder, with a seed for splits.
        counts: Examples of train, valid and test that are generated if no files are given; None if it needs files.
    """

    about: str
    load: Callable[[Path, int, Say], Dataset]
    counts: tuple[int, int, int] | None = None


def about(name: str, source: str = "") -> About:
    """What a task is."""
    if name.startswith("listops"):
        return About(name, len(listops.TOKENS), 10, None, source)
    sides = {"image": SIDE, "image16": SIDE // 2}
    return About(name, 256, 10 if name in sides else 2, sides.get(name), source)


def generate_listops(name: str, counts: tuple[int, int, int], seed: int) -> Dataset:
    """ListOps by its rules."""
    train, valid, test = counts
    drawn = list(itertools.islice(listops.expressions(listops.RULES[name], seed), test + valid + train))
    numbered = [((place,), value) for place, (_, value) in enumerate(drawn)]
    examples = {"test": numbered[:test], "valid": numbered[test : test + valid], "train": numbered[test + valid :]}
    source = f"generated with seed {seed}"
    return Dataset.gather(about(name, source), [tokens for tokens, _ in drawn], examples)


def load_listops(folder: Path, seed: int, say: Say, name: str) -> Dataset:  # noqa: ARG001 - the splits are given
    """The published TSV files of ListOps."""
    sequences: list[bytes] = []
    examples: dict[str, list[tuple[tuple[int, ...], int]]] = {}
    for split in SPLITS:
        path = folder / LISTOPS_FILES[split]
        if not path.is_file():
            raise UserError(f"{path}: there is no such file; ListOps needs none, leave out input= to generate it")
        examples[split] = []
        for number, (source, target) in columns(path, 2):
            if (number, source) == (1, "Source"):
                continue
            try:
                tokens = listops.parse(source)
                if listops.value(tokens) != int(target):
                    raise ValueError(f"its value is {listops.value(tokens)}, not {target}")  # noqa: TRY301
            except ValueError as error:
                raise UserError(f"{path}, line {number}: not an expression and its value ({error})") from None
            examples[split].append(((len(sequences),), int(target)))
            sequences.append(tokens)
        note_count(f"expressions in {split}", len(examples[split]), 96_000 if split == "train" else 2_000, say)
    return Dataset.gather(about(name, "published expressions"), sequences, examples)


def _listops(name: str, about: str, *counts: int) -> Task:
    train, valid, test = counts
    return Task(about, functools.partial(load_listops, name=name), (train, valid, test))


TASKS = {
    "listops_tiny": _listops("listops_tiny", "values of nested lists, 16 to 63 tokens", 20_000, 2_000, 2_000),
    "listops": _listops("listops", "values of nested lists, 32 to 255 tokens", 20_000, 2_000, 2_000),
    "listops_paper": _listops("listops_paper", "values of nested lists, 501 to 1,999 tokens", 96_000, 2_000, 2_000),
    "text": Task("is a film review positive? Bytes", load_text),
    "retrieval": Task("does one paper cite the other? Bytes of both", load_retrieval),
    "image": Task("the class of an image, 32 × 32 grey pixels", load_image),
    "image16": Task("the class of an image, 16 × 16 grey pixels", functools.partial(load_image, side=16)),
}


def load(
    name: str, folder: Path | None, counts: tuple[int | None, int | None, int | None], seed: int, say: Say
) -> Dataset:
    """The data of a task, from public files or generated.

    Args:
        name: The task.
        folder: The files; None to generate.
        counts: Examples of train, valid and test to generate; None for as many as the task has.
        seed: Of what is generated, and of splits that are not given.
        say: Prints notes.

    Raises:
        UserError: The task needs files, or they cannot be used.
    """
    task = TASKS[name]
    if folder is not None:
        if not folder.is_dir():
            raise UserError(f"{folder}: there is no such folder")
        return task.load(folder, seed, say)
    if task.counts is None:
        raise UserError(f"task={name}: needs files; `musicgen arena prepare task={name} input=DIR out=DIR` reads them")
    train, valid, test = (given or own for given, own in zip(counts, task.counts, strict=True))
    return generate_listops(name, (train, valid, test), seed)
