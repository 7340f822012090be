"""The sampler: many pieces at once, each with its own seed, state, guide and end.

The hard choice: a piece knows nothing of the others. Its noise is the sampler's one draw, its chances are a function of
its seed and of the place of a token, and a step of the model gives a row the same numbers in any batch; so the piece
of a seed is the same alone, among a hundred, and when it is taken up again from a state. Pieces that end make room for
those that wait: a batch is always as full as it can be.
"""

from __future__ import annotations

import itertools
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from musicgen.sampling.choose import Chance, Taste, choose
from musicgen.sampling.constraints import Constraints
from musicgen.sampling.dialect import Dialect, Prompt
from musicgen.sampling.guide import Guide

if TYPE_CHECKING:
    from musicgen.model import PerformerLM, State


@dataclass(frozen=True)
class Beginning:
    """A piece as far as it is known: what sampling starts from.

    Attributes:
        tokens: The tokens so far. The last one has not been read by the model.
        state: The model's after all others.
        ends: How many tokens there were when each bar was complete.
        likelihood: Log-likelihood of the tokens of each complete bar, in nats.
        pressure: Sum over the tokens of each complete bar of what masks took away.
        prompt_bars: How many bars of it were given, not sampled.
        setting: What else was taken over from a prompt: see `Prompt`.
        variation: Which variation it is of.
    """

    tokens: Sequence[int]
    state: State
    ends: Sequence[int] = ()
    likelihood: Sequence[float] = ()
    pressure: Sequence[float] = ()
    prompt_bars: int = 0
    setting: Mapping[str, Any] = field(default_factory=dict)
    variation: int = 0


@dataclass
class Take:
    """A piece in the making.

    Attributes:
        seed, variation: What its choices depend on.
        tokens: So far.
        ends: How many there were when each bar was complete.
        likelihood, pressure: As in `Beginning`, with what has been added since the last bar was complete.
        prompt_bars, setting: As in `Beginning`.
        state: The model's when it last came into a batch, before it read the last token.
        states: The same when so many bars were complete, before it read the token that completed them.
    """

    seed: int
    variation: int
    tokens: array[int]
    ends: array[int]
    likelihood: list[float]
    pressure: list[float]
    prompt_bars: int
    setting: Mapping[str, Any]
    state: State
    states: dict[int, State]

    @property
    def bars(self) -> int:
        """Bars that are complete."""
        return len(self.ends)

    @property
    def at_bar_line(self) -> bool:
        """Whether the last token completed a bar."""
        return bool(self.ends) and self.ends[-1] == len(self.tokens)

    def fork(self, variation: int) -> Take:
        """The same piece, which goes on in another way. It is between two steps: its last token has not been read."""
        copies = (array(self.tokens.typecode, self.tokens), array(self.ends.typecode, self.ends))
        sums = (list(self.likelihood), list(self.pressure))
        state = self.states.get(self.bars, self.state)
        kept = {self.bars: state} if self.at_bar_line else {}
        return Take(self.seed, variation, *copies, *sums, self.prompt_bars, self.setting, state, kept)

    def beginning(self, bars: int) -> Beginning:
        """The piece when so many bars were complete, to go on from; its state must have been kept."""
        return Beginning(
            tuple(self.tokens[: self.ends[bars - 1]]),
            self.states[bars],
            tuple(self.ends[:bars]),
            tuple(self.likelihood[:bars]),
            tuple(self.pressure[:bars]),
            min(self.prompt_bars, bars),
            self.setting,
            self.variation,
        )


def bar_ends(complete: NDArray[np.int64]) -> tuple[int, ...]:
    """How many tokens there were when each bar was complete, from how many bars were complete after each token."""
    return tuple((np.searchsorted(complete, np.arange(1, int(complete[-1]) + 1)) + 1).tolist())


