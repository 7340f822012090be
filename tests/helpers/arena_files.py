"""Small files in the layouts of the Long-Range Arena's public data."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOOD, BAD, PLAIN = "lovely great brilliant", "dull awful boring", "the film and its plot with an actor"


def write_reviews(folder: Path, count: int) -> None:
    """`aclImdb`: `count` reviews in each part, half of them good."""
    chance = random.Random(0)
    for part in ("train", "test"):
        for label, words in (("pos", GOOD), ("neg", BAD)):
            (folder / part / label).mkdir(parents=True)
            for number in range(count // 2):
                text = " ".join(chance.choices(f"{words} {PLAIN}".split(), k=30)) + f" {part} {number}"
                (folder / part / label / f"{number}_7.txt").write_text(text)


def write_citations(folder: Path, papers: int) -> set[tuple[int, int]]:
    """Papers and their citations, of papers on the same of four subjects; returns who cites whom."""
    folder.mkdir(exist_ok=True)
    chance = random.Random(0)
    subjects = ["parsing trees grammar", "speech sound phone", "translation source target", "search query index"]
    lines = []
    for number in range(papers):
        words = chance.choices(f"{subjects[number % 4]} we show a method".split(), k=40)
        lines.append(json.dumps({"id": f"P{number:03d}", "title": "", "text": f"paper {number:03d} {' '.join(words)}"}))
    (folder / "aan_papers_4k.jsonl").write_text("\n".join(lines) + "\n")
    citations = {(one, one % 4 + 4 * chance.randrange(papers // 4)) for one in range(papers) for _ in range(5)}
    citations = {(one, other) for one, other in citations if one > other}
    table = ["citing\tcited", *(f"P{one:03d}\tP{other:03d}" for one, other in sorted(citations))]
    (folder / "aan_citations.tsv").write_text("\n".join(table) + "\n")
    return citations


def write_cifar(folder: Path, version: str, count: int) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """CIFAR-10 with `count` images in each of its six files, whose bright rows tell the class.

    Returns:
        Colours `(images, 3, 32, 32)` and classes.
    """
    random_numbers = np.random.default_rng(0)
    labels = np.arange(6 * count) % 10
    colours = random_numbers.integers(0, 56, (6 * count, 3, 32, 32))
    for image, label in zip(colours, labels, strict=True):
        image[:, 3 * label : 3 * label + 3] += 180
    inner = folder / f"cifar-10-batches-{'py' if version == 'python' else 'bin'}"
    inner.mkdir(parents=True)
    colours = colours.astype(np.uint8)
    for place, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        part = slice(place * count, (place + 1) * count)
        flat, own = colours[part].reshape(count, -1), labels[part]
        if version == "python":
            (inner / name).write_bytes(pickle.dumps({b"data": flat, b"labels": own.tolist()}, protocol=2))
        else:
            (inner / f"{name}.bin").write_bytes(np.concatenate([own[:, None].astype(np.uint8), flat], 1).tobytes())
    return colours, labels
