"""The loss of every token of a song, given the tokens before it, for songs of any length.

Design note: songs are read in chunks with the streaming state, and only one number for each token is kept. Memory does
not grow with the length of a song.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from musicgen.data.corpus import Corpus
from musicgen.errors import UserError
from musicgen.languages import Tokens
from musicgen.model import PerformerLM
from musicgen.model.performer import PREFILL_CHUNK
from musicgen.spe import Draw

Losses = NDArray[np.float32]
ALL = "all"


class Passage(NamedTuple):
    """Tokens that a model reads from an empty state.

    Attributes:
        inputs: The tokens, `(length,)`.
        targets: The token after each, `(length,)`.
        given: How many of the first targets were only added for the model to read; their losses are left out.
    """

    inputs: Tokens
    targets: Tokens
    given: int = 0


def whole(piece: Tokens) -> Passage:
    """A whole piece."""
    return Passage(piece[:-1], piece[1:])


def split_pieces(corpus: Corpus, split: str, most: int | None) -> list[Tokens]:
    """The songs of a split, or of all splits, as tokens; only the first `most` if given."""
    splits = corpus.language.splits if split == ALL else (split,)
    pieces: list[Tokens] = []
    for name in splits:
        pieces += corpus.pieces(name, None if most is None else most - len(pieces))
    if not pieces:
        raise UserError(f"split={split}: the corpus has no such songs; choose another split, or prepare more songs")
    return pieces


def chunks(passages: Sequence[Passage], batch: int) -> int:
    """How many chunks `losses` reads."""
    return sum(-(-len(passages[group[0]].inputs) // PREFILL_CHUNK) for group in _groups(passages, batch))


@torch.no_grad()
def losses(
    model: PerformerLM,
    passages: Sequence[Passage],
    draw: Draw,
    batch: int,
    done: Callable[[], Any] = lambda: None,
    clock: Callable[[Tokens], NDArray[np.float64]] | None = None,
) -> list[Losses]:
    """The cross-entropy of each target, in nats.

    Args:
        model: In evaluation mode.
        passages: What it reads, each on its own.
        draw: The noise, the same for all passages.
        batch: How many passages are read at once; it changes results only by rounding.
        done: Called after each chunk.
        clock: The times of tokens (`Language.clock`), for a model that works in musical time.

    Returns:
        For each passage, `(length - given,)`.
    """
    found = [np.empty(len(passage.targets), np.float32) for passage in passages]
    needs_times = clock is not None and model.config.needs_times
    beats = [clock(passage.inputs) for passage in passages] if clock is not None and needs_times else []
    for group in _groups(passages, batch):
        state = model.init_state(draw, len(group))
        for first in range(0, len(passages[group[0]].inputs), PREFILL_CHUNK):
            group = [number for number in group if len(passages[number].inputs) > first]
            if len(group) < len(state.positions):
                state = state.rows(range(len(group)))
            here = slice(first, first + PREFILL_CHUNK)
            inputs = _rectangle([passages[number].inputs[here] for number in group])
            targets = _rectangle([passages[number].targets[here] for number in group])
            times = _rectangle([beats[number][here] for number in group], np.float64) if needs_times else None
            logits, state = model.prefill(inputs, state, times)
            values = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
            for number, row in zip(group, values.view(targets.shape).numpy(), strict=True):
                part = found[number][here]
                part[:] = row[: len(part)]
            done()
    return [values[passage.given :] for values, passage in zip(found, passages, strict=True)]


def _groups(passages: Sequence[Passage], batch: int) -> list[list[int]]:
    """Numbers of the passages that are read at once: of similar lengths, the longest first."""
    order = sorted(range(len(passages)), key=lambda number: -len(passages[number].inputs))
    return [order[first : first + batch] for first in range(0, len(order), batch)]


def _rectangle(rows: Sequence[NDArray[Any]], dtype: type[Any] = np.int64) -> torch.Tensor:
    """Rows as a tensor; shorter rows are padded at the end, where nothing is looked at."""
    filled = np.zeros((len(rows), max(map(len, rows))), dtype)
    for number, row in enumerate(rows):
        filled[number, : len(row)] = row
    return torch.from_numpy(filled)
