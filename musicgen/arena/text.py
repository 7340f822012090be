"""Text: is a review of a film positive? Its bytes are the tokens.

The 25,000 test reviews are those of the data set. A tenth of its training reviews is kept for validation, which the
published experiments did on the test set.
"""

from __future__ import annotations

from pathlib import Path

from musicgen.arena.dataset import About, Dataset
from musicgen.arena.sources import Say, content, held_out, note_count, objects
from musicgen.errors import UserError

WHERE = "http://ai.stanford.edu/~amaas/data/sentiment"
WHOLE = 25_000
VALID = 0.1
REVIEW = {"id": str, "label": int, "text": str}

Review = tuple[str, bytes, int]
"""Name, text and class of a review."""


def load_text(folder: Path, seed: int, say: Say) -> Dataset:
    """The reviews in a folder: `aclImdb` as published, or `imdb_train.jsonl` and `imdb_test.jsonl` (also `.xz`)."""
    parts = {part: _listed(folder, part) or _filed(folder, part) for part in ("train", "test")}
    for part, reviews in parts.items():
        if not reviews:
            raise UserError(f"{folder}: there are no reviews in {part}/pos and {part}/neg; get aclImdb from {WHERE}")
        note_count(f"reviews in {part}", len(reviews), WHOLE, say)
    train, valid = held_out(parts["train"], lambda review: review[0], VALID, seed)
    about = About("text", 256, 2, None, f"film reviews of {folder.name}")
    sequences = [text for part in (train, valid, parts["test"]) for _, text, _ in part]
    examples: dict[str, list[tuple[tuple[int, ...], int]]] = {}
    first = 0
    for split, reviews in (("train", train), ("valid", valid), ("test", parts["test"])):
        examples[split] = [((first + place,), label) for place, (_, _, label) in enumerate(reviews)]
        first += len(reviews)
    return Dataset.gather(about, sequences, examples)


def _filed(folder: Path, part: str) -> list[Review]:
    """Reviews in a file each."""
    found: list[Review] = []
    for label, name in enumerate(("neg", "pos")):
        paths = sorted((folder / part / name).glob("*.txt"))
        found += [(f"{part}/{name}/{path.stem}", text, label) for path in paths if (text := content(path))]
    return found


def _listed(folder: Path, part: str) -> list[Review]:
    """Reviews in a line each."""
    for path in (folder / f"imdb_{part}.jsonl", folder / f"imdb_{part}.jsonl.xz"):
        if path.is_file():
            reviews = [(item["id"], item["text"].encode(), item["label"]) for item in objects(path, REVIEW)]
            if any(label not in (0, 1) for _, _, label in reviews):
                raise UserError(f"{path}: has a label that is neither 0 nor 1")
            return [review for review in reviews if review[1]]
    return []
