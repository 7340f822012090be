"""`GrooveExtended`: grooves with gaps that can be filled. Everything else is as in `Groove`, id by id."""

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
from musicgen.languages.groove.codec import OFF, SHIFT, decode_report, encode_notes
from musicgen.languages.groove.fill_mask import GrooveFillMask
from musicgen.languages.groove.gap_grammar import GapMoment, gap_grammar
from musicgen.languages.groove.gaps import EXTENDED, FILL, PART, PARTS, GapClock, clock_of, put_in, take_out, walk
from musicgen.languages.groove.language import Groove
from musicgen.languages.groove.quantise import choose_trio
from musicgen.languages.groove.rendering import setting_of
from musicgen.languages.groove.time import BAR
from musicgen.languages.groove.window import take_window
from musicgen.languages.infill import Gap, Gapped, Infill, check_gaps
from musicgen.languages.metre import COMMON, in_whole_bars
from musicgen.languages.prompt import load_prompt, report_of
from musicgen.languages.vocabulary import Tokens
from musicgen.midi.score import Score
from musicgen.request import PromptReading


class GrooveExtended(Groove):
    """The token language of grooves, with tokens for gaps."""

    name, variant = "groove-extended", "extended"
    vocabulary = EXTENDED
    corpora = Groove.name
    meaningless = (*Groove.meaningless, *range(PART, FILL + 1))

    @cached_property
    def grammar(self) -> Grammar[GapMoment]:  # type: ignore[override]
        """Which token may follow which."""
        return gap_grammar(EXTENDED)

    @cached_property
    def infill(self) -> Infill:  # type: ignore[override]
        """Gaps, and how they are filled."""
        return GrooveInfill(self, PARTS)

    def decode(self, tokens: NDArray[Any] | Sequence[int]) -> Score:
        """The trio that tokens stand for, with its gaps filled."""
        ids = np.asarray(tokens, np.int64)
        return decode_report(put_in(ids) if (ids == FILL).any() else ids)[0]

    def complete_bars(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        """How many bars are complete after each token, by the clock."""
        return walk(tokens).ticks // BAR

    def clock(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """The time after each token, in beats. It goes back only at `Fill`."""
        return clock_of(tokens)

    def start_clock(self) -> GapClock:  # type: ignore[override]
        """The same, token by token."""
        return GapClock()

    def transposition(self, semitones: int) -> Tokens:
        """The map of ids that transposes bass and other."""
        paper = super().transposition(semitones)
        return np.append(paper, np.arange(len(paper), len(EXTENDED))).astype(np.uint16)


class GrooveInfill(Infill):
    """Gaps in grooves."""

    def take_out(self, piece: Tokens, gaps: Sequence[Gap], bars: int | None = None) -> Tokens:
        """A piece with gaps, and its missing notes after it."""
        notes = decode_report(piece)[0].notes
        return take_out(notes if bars is None else notes[notes["start"] < BAR * bars], gaps)

    def put_in(self, tokens: Sequence[int] | NDArray[Any]) -> Tokens:
        """The whole piece without gaps."""
        return put_in(tokens)

    def mask(self, constraints: Constraints, tokens: Sequence[int], setting: Mapping[str, Any]) -> GrooveFillMask:
        """Keeps all constraints except chords and tempo."""
        return GrooveFillMask(self.language.grammar, constraints, tokens, setting)

    def lead_of(self, fill: Tokens, beats: NDArray[np.float64], start: float) -> Tokens:
        """The beginning of a fill, with the ends of notes at its first new bar line."""
        ends = (fill >= OFF) & (fill < SHIFT) & (beats == start)
        known = np.flatnonzero((beats < start) | ends)
        return fill[: int(known[-1]) + 1 if len(known) else 0]

    def read(self, source: Path | str | Score, gaps: Sequence[Gap], reading: PromptReading) -> Gapped:
        """A band with gaps."""
        score, name, done = load_prompt(source, reading)
        if reading.other is not None:
            raise UserError(f"other={reading.other} and fill=: bars are filled in the busiest track; leave out other")
        window = self.language._for_prompt(name, lambda: take_window(score, None, None))
        asked, gaps = gaps, check_gaps(gaps, window.bars, window.first)
        setting = setting_of(window.score, window.trio, 4 * (window.first + window.bars)) | {"skipped": window.first}
        report = report_of(name, window.report, done, f"{', '.join(map(str, asked))} to fill")
        tokens = encode_notes(window.notes)
        return Gapped(tokens, gaps, window.bars, setting, report, in_whole_bars(score, [COMMON]))

    def tracks(self, score: Score) -> list[tuple[int, ...]]:
        """The tracks of a band that are bass, drums and other."""
        return list(choose_trio(score))