class Sampler:
    """Writes pieces with a model.

    Args:
        model: The model, in evaluation mode.
        dialect: Its token language.
        constraints: What pieces keep to.
        taste: How tokens are chosen.
        draw_seed: Of the positional noise, which all pieces share.
        batch_size: Pieces that are written at once.
    """

    def __init__(
        self,
        model: PerformerLM,
        dialect: Dialect,
        constraints: Constraints,
        taste: Taste,
        draw_seed: int = 0,
        batch_size: int = 16,
    ) -> None:
        self.model, self.dialect, self.constraints, self.taste = model, dialect, constraints, taste
        self.draw, self.batch_size = model.draw(draw_seed), batch_size
        self._device = next(model.parameters()).device

    def begin(self, prompt: Prompt | None = None) -> Beginning:
        """From nothing, or from a prompt."""
        state = self.model.init_state(self.draw)
        if prompt is None:
            return Beginning((self.dialect.first,), state)
        tokens = torch.tensor(prompt.tokens)[None]
        logits, state = self.model.prefill(tokens[:, :-1].to(self._device), state)
        nats = -torch.nn.functional.cross_entropy(logits[0].cpu().double(), tokens[0, 1:], reduction="none").numpy()
        complete = self.dialect.complete_bars(prompt.tokens)
        bars = int(complete[-1])
        # What completes a bar is part of it. What has been said of a bar that is not complete is not counted.
        likelihood = np.bincount(complete[:-1], nats, minlength=bars)[:bars]
        zeros = (0.0,) * bars
        return Beginning(
            tuple(prompt.tokens),
            state,
            bar_ends(complete),
            tuple(likelihood.tolist()),
            zeros,
            prompt.bars,
            prompt.setting,
        )

    def take(self, beginning: Beginning, seed: int, variation: int | None = None) -> Take:
        """A piece that goes on from a beginning, as the same variation or as another."""
        bars, at_bar_line = len(beginning.ends), beginning.ends[-1:] == (len(beginning.tokens),)
        return Take(
            seed,
            beginning.variation if variation is None else variation,
            array("H", beginning.tokens),
            array("L", beginning.ends),
            [*beginning.likelihood, 0.0],
            [*beginning.pressure, 0.0],
            beginning.prompt_bars,
            beginning.setting,
            beginning.state,
            {bars: beginning.state} if at_bar_line else {},
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
        coming, forked = iter(takes), deque[Take]()

        def waiting() -> Iterator[Take]:
            while True:
                take = forked.popleft() if forked else next(coming, None)
                if take is None:
                    return
                if take.bars == fork_at and take.variation == 0:
                    forked.extend(take.fork(number) for number in range(1, variations))
                yield take

        rows: list[_Row] = []
        state: State | None = None
        while True:
            state = self._fill(rows, waiting(), state)
            if state is None:
                return
            read = torch.tensor([row.take.tokens[-1] for row in rows], device=self._device)
            with torch.inference_mode():  # the same bits in less time
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
                if row.guide.bars > take.bars:
                    take.ends.append(len(take.tokens))
                    take.likelihood.append(0.0)
                    take.pressure.append(0.0)
                    if not keep:
                        take.states.clear()
                    take.states[take.bars] = state.rows([number])
                    if take.bars == fork_at and not row.guide.is_complete and take.variation == 0:
                        forked.extend(take.fork(number) for number in range(1, variations))
                if not row.guide.is_complete:
                    going.append(number)
                yield Step(take, token, row.guide.is_complete)
            if len(going) < len(rows):
                rows = [rows[number] for number in going]
                state = state.rows(going) if going else None

    def _fill(self, rows: list[_Row], waiting: Iterator[Take], state: State | None) -> State | None:
        """Let waiting pieces in where there is room, and give the state of all; None if there are none."""
        states = [] if state is None else [state]
        for take in itertools.islice(waiting, self.batch_size - len(rows)):
            guide = self.dialect.guide(self.constraints, take.tokens, take.prompt_bars, take.setting)
            rows.append(_Row(take, guide, Chance(take.seed, take.variation)))
            states.append(take.state)
        if not states:
            return None
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
