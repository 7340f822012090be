"""What the sampler has to know of a token language, beside its tokens: where bars end, what may follow, how it sounds.

The hard choice: the sampler, pieces and folders know no language. A new one brings one class, its dialect, and gets
batches, seeds, constraints, forks, states, files and pages with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.score import Score
from musicgen.sampling.choose import Taste
from musicgen.sampling.constraints import Constraints
from musicgen.sampling.guide import Guide
from musicgen.tokens.language import Language


class Prompt(NamedTuple):
    """A prompt in tokens.

    Attributes:
        tokens: What a piece begins with. The model has not read the last.
        bars: How many bars it has.
        setting: What else a continuation takes over from it, as plain data: see `Dialect.rendering`.
        report: What was read, and what putting it in tokens did to it.
    """

    tokens: Sequence[int]
    bars: int
    setting: Mapping[str, Any]
    report: str


class Decoder(Protocol):
    """Music from tokens as they come."""

    def feed(self, tokens: Sequence[int]) -> tuple[Score, int]:
        """What has become certain, and the tick up to which all is known by then."""

    def close(self) -> Score:
        """What is left at the end of the piece."""


class Rendering(Protocol):
    """How the pieces of a session sound."""

    def decode(self, tokens: Sequence[int]) -> Score:
        """The music of a whole piece."""

    def decoder(self) -> Decoder:
        """The same, as tokens come."""


class Dialect(Protocol):
    """A token language, to a sampler.

    Attributes:
        taste: What the paper sampled such music with.
        first: The token that every piece begins with.
        bar_ticks: Ticks in a bar of its scores.
    """

    taste: Taste
    first: int
    bar_ticks: int

    @property
    def language(self) -> Language:
        """Its tokens."""

    def guide(
        self, constraints: Constraints, tokens: Sequence[int], prompt_bars: int, setting: Mapping[str, Any]
    ) -> Guide:
        """The guide of a piece that begins with some tokens, of which so many bars were given with a setting.

        Raises:
            UserError: The constraints cannot be kept.
        """

    def complete_bars(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """How many bars are complete after each token, shape (tokens,)."""

    def read_prompt(self, source: Path | str | Score, bars: int | None) -> Prompt:
        """Put the beginning of a piece, or all of it, in tokens.

        Raises:
            UserError: It cannot be used, and why.
        """

    def rendering(self, constraints: Constraints, setting: Mapping[str, Any]) -> Rendering:
        """How pieces sound under constraints, after a prompt with some setting (nothing, if there was none)."""
