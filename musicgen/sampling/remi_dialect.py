"""REMI to the sampler: bars are tokens, prompts are pianos, and a tempo that was asked for is written to the dot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.midi.harmony import find_chords
from musicgen.midi.score import ChordMark, Score, make_tempos
from musicgen.sampling.choose import Taste
from musicgen.sampling.constraints import Constraints
from musicgen.sampling.dialect import Prompt
from musicgen.sampling.guide import FreeGuide, Guide
from musicgen.sampling.prompt import load_prompt, taken_bars
from musicgen.sampling.remi_guide import RemiGuide, allowed_tempos
from musicgen.tokens import Remi
from musicgen.tokens.quantise import POSITION_TICKS, POSITIONS, TokenError

BAR_TICKS = POSITIONS * POSITION_TICKS
_BAR = Remi.vocabulary["Bar"]


class RemiDialect:
    """The token language of pop piano, to a sampler: see `Dialect`."""

    language = Remi()
    taste = Taste(temperature=1.2, top_p=0.9)
    first = _BAR
    bar_ticks = BAR_TICKS

    def guide(
        self,
        constraints: Constraints,
        tokens: Sequence[int],
        prompt_bars: int,
        setting: Mapping[str, Any],  # noqa: ARG002  (tokens say it all)
    ) -> Guide:
        """What may follow: see `RemiGuide`."""
        if constraints.grammar:
            return RemiGuide(self.language, constraints, tokens, prompt_bars)
        return FreeGuide(self.language, constraints, tokens, [self.language.pad], lambda place: int(place.bar))

    def complete_bars(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """How many bars are complete after each token: a `Bar` ends the one before."""
        bars: NDArray[np.int64] = np.cumsum(np.asarray(tokens) == _BAR) - 1
        return bars

    def read_prompt(self, source: Path | str | Score, bars: int | None) -> Prompt:
        """The first bars of a piece, and the `Bar` that follows them."""
        score, name, metre = load_prompt(source)
        if not score.chords and len(score.notes):
            score = score.replace(chords=find_chords(score))
        try:
            tokens, quantisation = self.language.encode(score)
        except TokenError as error:
            raise UserError(f"{name}: cannot be a prompt for a model that speaks remi: {error}") from None
        starts = self.language.bar_starts(tokens)
        taken, words = taken_bars(bars, len(starts) - 1)  # the last bar line ends the piece
        return Prompt(tokens[: starts[taken] + 1].tolist(), taken, {}, f"{name}: {quantisation}{metre}; {words}")

    def rendering(self, constraints: Constraints, setting: Mapping[str, Any]) -> RemiRendering:  # noqa: ARG002
        """How pieces sound: tokens say it all, but for a tempo between theirs."""
        said, meant = allowed_tempos(None)[0].tolist(), allowed_tempos(constraints.tempo)[0].tolist()
        return RemiRendering({ours: asked for ours, asked in zip(said, meant, strict=True) if ours != asked})


class RemiRendering:
    """How pieces sound.

    Args:
        tempos: Tempos that are meant, by those that tokens say.
    """

    def __init__(self, tempos: Mapping[float, float]) -> None:
        self.tempos = tempos

    def decode(self, tokens: Sequence[int], bar: int = 0) -> Score:
        """The music of tokens that begin with a given bar."""
        score = RemiDialect.language.decode(tokens)
        offset = bar * BAR_TICKS
        notes = score.notes.copy()
        notes["start"] += offset
        notes["end"] += offset
        changes = [(tick + offset, self.tempos.get(bpm, bpm)) for tick, bpm in score.tempos.tolist()]
        chords = tuple(ChordMark(mark.tick + offset, mark.chord) for mark in score.chords)
        return score.replace(notes=notes, tempos=make_tempos(changes), chords=chords)

    def decoder(self) -> RemiDecoder:
        """The same, as tokens come."""
        return RemiDecoder(self)


class RemiDecoder:
    """Music from tokens as they come: a bar is certain when the next begins."""

    def __init__(self, rendering: RemiRendering) -> None:
        self._rendering = rendering
        self._rest: list[int] = []
        self._bars = 0

    def feed(self, tokens: Sequence[int]) -> tuple[Score, int]:
        """The bars that have become complete, and where the next begins."""
        self._rest.extend(tokens)
        bars = RemiDialect.language.bar_starts(np.asarray(self._rest))
        end = int(bars[-1]) if len(bars) else 0
        part = self._rendering.decode(self._rest[:end], self._bars)
        self._bars += max(len(bars) - 1, 0)
        del self._rest[:end]
        return part, self._bars * BAR_TICKS

    def close(self) -> Score:
        """The bar that was left."""
        return self._rendering.decode(self._rest, self._bars)
