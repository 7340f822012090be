"""Retrieval: does one paper cite another? The bytes of both are the tokens.

Design note: a pair that is no citation has the same citing paper as one that is, and its other paper is drawn from
all citations. So both classes have papers that cite, and are cited, equally often; counts alone say nothing. Splits
are by citing paper: no paper cites in two of them.
"""

from __future__ import annotations

import random
from pathlib import Path

from musicgen.arena.dataset import About, Dataset
from musicgen.arena.sources import Say, columns, held_out, note_count, objects
from musicgen.errors import UserError

WHERE = "https://github.com/google-research/long-range-arena"
PAPER = {"id": str, "text": str}
PUBLISHED = {"train": "new_aan_pairs.train.tsv", "valid": "new_aan_pairs.eval.tsv", "test": "new_aan_pairs.test.tsv"}
COUNTS = {"train": 147_086, "valid": 18_090, "test": 17_437}
TEST, VALID = 0.15, 0.15
_TRIES = 100

Pairs = list[tuple[tuple[int, ...], int]]


def load_retrieval(folder: Path, seed: int, say: Say) -> Dataset:
    """The pairs of a folder: the published TSV files, or `aan_papers_4k.jsonl.xz` with `aan_citations.tsv`."""
    if (folder / PUBLISHED["train"]).is_file():
        return _published(folder, say)
    papers = next((path for path in sorted(folder.glob("aan_papers*.jsonl*")) if path.is_file()), None)
    if papers is None or not (folder / "aan_citations.tsv").is_file():
        raise UserError(
            f"{folder}: has neither {PUBLISHED['train']} nor aan_papers*.jsonl with aan_citations.tsv; "
            f"the first is in the archive of {WHERE}"
        )
    return _from_citations(papers, folder / "aan_citations.tsv", seed)


def _published(folder: Path, say: Say) -> Dataset:
    numbers: dict[bytes, int] = {}
    examples: dict[str, Pairs] = {}
    for split, name in PUBLISHED.items():
        examples[split] = []
        for number, (label, _, _, first, second) in columns(folder / name, 5):
            if label not in ("0", "1", "0.0", "1.0") or not first or not second:
                raise UserError(f"{folder / name}, line {number}: not a label of 0 or 1 and two texts")
            pair = tuple(numbers.setdefault(text.encode(), len(numbers)) for text in (first, second))
            examples[split].append((pair, int(float(label))))
        note_count(f"pairs in {split}", len(examples[split]), COUNTS[split], say)
    return Dataset.gather(About("retrieval", 256, 2, None, "published pairs of papers"), list(numbers), examples)


def _from_citations(papers: Path, citations: Path, seed: int) -> Dataset:
    texts = {paper["id"]: paper["text"].encode() for paper in objects(papers, PAPER) if paper["text"]}
    number = {name: place for place, name in enumerate(sorted(texts))}
    rows = (cells for line, cells in columns(citations, 2) if line > 1)
    known = sorted(
        {(citing, cited) for citing, cited in rows if citing in texts and cited in texts and citing != cited}
    )
    if not known:
        raise UserError(f"{citations}: has no citation among the papers of {papers.name}")
    rest, test = held_out(known, lambda pair: pair[0], TEST, seed)
    train, valid = held_out(rest, lambda pair: pair[0], VALID / (1 - TEST), seed)
    related = {*known, *((cited, citing) for citing, cited in known)}
    examples: dict[str, Pairs] = {}
    for split, positives in (("train", train), ("valid", valid), ("test", test)):
        chance = random.Random(f"{seed} {split}")  # noqa: S311
        pairs: Pairs = []
        for citing, cited in positives:
            other = _other(citing, positives, related, chance)
            if other is not None:
                pairs += [((number[citing], number[cited]), 1), ((number[citing], number[other]), 0)]
        examples[split] = pairs
    about = About("retrieval", 256, 2, None, f"citations of {citations.parent.name}")
    return Dataset.gather(about, [texts[name] for name in sorted(texts)], examples)


def _other(
    citing: str, citations: list[tuple[str, str]], related: set[tuple[str, str]], chance: random.Random
) -> str | None:
    """A paper that has nothing to do with the citing one, drawn as often as it is cited; None if none is found."""
    for _ in range(_TRIES):
        cited = citations[int(len(citations) * chance.random())][1]
        if cited != citing and (citing, cited) not in related:
            return cited
    return None
