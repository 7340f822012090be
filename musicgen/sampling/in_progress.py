"""A piece while it is written: its tokens so far, and everything that its next token depends on.

Design note: a piece carries its own request (constraints, sampling settings, seed, noise), so that pieces of different
requests can share a batch, and a request can change while a piece is written. It changes at a bar line, where the
constraint mask is built again from the tokens: a changed piece equals one that starts from a bookmark there.
"""

from __future__ import annotations

from array import array
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.language import Language
from musicgen.languages.mask import Bias, Mask
from musicgen.midi.bars import BarLines
from musicgen.sampling.bookmark import Bookmark
from musicgen.sampling.choose import Chance, SamplingConfig
from musicgen.sampling.tempo_changes import EARLIER, note_tempo, rendering_of, until_bar

if TYPE_CHECKING:
    from musicgen.model import State


class PieceInProgress:
    """A piece that is being written.

    Args:
        language: Its token language.
        bookmark: What it begins with.
        constraints: What new music keeps to.
        sampling: How tokens are chosen.
        seed: Its choices depend on it.
        variation: Which variation of its seed; if None, that of the bookmark.
        fork_at: After this many bars it continues in several variations. It is the first of them.
        variations: How many.
        keep_states: Whether the states at all bar lines are kept, and not only the last.

    Attributes:
        tokens: All tokens so far.
        ends: How many there were when each bar was complete.
        likelihood, masked_probability: As in `Bookmark`; the last item is that of the bar that is being written.
        prompt_bars, setting: As in `Bookmark`.
        state: The model's state when the piece joined a batch, before the last token was read.
        states: The same for complete bars, by their number, before the token that completed them was read.
        rendering: How it sounds.
        refusal: Why the last change of constraints could not be kept; empty if it could.
        is_cancelled: Whether it was cancelled.

    Raises:
        UserError: The constraints cannot be kept.
    """

    def __init__(
        self,
        language: Language,
        bookmark: Bookmark,
        constraints: Constraints,
        sampling: SamplingConfig,
        seed: int = 0,
        variation: int | None = None,
        fork_at: int | None = None,
        variations: int = 1,
        keep_states: bool = False,
    ) -> None:
        self.language, self.constraints, self.sampling = language, constraints, sampling
        self.seed, self.variation = seed, bookmark.variation if variation is None else variation
        self.fork_at, self.variations, self.keep_states = fork_at, variations, keep_states
        self.tokens, self.ends = array("H", bookmark.tokens), array("L", bookmark.ends)
        self.likelihood = [*bookmark.likelihood, 0.0]
        self.masked_probability = [*bookmark.masked_probability, 0.0]
        self.prompt_bars, self.setting = bookmark.prompt_bars, bookmark.setting
        self.state = bookmark.state
        self.states: dict[int, State] = {self.bars: self.state} if self.at_bar_line else {}
        self.rendering = rendering_of(language, constraints, self.setting)
        self.refusal, self.is_cancelled = "", False
        self._mask = language.mask(constraints, self.tokens, self.prompt_bars, self.setting)
        self._chance = Chance(seed, self.variation)
        self._changes = deque[tuple[Constraints | None, SamplingConfig | None]]()
        self._clock, self._time, self._timed = language.start_clock(), 0.0, 0

    @property
    def bars(self) -> int:
        """How many bars are complete."""
        return len(self.ends)

    @property
    def at_bar_line(self) -> bool:
        """Whether the last token completed a bar."""
        return bool(self.ends) and self.ends[-1] == len(self.tokens)

    @property
    def is_complete(self) -> bool:
        """Whether it has ended."""
        return self._mask.is_complete

    @property
    def time(self) -> float:
        """The musical time of the last token, in beats."""
        for token in self.tokens[self._timed :]:
            self._time = self._clock.advance(token)
        self._timed = len(self.tokens)
        return self._time

    @property
    def chance(self) -> float:
        """The random number for the next token."""
        return self._chance.at(len(self.tokens))

    @cached_property
    def is_rhythm(self) -> Mask:
        """Whether each token is one of rhythm, shape (vocabulary,)."""
        return self.language.vocabulary.is_of(self.language.rhythm)

    def allowed(self) -> Mask:
        """Whether each token may follow, shape (vocabulary,). Changes that wait for a bar line happen here."""
        while self._changes and self.at_bar_line:
            constraints, sampling = self._changes.popleft()
            self.sampling = sampling or self.sampling
            if constraints is not None:
                self._keep_to(constraints)
        return self._mask.mask()

    def bias(self) -> Bias | None:
        """What is added to logits before the next token is chosen, shape (vocabulary,); None for nothing."""
        return self._mask.bias()

    def append(self, token: int, likelihood: float, masked_probability: float) -> None:
        """Add a token.

        Args:
            token: Its id.
            likelihood: Its log-likelihood in nats.
            masked_probability: How much probability the mask removed.
        """
        if not self._mask.is_given:
            self.likelihood[-1] += likelihood
            self.masked_probability[-1] += masked_probability
        self._mask.advance(token)
        self.tokens.append(token)
        if self._mask.bars > self.bars:
            self.ends.append(len(self.tokens))
            self.likelihood.append(0.0)
            self.masked_probability.append(0.0)

    def keep_state(self, state: State) -> None:
        """Keep the model's state at a bar line."""
        if not self.keep_states:
            self.states.clear()
        self.states[self.bars] = state

    def change(self, constraints: Constraints | None = None, sampling: SamplingConfig | None = None) -> None:
        """Change the request from the next bar on; what is written stays. Can be called from another thread.

        The next bar is the one of which no token has been chosen yet. If the constraints cannot be kept from there on
        (for example because the piece is already longer), the old ones stay and `refusal` says why.

        Args:
            constraints: All constraints from then on; None keeps the current ones.
            sampling: How tokens are chosen from then on; None keeps the current settings.

        Raises:
            UserError: The constraints cannot be kept in any such piece.
        """
        if constraints is not None:
            self._check_seconds(constraints)
            self.language.mask(constraints, [self.language.first], 0, self.setting)
        self._changes.append((constraints, sampling))

    def cancel(self) -> None:
        """Stop it: the sampler writes no more tokens of it. Can be called from another thread."""
        self.is_cancelled = True

    def resume(self) -> None:
        """Take back a cancellation at a bar line. The piece can then be added to a sampler again."""
        self.state, self.is_cancelled = self.states[self.bars], False

    def forks(self) -> list[PieceInProgress]:
        """The other variations, if they begin to differ here."""
        if self.bars != self.fork_at or self.variation != 0:
            return []
        bookmark = self._bookmark(len(self.tokens), self.bars, self.states.get(self.bars, self.state))
        wishes = (self.constraints, self.sampling, self.seed)
        try:
            forks = [
                PieceInProgress(self.language, bookmark, *wishes, variation, keep_states=self.keep_states)
                for variation in range(1, self.variations)
            ]
        except UserError:  # the piece has its full length and ends with its next tokens
            return []
        for fork in forks:
            fork._changes.extend(self._changes)
        return forks

    def bookmark(self, bars: int) -> Bookmark:
        """A bookmark of the piece after this many bars. Its state must have been kept."""
        return self._bookmark(self.ends[bars - 1], bars, self.states[bars])

    def _bookmark(self, tokens: int, bars: int, state: State) -> Bookmark:
        return Bookmark(
            tuple(self.tokens[:tokens]),
            state,
            tuple(self.ends[:bars]),
            tuple(self.likelihood[:bars]),
            tuple(self.masked_probability[:bars]),
            min(self.prompt_bars, bars),
            until_bar(self.setting, bars),
            self.variation,
        )

    def _check_seconds(self, constraints: Constraints) -> None:
        if constraints.seconds is not None and (constraints.tempo != self.constraints.tempo or EARLIER in self.setting):
            raise UserError(
                f"seconds={constraints.seconds:g}: cannot be kept in a piece whose tempo changes; give bars= or tokens="
            )

    def _keep_to(self, constraints: Constraints) -> None:
        """Keep to other constraints from here on, if they can be kept."""
        setting = self.setting
        if constraints.tempo != self.constraints.tempo:
            tick = BarLines(self.rendering.decode(self.tokens)).tick(self.bars)
            setting = note_tempo(setting, self.bars, tick, self.constraints)
        try:
            self._check_seconds(constraints)
            self._mask = self.language.mask(constraints, self.tokens, self.prompt_bars, setting)
            self.refusal = ""
        except UserError as error:
            self.refusal = str(error)
            return
        self.constraints = constraints
        if setting is not self.setting:
            self.setting = setting
            self.rendering = rendering_of(self.language, constraints, setting)
