"""How well models predict music: the loss of every token, given those before it, to any length.

The hard choice: songs are read in chunks, with the state that streaming has, and of each chunk nothing stays but a
number for every token. Memory is that of one chunk, whether a song has a thousand tokens or a million.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from musicgen.data.groove_corpus import IN_DOMAIN
from musicgen.data.open import AnyCorpus
from musicgen.data.split import SPLITS
from musicgen.errors import UserError
from musicgen.model import PerformerLM
from musicgen.model.performer import PREFILL_CHUNK
from musicgen.spe import Draw
from musicgen.tokens import Tokens

Losses = NDArray[np.float32]
Progress = Callable[[Iterable[int], int, str], Iterable[int]]
"""(items, how many, of what) to the same items, with a bar."""
ALL = "all"


class Passage(NamedTuple):
    """Tokens to be read from an empty memory, and the one that follows each; both `(length,)`."""

    inputs: Tokens
    targets: Tokens


def whole(piece: Tokens) -> Passage:
    """A piece from its beginning to its end."""
    return Passage(piece[:-1], piece[1:])


def split_pieces(corpus: AnyCorpus, split: str, most: int | None) -> list[Tokens]:
    """The songs of a split, or of all, as tokens, or the first of them.

    Raises:
        UserError: There are none.
    """
    splits = (*SPLITS, *IN_DOMAIN) if split == ALL else (split,)
    pieces: list[Tokens] = []
    for name in splits:
        pieces += corpus.pieces(name, None if most is None else most - len(pieces))
    if not pieces:
        raise UserError(f"split={split}: the corpus has no such songs; choose another split, or prepare more songs")
    return pieces


def chunks(passages: Sequence[Passage], batch: int) -> int:
    """In how many chunks `losses` reads passages."""
    return sum(-(-len(passages[group[0]].inputs) // PREFILL_CHUNK) for group in _groups(passages, batch))


@torch.no_grad()
def losses(
    model: PerformerLM, passages: Sequence[Passage], draw: Draw, batch: int, done: Callable[[], Any] = lambda: None
) -> list[Losses]:
    """The cross-entropy of each target, in nats.

    Args:
        model: In evaluation mode.
        passages: What is read, each by itself.
        draw: The noise, which all passages have.
        batch: Passages that are read at once; results differ by rounding alone.
        done: Called after each chunk.

    Returns:
        For each passage, `(length,)`.
    """
    found = [np.empty(len(passage.targets), np.float32) for passage in passages]
    for group in _groups(passages, batch):
        state = model.init_state(draw, len(group))
        for first in range(0, len(passages[group[0]].inputs), PREFILL_CHUNK):
            group = [number for number in group if len(passages[number].inputs) > first]
            if len(group) < len(state.positions):
                state = state.rows(range(len(group)))
            here = slice(first, first + PREFILL_CHUNK)
            inputs = _rectangle([passages[number].inputs[here] for number in group])
            targets = _rectangle([passages[number].targets[here] for number in group])
            logits, state = model.prefill(inputs, state)
            values = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
            for number, row in zip(group, values.view(targets.shape).numpy(), strict=True):
                part = found[number][here]
                part[:] = row[: len(part)]
            done()
    return found


def _groups(passages: Sequence[Passage], batch: int) -> list[list[int]]:
    """Numbers of passages that are read at once: of like lengths, the longest first."""
    order = sorted(range(len(passages)), key=lambda number: -len(passages[number].inputs))
    return [order[first : first + batch] for first in range(0, len(order), batch)]


def _rectangle(rows: Sequence[Tokens]) -> torch.Tensor:
    """Rows as a tensor; what fills up the shorter ones comes after all that is looked at."""
    filled = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for number, row in enumerate(rows):
        filled[number, : len(row)] = row
    return torch.from_numpy(filled)
