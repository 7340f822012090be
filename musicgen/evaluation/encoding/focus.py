"""Where attention goes, in a few numbers: how far back, to how many keys, and whether it sticks to some place.

Design note: queries beyond the trained length are compared with queries in its second half. Queries in the first half
have too few tokens before them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from musicgen.evaluation.report.findings import Cell, Table

NEAR = 16  # tokens that count as the last ones, and as the first


class Look(NamedTuple):
    """Means over some queries."""

    distance: float
    """How many tokens back, on average."""
    last: float
    """Attention to the last 16 tokens, the query's own among them."""
    first: float
    """Attention to the first 16 tokens."""
    keys: float
    """Effective number of keys: exp(entropy)."""
    edge: float
    """Attention to keys around the trained length N, divided by that of an even spread; nan for queries within N."""


COLUMNS = ("mean distance", f"on the last {NEAR}", f"on the first {NEAR}", "effective keys", "around N / even")
Looks = Mapping[tuple[int, int], Mapping[str, Look]]
"""By layer and head, both counted from 1, and by which queries."""


def looks(attention: Tensor, trained: int) -> dict[str, Look]:
    """Where the queries within the trained length and those beyond it look.

    Keys around the trained length N are those less than N/16 from it. Only queries at least N/8 beyond N count for
    them, because other queries are near these keys anyway.

    Args:
        attention: `(queries, keys)`; rows sum to one.
        trained: N, tokens of a training window.

    Returns:
        By `within` (the second half of the first N queries) and `beyond`, if there are such queries.
    """
    length = len(attention)
    steps = torch.arange(length, dtype=attention.dtype)
    columns = torch.stack(
        [
            steps - attention @ steps,
            attention.triu(1 - NEAR).sum(-1),
            attention[:, :NEAR].sum(-1),
            torch.special.entr(attention).sum(-1).exp(),
        ]
    ).double()
    found = {}
    for name, low, high in (("within", trained // 2, trained), ("beyond", trained, length)):
        if low < min(high, length):
            distance, last, first, keys = columns[:, low:high].mean(-1).tolist()
            edge = _edge(attention, trained) if name == "beyond" else math.nan
            found[name] = Look(distance, last, first, keys, edge)
    return found


def _edge(attention: Tensor, trained: int) -> float:
    """Attention to keys around the trained length, divided by an even spread's; nan if no query is far enough."""
    near, first = trained // 16, trained + trained // 8
    if not near or first >= len(attention):
        return math.nan
    share = attention[first:, trained - near : trained + near].sum(-1).double()
    even = 2 * near / torch.arange(first + 1, len(attention) + 1, dtype=torch.float64)
    return float((share / even).mean())


def even_spread(length: int) -> Tensor:
    """The map in which each query gives equal attention to all its keys."""
    return torch.ones(length, length).tril_() / torch.arange(1, length + 1).unsqueeze(-1)


def mean_look(found: Sequence[Look]) -> Look:
    """The mean of each number."""
    return Look(*(math.fsum(values) / len(values) for values in zip(*found, strict=True)))


def looks_tables(found: Mapping[str, tuple[Looks, Mapping[str, Look]]]) -> list[Table]:
    """A table by layers, with what an even spread would have, and one by heads; of the looks of heads by model."""
    by_layer: list[list[Cell]] = []
    by_head: list[list[Cell]] = []
    for name, (heads, even) in found.items():
        for queries in even:
            for layer in dict.fromkeys(layer for layer, _ in heads):
                own = [look[queries] for (at, _), look in heads.items() if at == layer]
                by_layer.append([name, queries, str(layer), *mean_look(own)])
            by_layer.append([name, queries, "even spread", *even[queries]])
        for (layer, head), look in heads.items():
            by_head += [[name, queries, layer, head, *look[queries]] for queries in look]
    if not by_layer:  # the piece ends before the second half of the trained length
        return []
    title = "Where queries look: within the trained length N (its second half) and beyond it, means over heads"
    return [
        Table("looks", title, ["model", "queries", "layer", *COLUMNS], by_layer, digits=2),
        Table("looks_heads", "The same by head", ["model", "queries", "layer", "head", *COLUMNS], by_head, shown=False),
    ]
