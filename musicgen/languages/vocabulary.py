"""A vocabulary: families of tokens in a fixed order, so that ids are computed and not looked up.

Design note: a vocabulary is a constant of the program and does not come from a data set. A piece with a tempo that
nobody trained on still has a token for it, and all corpora and models share their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.uint16]


class Vocabulary:
    """Token names and ids.

    Args:
        families: Family to its values, in the order of ids. A token is named `Family_value`, or `Family` alone
            where the family has the one value "".

    Attributes:
        names: The name of each id.
        families: Names of the families.
        ids: The ids of each family.
        family: The number of each id's family, shape (size,).
        value: The number of each id within its family, shape (size,).
    """

    def __init__(self, families: Mapping[str, Sequence[str]]) -> None:
        self.families = tuple(families)
        self.names: tuple[str, ...] = tuple(
            f"{family}_{value}" if value else family for family, values in families.items() for value in values
        )
        self._id = {name: number for number, name in enumerate(self.names)}
        sizes = [len(values) for values in families.values()]
        starts = np.cumsum([0, *sizes])
        self.ids = {
            family: range(first, last) for family, first, last in zip(families, starts[:-1], starts[1:], strict=True)
        }
        self.family: NDArray[np.int64] = np.repeat(np.arange(len(sizes)), sizes)
        self.value: NDArray[np.int64] = np.arange(len(self.names)) - np.repeat(starts[:-1], sizes)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._id

    def __getitem__(self, name: str) -> int:
        """The id of a name."""
        return self._id[name]

    def first(self, family: str) -> int:
        """The lowest id of a family. Adding the number of a value gives the id of that value."""
        return self.ids[family].start

    def number(self, family: str) -> int:
        """The number of a family, as `Vocabulary.family` gives it."""
        return self.families.index(family)

    def is_of(self, families: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each token is of one of some families, shape (size,)."""
        return np.isin(np.array(self.families), families)[self.family]

    def to_names(self, tokens: Iterable[Any]) -> list[str]:
        """Names of ids."""
        return [self.names[token] for token in tokens]

    def to_ids(self, names: Iterable[str]) -> Tokens:
        """Ids of names."""
        return np.array([self._id[name] for name in names], np.uint16)
