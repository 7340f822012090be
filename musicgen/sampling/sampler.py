"""The sampler: many pieces at once, each with its own seed, state, guide and end.

The hard choice: a piece knows nothing of the others. Its noise is the sampler's one draw, its chances are a function of
its seed and of the place of a token, and a step of the model gives a row the same numbers in any batch; so the piece
of a seed is the same alone, among a hundred, and when it is taken up again from a state. Pieces that end make room for
those that wait: a batch is always as full as it can be.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from musicgen.sampling.choose import Chance, Taste, choose
from musicgen.sampling.constraints import Constraints
from musicgen.sampling.guide import Guide, make_guide
from musicgen.tokens import Remi

if TYPE_CHECKING:
    from musicgen.model import PerformerLM, State


@dataclass(frozen=True)
class Beginning:
    """A piece as far as it is known: what sampling starts from.

    Attributes:
        tokens: The tokens so far. The last one, a `Bar`, has not been read by the model.
        state: The model's after all others.
        likelihood: Log-likelihood of the tokens of each bar so far, in nats.
        pressure: Sum over the tokens of each bar of what masks took away.
        prompt_bars: How many bars of it were given, not sampled.
    """

    tokens: Sequence[int]
    state: State
    likelihood: Sequence[float] = ()
    pressure: Sequence[float] = ()
    prompt_bars: int = 0


@dataclass
class Take:
    """A piece in the making.

    Attributes:
        seed, variation: What its choices depend on.
        tokens: So far.
        likelihood, pressure: Sums over the tokens of each bar begun, as in `Beginning`.
        prompt_bars: Bars that were given.
        states: The model's state when so many bars were complete, before it read the `Bar` that follows.
    """

    seed: int
    variation: int
    tokens: array[int]
    likelihood: list[float]
    pressure: list[float]
    prompt_bars: int
    states: dict[int, State]

    @property
    def bars(self) -> int:
        """Bars that are complete."""
        return len(self.likelihood) - 1

    def beginning(self, bars: int, bar_token: int) -> Beginning:
        """The piece when so many bars were complete, to go on from; its state must have been kept."""
        ends = np.flatnonzero(np.frombuffer(self.tokens, np.uint16) == bar_token)
        return Beginning(
            tuple(self.tokens[: int(ends[bars]) + 1]),
            self.states[bars],
            tuple(self.likelihood[:bars]),
            tuple(self.pressure[:bars]),
            min(self.prompt_bars, bars),
        )


class Sampler:
    """Writes pieces with a model.

    Args:
        model: The model, in evaluation mode.
        language: Its token language.
        constraints: What pieces keep to.
        taste: How tokens are chosen.
        draw_seed: Of the positional noise, which all pieces share.
        batch_size: Pieces that are written at once.
    """

    def __init__(
        self,
        model: PerformerLM,
        language: Remi,
        constraints: Constraints,
        taste: Taste,
        draw_seed: int = 0,
        batch_size: int = 16,
    ) -> None:
        self.model, self.language, self.constraints, self.taste = model, language, constraints, taste
        self.draw, self.batch_size = model.draw(draw_seed), batch_size
        self._device = next(model.parameters()).device
        self.bar_token = language.vocabulary["Bar"]

    def begin(self, prompt: Sequence[int] | None = None) -> Beginning:
        """From nothing, or from the tokens of a prompt with the `Bar` that follows it."""
        state = self.model.init_state(self.draw)
        if prompt is None or len(prompt) < 2:
            return Beginning((self.bar_token,), state)
        tokens = torch.tensor(np.asarray(prompt, np.int64))[None]
        logits, state = self.model.prefill(tokens[:, :-1].to(self._device), state)
        nats = -torch.nn.functional.cross_entropy(logits[0].cpu().double(), tokens[0, 1:], reduction="none").numpy()
        bar = np.cumsum(tokens[0].numpy() == self.bar_token) - 1
        bars = int(bar[-1])
        likelihood = np.bincount(bar[:-1], nats)  # a `Bar` is part of the bar that it ends
        return Beginning(tuple(tokens[0].tolist()), state, tuple(likelihood.tolist()), (0.0,) * bars, bars)

    def take(self, beginning: Beginning, seed: int, variation: int = 0) -> Take:
        """A piece that goes on from a beginning."""
        bars = len(beginning.likelihood)
        return Take(
            seed,
            variation,
            array("H", beginning.tokens),
            [*beginning.likelihood, 0.0],
            [*beginning.pressure, 0.0],
            beginning.prompt_bars,
            {bars: beginning.state},
        )

    def run(
        self, takes: Iterable[Take], fork_at: int | None = None, variations: int = 1, keep: bool = False
    ) -> Iterator[Step]:
        """Write pieces to their ends.

        Args:
            takes: The pieces.
            fork_at: After so many bars a piece goes on in several ways, of which it is the first itself.
            variations: In how many.
            keep: Whether pieces keep their states at all bar lines, and not at the last alone.

        Yields:
            Tokens as they come; those of a batch in turn. A variation has the tokens before it parted already.
        """

        def fork(take: Take) -> list[Take]:
            beginning = take.beginning(take.bars, self.bar_token)
            return [self.take(beginning, take.seed, number) for number in range(1, variations)]

        waiting: deque[Take] = deque()
        for take in takes:
            waiting += [take, *(fork(take) if take.bars == fork_at else [])]
        rows: list[_Row] = []
        state: State | None = None
        while rows or waiting:
            state = self._fill(rows, waiting, state)
            read = torch.tensor([row.take.tokens[-1] for row in rows], device=self._device)
            logits, state = self.model.step(read, state)
            chosen = choose(
                logits.cpu().numpy(),
                np.stack([row.guide.mask() for row in rows]),
                np.array([row.chance.at(len(row.take.tokens)) for row in rows]),
                self.taste,
            )
            going = []
            for number, (token, nats, pressure) in enumerate(zip(*(column.tolist() for column in chosen), strict=True)):
                row, take = rows[number], rows[number].take
                row.guide.advance(token)
                take.tokens.append(token)
                take.likelihood[-1] += nats
                take.pressure[-1] += pressure
                if token == self.bar_token:
                    take.likelihood.append(0.0)
                    take.pressure.append(0.0)
                    if not keep:
                        take.states.clear()
                    take.states[take.bars] = state.rows([number])
                    if take.bars == fork_at and not row.guide.is_complete and take.variation == 0:
                        waiting += fork(take)
                if not row.guide.is_complete:
                    going.append(number)
                yield Step(take, token, row.guide.is_complete)
            if len(going) < len(rows):
                rows = [rows[number] for number in going]
                state = state.rows(going) if going else None

    def _fill(self, rows: list[_Row], waiting: deque[Take], state: State | None) -> State:
        """Let waiting pieces in where there is room, and give the state of all."""
        states = [] if state is None else [state]
        while waiting and len(rows) < self.batch_size:
            take = waiting.popleft()
            guide = make_guide(self.language, self.constraints, take.tokens)
            rows.append(_Row(take, guide, Chance(take.seed, take.variation)))
            states.append(take.states[take.bars])
        return states[0] if len(states) == 1 else type(states[0]).join(states)


class Step(NamedTuple):
    """A token that was added to a piece, and whether it was the last."""

    take: Take
    token: int
    is_last: bool


class _Row(NamedTuple):
    """A piece that is in the batch."""

    take: Take
    guide: Guide
    chance: Chance
