"""From tokens to music, for whole pieces and token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from musicgen.midi.score import NOTE, Score

if TYPE_CHECKING:
    from musicgen.languages.language import Language


class Decoder(Protocol):
    """Turns tokens into music as they come."""

    def feed(self, tokens: Sequence[int]) -> tuple[Score, int]:
        """The music that has become certain, and the tick up to which everything is known."""

    def close(self) -> Score:
        """What is left at the end of the piece."""


class Rendering(Protocol):
    """How a piece sounds."""

    def decode(self, tokens: Sequence[int]) -> Score:
        """The music of a whole piece."""

    def decoder(self) -> Decoder:
        """A decoder that reads one token at a time."""


class PlainRendering:
    """Decodes a piece as a whole, when it ends."""

    def __init__(self, language: Language) -> None:
        self._language = language

    def decode(self, tokens: Sequence[int]) -> Score:
        """The music of a whole piece."""
        return self._language.decode(tokens)

    def decoder(self) -> Decoder:
        """A decoder that reads one token at a time."""
        return _AtTheEnd(self._language)


class _AtTheEnd:
    """Keeps tokens until the piece ends."""

    def __init__(self, language: Language) -> None:
        self._language, self._tokens = language, list[int]()

    def feed(self, tokens: Sequence[int]) -> tuple[Score, int]:
        self._tokens.extend(tokens)
        return self._language.decode([]).replace(notes=np.empty(0, NOTE)), 0

    def close(self) -> Score:
        return self._language.decode(self._tokens)
