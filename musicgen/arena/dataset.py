"""A task's sequences and examples, in memory and as a folder.

    task.json     what the task is, how many examples each split has, where they come from
    tokens.npy    all sequences, one after the other, a byte for each token
    starts.npy    where each begins, and where the last ends
    splits.npz    for each split the sequences of each example, `(examples, 1 or 2)`, and their labels

Design note: an example names its sequences. So a paper that is in a hundred pairs is stored once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.files import atomic_folder, strangers
from musicgen.inputs import MAX_DOCUMENT, open_regular, read_document

SPLITS = ("train", "valid", "test")
RECORD = {"arena": {"task": str, "tokens": int, "classes": int, "side": (int, None), "source": str}, "counts": dict}
"""The shape of `task.json`, which marks a folder as the data of a task."""
FILES = ("task.json", "tokens.npy", "starts.npy", "splits.npz")
LARGEST = 16 << 30


@dataclass(frozen=True)
class About:
    """What a task is.

    Attributes:
        task: Its name.
        tokens: Number of different tokens, without padding.
        classes: Number of classes.
        side: The side of an image; None if a sequence is no image.
        source: Where the examples come from, in words.
    """

    task: str
    tokens: int
    classes: int
    side: int | None
    source: str


@dataclass(frozen=True)
class Split:
    """Examples.

    Attributes:
        sequences: The sequences of each, `(examples, 1)`, or `(examples, 2)` for pairs.
        labels: `(examples,)`.
    """

    sequences: NDArray[np.int64]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


class Dataset:
    """The data of a task.

    Args:
        about: What the task is.
        tokens: All sequences, one after the other.
        starts: Where each begins, and where the last ends.
        splits: The examples of each split.
    """

    def __init__(
        self, about: About, tokens: NDArray[np.uint8], starts: NDArray[np.int64], splits: Mapping[str, Split]
    ) -> None:
        self.about, self.tokens, self.starts, self.splits = about, tokens, starts, dict(splits)

    @classmethod
    def gather(
        cls, about: About, sequences: Sequence[bytes], examples: Mapping[str, Sequence[tuple[tuple[int, ...], int]]]
    ) -> Dataset:
        """The data of sequences and of examples: the numbers of their sequences, and their class.

        Raises:
            UserError: A split has no examples, or the training examples are all of one class.
        """
        for name in SPLITS:
            if not examples[name]:
                raise UserError(f"{about.source}: there are no examples for the split {name!r}")
        splits = {
            name: Split(
                np.array([numbers for numbers, _ in examples[name]], np.int64),
                np.array([label for _, label in examples[name]], np.int64),
            )
            for name in SPLITS
        }
        if len(set(splits["train"].labels.tolist())) < 2:
            raise UserError(f"{about.source}: all training examples are of one class")
        tokens = np.frombuffer(b"".join(sequences), np.uint8)
        starts = np.concatenate([[0], np.cumsum([len(sequence) for sequence in sequences])]).astype(np.int64)
        return cls(about, tokens, starts, splits)

    @property
    def is_paired(self) -> bool:
        """Whether an example is a pair of sequences."""
        return self.splits["train"].sequences.shape[1] == 2

    def sequence(self, number: int, length: int | None = None) -> NDArray[np.uint8]:
        """The tokens of a sequence, at most `length` of them."""
        first, end = int(self.starts[number]), int(self.starts[number + 1])
        return self.tokens[first : end if length is None else min(end, first + length)]

    @property
    def fingerprint(self) -> str:
        """A hash of everything: equal data have equal ones."""
        digest = hashlib.sha256(json.dumps(dataclasses.asdict(self.about) | {"source": ""}).encode())
        for array in (self.tokens, self.starts, *self._arrays().values()):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _arrays(self) -> dict[str, NDArray[np.int64]]:
        return {
            f"{name}_{part}": getattr(split, part)
            for name, split in self.splits.items()
            for part in ("sequences", "labels")
        }

    def write(self, folder: Path) -> None:
        """Write a folder, or replace one that holds the data of a task and nothing else."""
        counts = {name: len(split) for name, split in self.splits.items()}
        record = {"arena": dataclasses.asdict(self.about), "counts": counts, "sha256": self.fingerprint}
        with atomic_folder(folder, foreign_to_dataset) as staging:
            np.save(staging / "tokens.npy", self.tokens)
            np.save(staging / "starts.npy", self.starts)
            np.savez(staging / "splits.npz", **self._arrays())  # type: ignore[arg-type]
            (staging / "task.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> Dataset:
        """The data in a folder.

        Raises:
            UserError: It is not such a folder, or is damaged.
        """
        advice = "`musicgen arena prepare` makes such a folder"
        record = read_document(folder / "task.json", RECORD, advice)
        about = About(**{field.name: record["arena"][field.name] for field in dataclasses.fields(About)})
        try:
            tokens, starts = (_array(folder / name) for name in ("tokens.npy", "starts.npy"))
            arrays = _arrays(folder / "splits.npz")
            splits = {name: Split(arrays[f"{name}_sequences"], arrays[f"{name}_labels"]) for name in SPLITS}
            _check(about, tokens, starts, splits)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"{folder}: not the data of a task, or damaged ({reason}); {advice}") from None
        return cls(about, tokens, starts, splits)


def foreign_to_dataset(folder: Path) -> list[str]:
    """Names in a folder that `Dataset.write` did not make."""
    return strangers(folder, lambda path: path.name in FILES)


def _array(path: Path) -> NDArray[Any]:
    with open_regular(path, LARGEST):
        pass  # no pipe and no device is mapped
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with open_regular(path, 64 * MAX_DOCUMENT) as file, np.load(io.BytesIO(file.read()), allow_pickle=False) as arrays:
        return dict(arrays)


def _check(about: About, tokens: NDArray[Any], starts: NDArray[Any], splits: Mapping[str, Split]) -> None:
    """Raise ValueError if arrays do not belong together."""
    if tokens.dtype != np.uint8 or tokens.ndim != 1 or starts.ndim != 1 or len(starts) < 2:
        raise ValueError("the sequences have another shape")
    if starts[0] != 0 or starts[-1] != len(tokens) or (np.diff(starts) < 0).any():
        raise ValueError("the sequences are incomplete")
    if len(tokens) and int(tokens.max()) >= about.tokens:
        raise ValueError("a token does not exist")
    for name, split in splits.items():
        if split.sequences.ndim != 2 or split.sequences.shape[1] not in (1, 2) or split.labels.ndim != 1:
            raise ValueError(f"the split {name} has another shape")
        if not len(split) or len(split.sequences) != len(split.labels):
            raise ValueError(f"the split {name} is incomplete")
        for array, end in ((split.sequences, len(starts) - 1), (split.labels, about.classes)):
            if array.dtype != np.int64 or array.min() < 0 or array.max() >= end:
                raise ValueError(f"the split {name} names what does not exist")
    if about.side is not None and (np.diff(starts) != about.side**2).any():
        raise ValueError("an image has another size")
