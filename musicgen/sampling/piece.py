"""A finished piece: its tokens, what the model thought of them, and the ways to keep it.

The hard choice: tokens are the piece, and everything else is made from them when it is asked for: the score, the MIDI
file, the picture, the sound. Nothing can then disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.picture import draw_piano_roll
from musicgen.midi.score import ChordMark, Score, make_tempos
from musicgen.midi.sound import render_wav
from musicgen.midi.write import write_midi
from musicgen.sampling.sampler import Take
from musicgen.tokens import Remi
from musicgen.tokens.quantise import POSITION_TICKS, POSITIONS

BAR_TICKS = POSITIONS * POSITION_TICKS
CONTINUES = "Continuation"
"""The marker at the end of a prompt."""


@dataclass(frozen=True)
class Piece:
    """A piece.

    Attributes:
        language: Its token language.
        tokens: Ids, `EOS` included if the piece ended.
        seed, variation: What it was made from.
        likelihood: What the model thought of each bar: log-likelihood of its tokens, in nats, without masks and
            temperature.
        pressure: How much probability masks took away, the mean over the tokens of each bar, from 0 to 1.
        prompt_bars: How many bars were given.
        tempos: Tempos that a file says in place of those of the tokens: quarter notes a minute by token's value.
        errors: Tokens that the grammar does not allow where they stand; none if it was on.
    """

    language: Remi
    tokens: tuple[int, ...]
    seed: int
    variation: int
    likelihood: tuple[float, ...]
    pressure: tuple[float, ...]
    prompt_bars: int
    tempos: Mapping[float, float]
    errors: int

    @staticmethod
    def from_take(take: Take, language: Remi, tempos: Mapping[float, float]) -> Piece:
        """What has become of a take."""
        tokens = tuple(take.tokens)
        sizes = bar_sizes(language, tokens)
        # What follows the last bar line, the end, is said of the bar before.
        likelihood, pressure = np.array(take.likelihood[: len(sizes)]), np.array(take.pressure[: len(sizes)])
        likelihood[-1:] += sum(take.likelihood[len(sizes) :])
        pressure[-1:] += sum(take.pressure[len(sizes) :])
        return Piece(
            language,
            tokens,
            take.seed,
            take.variation,
            tuple(likelihood.tolist()),
            tuple((pressure / np.maximum(sizes, 1)).tolist()),
            take.prompt_bars,
            tempos,
            len(language.grammar.errors(tokens, complete=False)),
        )

    @property
    def bars(self) -> int:
        """How many bars it has."""
        return len(self.likelihood)

    @cached_property
    def score(self) -> Score:
        """The music."""
        return decode(self.language, self.tokens, self.tempos)

    @property
    def prompt_end(self) -> int:
        """The tick at which the prompt ends."""
        return self.prompt_bars * BAR_TICKS

    @property
    def marks(self) -> list[tuple[int, str]]:
        """Markers of its MIDI file beside bars and chords."""
        return [(self.prompt_end, CONTINUES)] if self.prompt_bars else []

    def save(self, path: Path | str) -> None:
        """Write it to a MIDI file.

        Raises:
            UserError: That cannot be written.
        """
        write_midi(self.score, path, self.marks)

    def picture(self, title: str = "") -> bytes:
        """Its piano roll, as a PNG."""
        return draw_piano_roll(self.score, title, self.prompt_end)

    def sound(self, soundfont: Path | None = None) -> bytes:
        """Its sound, as a WAV file."""
        return render_wav(self.score, soundfont)

    def record(self) -> dict[str, Any]:
        """What is known of it, for a JSON file."""
        return {
            "seed": self.seed,
            "variation": self.variation,
            "bars": self.bars,
            "prompt_bars": self.prompt_bars,
            "notes": len(self.score.notes),
            "seconds": round(self.score.duration, 6),
            "log_likelihood": [round(nats, 6) for nats in self.likelihood],
            "tokens_of_bars": bar_sizes(self.language, self.tokens).tolist(),
            "mask_pressure": [round(share, 6) for share in self.pressure],
            "grammar_errors": self.errors,
            "tokens": list(self.tokens),
        }


def bar_sizes(language: Remi, tokens: Sequence[int]) -> NDArray[np.int64]:
    """Tokens in each bar, its `Bar` included; what follows the closing one is part of the last, shape (bars,)."""
    starts = language.bar_starts(np.asarray(tokens))
    body = len(tokens) - (tokens[-1] == language.end)
    is_closed = len(starts) > 1 and starts[-1] == body - 1
    sizes: NDArray[np.int64] = np.diff(starts[:-1] if is_closed else starts, append=len(tokens))
    return sizes


def decode(language: Remi, tokens: Sequence[int], tempos: Mapping[float, float], bar: int = 0) -> Score:
    """The music of tokens that begin with a given bar.

    Args:
        language: Their language.
        tokens: Ids.
        tempos: See `Piece`.
        bar: The number of the first bar, from 0.
    """
    score = language.decode(tokens)
    offset = bar * BAR_TICKS
    notes = score.notes.copy()
    notes["start"] += offset
    notes["end"] += offset
    changes = [(tick + offset, tempos.get(bpm, bpm)) for tick, bpm in score.tempos.tolist()]
    chords = tuple(ChordMark(mark.tick + offset, mark.chord) for mark in score.chords)
    return score.replace(notes=notes, tempos=make_tempos(changes), chords=chords)
