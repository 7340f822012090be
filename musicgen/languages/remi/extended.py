"""`ExtendedRemi`: pop piano in any common metre, with gaps that can be filled. Everything else is as in `Remi`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.grammar import Grammar
from musicgen.languages.infill import LONGEST_GAP, Gap, Gapped, Infill, check_gaps
from musicgen.languages.metre import in_whole_bars
from musicgen.languages.prompt import load_prompt, report_of
from musicgen.languages.remi.codec import decode
from musicgen.languages.remi.fill_mask import RemiFillMask
from musicgen.languages.remi.gap_grammar import GapPlace, gap_grammar
from musicgen.languages.remi.gaps import GapClock, clock, complete_bars, put_in, take_out
from musicgen.languages.remi.language import Remi
from musicgen.languages.remi.tokens import EXTENDED
from musicgen.languages.vocabulary import Tokens
from musicgen.midi.score import Score
from musicgen.request import PromptReading


class ExtendedRemi(Remi):
    """The extended tokens of pop piano: any common metre, triplets, long notes, all velocities and tempos, and gaps."""

    name, variant, grid = "remi-extended", "extended", 12
    tokens = EXTENDED
    vocabulary = tokens.vocabulary
    first, end = vocabulary["Bar"], vocabulary["EOS"]
    meaningless = (vocabulary["PAD"], *vocabulary.ids["Gap"], vocabulary["Fill"])

    @cached_property
    def grammar(self) -> Grammar[GapPlace]:  # type: ignore[override]
        """Which token may follow which."""
        return gap_grammar(EXTENDED)

    @cached_property
    def infill(self) -> Infill:  # type: ignore[override]
        """Gaps, and how they are filled."""
        return RemiInfill(self)

    def decode(self, tokens: NDArray[Any] | Sequence[int]) -> Score:
        """The piece that tokens stand for, with its gaps filled."""
        ids = np.asarray(tokens, np.int64)
        return decode(put_in(ids, EXTENDED) if (ids == self.infill.fill).any() else ids, EXTENDED)

    def complete_bars(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        """How many bars are complete after each token."""
        return complete_bars(tokens, EXTENDED)

    def clock(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """The time after each token, in quarter notes. It goes back only at `Fill`."""
        return clock(tokens, EXTENDED)

    def start_clock(self) -> GapClock:
        """A clock that reads one token at a time."""
        return GapClock(EXTENDED)


class RemiInfill(Infill):
    """Gaps in pop piano."""

    has_tempo = True

    def take_out(self, piece: Tokens, gaps: Sequence[Gap], bars: int | None = None) -> Tokens:
        """A piece with gaps, and its missing bars after it."""
        return take_out(piece, gaps, EXTENDED, bars)

    def put_in(self, tokens: Sequence[int] | NDArray[Any]) -> Tokens:
        """The whole piece without gaps."""
        return put_in(tokens, EXTENDED)

    def bars_within(self, piece: Tokens, length: int) -> int:
        """Bars of a piece that are in its first tokens: those with a `Bar` after them."""
        return int(self.language.complete_bars(piece)[min(length, len(piece) - 1)])

    def can_take_out(self, piece: Tokens, gaps: Sequence[Gap]) -> bool:
        """Whether the metre is the same in all bars of each gap."""
        ids = np.asarray(piece, np.int64)
        metres, bars = self.language.vocabulary.ids["Metre"], self.language.complete_bars(ids)
        changes = bars[(ids >= metres.start) & (ids < metres.stop)]
        return not any(((changes > gap.first) & (changes < gap.end)).any() for gap in gaps)

    def beats(self, score: Score, gap: Gap) -> tuple[float, float]:
        """Where a gap of a piece begins and ends, in quarter notes, by its metres."""
        return self._beat(score, gap.first), self._beat(score, gap.end)

    def mask(self, constraints: Constraints, tokens: Sequence[int], setting: Mapping[str, Any]) -> RemiFillMask:
        """Keeps all constraints for a piano."""
        return RemiFillMask(self.language.grammar, EXTENDED, constraints, tokens, setting)

    def lead_of(self, fill: Tokens, beats: NDArray[np.float64], start: float) -> Tokens:
        """The beginning of a fill, with the `Bar` of its first new bar."""
        return fill[: int((beats >= start).argmax()) + 1]

    def read(self, source: Path | str | Score, gaps: Sequence[Gap], reading: PromptReading) -> Gapped:
        """A piece with gaps."""
        language = self.language
        score, name, done = load_prompt(source, reading)
        tokens, quantisation = language._for_prompt(name, lambda: language.encode(language.complete(score)))
        bars, skipped = int(language.complete_bars(tokens)[-1]), int(quantisation.skipped_bars)
        asked = _joined(gaps)
        gaps = check_gaps(asked, bars, skipped)
        if not self.can_take_out(tokens, gaps):
            raise UserError(f"fill={','.join(map(str, asked))}: the metre changes in these bars; fill them one by one")
        setting = language.prompt_setting(score) | {"skipped": skipped}
        report = report_of(name, str(quantisation), done, f"{bars} bars, {', '.join(map(str, asked))} to fill")
        return Gapped(tokens, gaps, bars, setting, report, in_whole_bars(score, EXTENDED.metres))

    def tracks(self, score: Score) -> list[tuple[int, ...]]:
        """All tracks but drums are the piano."""
        return [tuple(number for number, track in enumerate(score.tracks) if not track.is_drum)]

    def _beat(self, score: Score, bar: int) -> float:
        signatures = [*score.time_signatures]
        beat, count = 0.0, 0
        for number, (tick, upper, lower) in enumerate(signatures):
            following = signatures[number + 1].tick if number + 1 < len(signatures) else None
            begin = beat if number == 0 else tick / score.ticks_per_beat
            length = 4 * upper / lower
            inside = bar - count if following is None else round((following / score.ticks_per_beat - begin) / length)
            if count + inside >= bar:
                return begin + (bar - count) * length
            count, beat = count + inside, begin + inside * length
        return beat + 4.0 * (bar - count)


def _joined(gaps: Sequence[Gap]) -> list[Gap]:
    """Gaps between which a bar stays: neighbours become one.

    Raises:
        UserError: They are too long together.
    """
    joined: list[Gap] = []
    for gap in gaps:
        if joined and gap.first == joined[-1].end:
            joined[-1] = Gap(joined[-1].first, joined[-1].bars + gap.bars)
        else:
            joined.append(gap)
    for gap in joined:
        if gap.bars > LONGEST_GAP:
            raise UserError(f"fill={gap}: a gap has at most {LONGEST_GAP} bars; leave a bar between two gaps")
    return joined
