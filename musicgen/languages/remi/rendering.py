"""How REMI sounds: tokens contain everything, except tempos between those of the tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from musicgen.languages.constraints import Constraints
from musicgen.languages.remi.codec import decode, lay_out
from musicgen.languages.remi.tempos import allowed_tempos
from musicgen.languages.remi.tokens import TokenSet
from musicgen.midi.score import Score, TimeSignature, make_tempos

EXACT = "exact_tempos"
"""Key of a setting: pairs of a tempo of the tokens, and the tempo of the prompt that it stands for."""


class RemiRendering:
    """How a piece sounds.

    Args:
        tokens: What tokens can say.
        constraints: May request a tempo that no token has; the nearest token then stands for it.
        setting: May have the exact tempos of a prompt; they hold in its continuation too.
    """

    def __init__(self, tokens: TokenSet, constraints: Constraints, setting: Mapping[str, Any]) -> None:
        self.tokens = tokens
        written, meant = (allowed_tempos(tokens, tempo)[0].tolist() for tempo in (None, constraints.tempo))
        self._tempos = dict(setting.get(EXACT, ()))
        self._tempos |= {ours: asked for ours, asked in zip(written, meant, strict=True) if ours != asked}

    def decode(self, tokens: Sequence[int], start: int = 0, signature: TimeSignature | None = None) -> Score:
        """The music of tokens.

        Args:
            tokens: The tokens.
            start: Where their first bar begins, in units.
            signature: The time signature that holds before them.
        """
        metre = None if signature is None else self.tokens.metres.index(signature[1:])
        score = decode(tokens, self.tokens, start, metre)
        changes = [(tick, self._tempos.get(bpm, bpm)) for tick, bpm in score.tempos.tolist()]
        metres = score.time_signatures
        if signature is not None:
            metres = (signature, *(item for item in metres if item[1:] != signature[1:] or item is not metres[0]))
        return score.replace(tempos=make_tempos(changes), time_signatures=metres)

    def decoder(self) -> RemiDecoder:
        """A decoder that reads one token at a time."""
        return RemiDecoder(self)


class RemiDecoder:
    """Turns tokens into music as they come: a bar is certain when the next begins."""

    def __init__(self, rendering: RemiRendering) -> None:
        self._rendering = rendering
        self._rest: list[int] = []
        self._start = 0
        self._signature: TimeSignature | None = None

    def feed(self, tokens: Sequence[int]) -> tuple[Score, int]:
        """The bars that have become complete, and where the next begins."""
        self._rest.extend(tokens)
        known = self._rendering.tokens
        bars = np.flatnonzero(np.asarray(self._rest) == known.vocabulary["Bar"])
        end = int(bars[-1]) if len(bars) else 0
        part = self._rendering.decode(self._rest[:end], self._start, self._signature)
        if end:
            metre = None if self._signature is None else known.metres.index(self._signature[1:])
            layout = lay_out(np.array(self._rest[: end + 1]), known, self._start, metre)
            self._start, self._signature = int(layout.start[-1]), part.time_signatures[-1]
        del self._rest[:end]
        return part, self._start * known.unit_ticks

    def close(self) -> Score:
        """The bar that is left."""
        return self._rendering.decode(self._rest, self._start, self._signature)
