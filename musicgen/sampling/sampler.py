"""The sampler: writes many pieces at once, one token of each in a step.

Design note: a piece depends on no other piece. Its noise is that of its state, its random numbers are a function of its
seed and of the place of a token, and a step of the model gives a row the same bits in any batch. So a seed gives the
same piece alone, among a hundred, and when it starts from a bookmark. Pieces that end make room for those that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from musicgen.sampling.choose import choose
from musicgen.sampling.in_progress import PieceInProgress

if TYPE_CHECKING:
    from musicgen.model import State
    from musicgen.model.engine import Engine
    from musicgen.spe import Draw


class Step(NamedTuple):
    """A token that was added to a piece, and whether it was the last."""

    piece: PieceInProgress
    token: int
    is_last: bool


class Sampler:
    """Writes pieces with a model. Pieces can come and go at any time.

    Args:
        engine: Runs the model.
        batch_size: How many pieces are written at once. The others wait.
    """

    def __init__(self, engine: Engine, batch_size: int = 16) -> None:
        self.engine, self.batch_size = engine, batch_size
        self._waiting = deque[PieceInProgress]()
        self._batches: dict[Draw, _Batch] = {}

    @property
    def room(self) -> int:
        """How many more pieces could be written at once."""
        busy = sum(len(batch.pieces) for batch in self._batches.values())
        return self.batch_size - busy - len(self._waiting)

    def add(self, piece: PieceInProgress) -> None:
        """Queue a piece until there is room for it. Can be called from another thread."""
        self._waiting.append(piece)

    def rejoin(self, piece: PieceInProgress) -> None:
        """Take up a piece again whose state is no longer that of its batch."""
        for batch in self._batches.values():
            batch.keep([other is not piece for other in batch.pieces])
        self._batches = {draw: batch for draw, batch in self._batches.items() if batch.pieces}
        self.add(piece)

    def step(self) -> list[Step]:
        """Add a token to each piece that there is room for; empty if there is nothing to do."""
        for draw, batch in list(self._batches.items()):
            batch.keep([not piece.is_cancelled for piece in batch.pieces])
            if not batch.pieces:
                del self._batches[draw]
        self._admit()
        return [step for batch in self._batches.values() for step in self._advance(batch)]

    def run(self, pieces: Iterable[PieceInProgress] = ()) -> Iterator[Step]:
        """Write pieces to their ends.

        Args:
            pieces: The next is taken when there is room for it. Others may be added on the way.

        Yields:
            Tokens as they come. A variation already has the tokens that it shares.
        """
        coming = iter(pieces)
        while True:
            while self.room > 0 and (piece := next(coming, None)) is not None:
                self.add(piece)
            steps = self.step()
            if not steps and not self._waiting:
                return
            yield from steps

    def _admit(self) -> None:
        """Add waiting pieces if there is room, and join their states with those of the same noise."""
        free = self.room + len(self._waiting)
        while free > 0 and self._waiting:
            piece = self._waiting.popleft()
            if piece.is_cancelled:
                continue
            self._waiting.extendleft(reversed(piece.forks()))
            self._batches.setdefault(piece.state.draw, _Batch()).entering.append(piece)
            free -= 1
        for batch in self._batches.values():
            batch.enter()

    def _advance(self, batch: _Batch) -> list[Step]:
        """Add a token to each piece of a batch."""
        pieces = batch.pieces
        read = torch.tensor([piece.tokens[-1] for piece in pieces], device=self.engine.device)
        with torch.inference_mode():  # the same bits in less time
            logits, state = self.engine.step(read, batch.state, **times(self.engine, (piece.time for piece in pieces)))
        allowed = np.stack([piece.allowed() for piece in pieces])
        chances = np.array([piece.chance for piece in pieces])
        biases = np.stack([np.zeros(allowed.shape[1]) if (bias := piece.bias()) is None else bias for piece in pieces])
        settings = [piece.sampling for piece in pieces]
        chosen = choose(logits.cpu().numpy(), allowed, chances, settings, pieces[0].is_rhythm, biases)
        batch.state = state
        steps = []
        for row, (piece, token, *sums) in enumerate(zip(pieces, *(part.tolist() for part in chosen), strict=True)):
            piece.append(token, *sums)
            if piece.at_bar_line:
                piece.keep_state(state.rows([row]))
                if not piece.is_complete:
                    self._waiting.extendleft(reversed(piece.forks()))
            steps.append(Step(piece, token, piece.is_complete))
        batch.keep([not piece.is_complete for piece in pieces])
        return steps


class _Batch:
    """Pieces of the same noise, and their state."""

    state: State

    def __init__(self) -> None:
        self.pieces: list[PieceInProgress] = []
        self.entering: list[PieceInProgress] = []

    def enter(self) -> None:
        """Add pieces."""
        states = [self.state] if self.pieces else []
        states += [piece.state for piece in self.entering]
        if self.entering:
            self.state = states[0] if len(states) == 1 else type(states[0]).join(states)
        self.pieces, self.entering = self.pieces + self.entering, []

    def keep(self, wanted: list[bool]) -> None:
        """Remove pieces that are no longer needed."""
        if all(wanted):
            return
        rows = [row for row, is_wanted in enumerate(wanted) if is_wanted]
        self.pieces = [self.pieces[row] for row in rows]
        if rows:
            self.state = self.state.rows(rows)


def times(model: Engine, beats: Iterable[Any]) -> dict[str, Tensor]:
    """The other argument of `step` and `prefill`, for a model whose positions are musical time.

    Args:
        model: The model.
        beats: For each row the time of its token, or an array of times. It is ignored if the model needs no times.
    """
    if not model.config.needs_times:
        return {}
    return {"times": torch.from_numpy(np.array(list(beats), np.float64))}
