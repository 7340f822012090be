"""A finished piece: its tokens, what the model thought of them, and the ways to keep it.

The hard choice: tokens are the piece, and everything else is made from them when it is asked for: the score, the MIDI
file, the picture, the sound. Nothing can then disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.picture import draw_piano_roll
from musicgen.midi.score import Score
from musicgen.midi.sound import render_wav
from musicgen.midi.write import write_midi
from musicgen.sampling.dialect import Decoder, Dialect, Rendering
from musicgen.sampling.sampler import Step, Take

FOREVER = 1 << 40
CONTINUES = "Continuation"
"""The marker at the end of a prompt."""


@dataclass(frozen=True)
class Piece:
    """A piece.

    Attributes:
        tokens: Ids, with that of the end if the piece ended.
        seed, variation: What it was made from.
        sizes: Tokens of each bar.
        likelihood: What the model thought of each bar: log-likelihood of its tokens, in nats, without masks and
            temperature.
        pressure: How much probability masks took away, the mean over the tokens of each bar, from 0 to 1.
        prompt_bars: How many bars were given.
        prompt_end: The tick at which they end.
        errors: Tokens that the grammar does not allow where they stand; none if it was on.
        rendering: How it sounds.
    """

    tokens: tuple[int, ...]
    seed: int
    variation: int
    sizes: tuple[int, ...]
    likelihood: tuple[float, ...]
    pressure: tuple[float, ...]
    prompt_bars: int
    prompt_end: int
    errors: int
    rendering: Rendering = field(compare=False, repr=False)

    @staticmethod
    def from_take(take: Take, dialect: Dialect, rendering: Rendering) -> Piece:
        """What has become of a take."""
        tokens = tuple(take.tokens)
        starts = rendering.decode(tokens).notes["start"]
        bars = max(len(take.ends), int(starts.max(initial=0)) // dialect.bar_ticks + 1)
        bounds = np.append(np.array(take.ends, np.int64)[: bars - 1], len(tokens))
        sizes = np.diff(bounds, prepend=0)
        pressure = _gathered(take.pressure, len(sizes)) / np.maximum(sizes, 1)
        return Piece(
            tokens,
            take.seed,
            take.variation,
            tuple(sizes.tolist()),
            tuple(_gathered(take.likelihood, len(sizes)).tolist()),
            tuple(pressure.tolist()),
            take.prompt_bars,
            take.prompt_bars * dialect.bar_ticks,
            len(dialect.language.grammar.errors(tokens, complete=False)),
            rendering,
        )

    @property
    def bars(self) -> int:
        """How many bars it has."""
        return len(self.sizes)

    @cached_property
    def score(self) -> Score:
        """The music."""
        return self.rendering.decode(self.tokens)

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
            "tokens_of_bars": list(self.sizes),
            "mask_pressure": [round(share, 6) for share in self.pressure],
            "grammar_errors": self.errors,
            "tokens": list(self.tokens),
        }


def _gathered(sums: Sequence[float], bars: int) -> NDArray[np.float64]:
    """Sums of bars, with those of later ones in the last, shape (bars,)."""
    gathered = np.array(sums[:bars])
    gathered[-1] += sum(sums[bars:])
    return gathered


def bar_by_bar(steps: Iterable[Step], decoder: Decoder, bar_ticks: int, first: int) -> Iterator[Score]:
    """Bars of a piece from its tokens as they come, from a given one on."""
    known, bar, fed = list[Score](), first, 0
    for take, _, is_last in steps:
        if not (take.at_bar_line or is_last):
            continue
        part, until = decoder.feed(take.tokens[fed:])
        fed = len(take.tokens)
        known.append(part)
        if is_last:
            known.append(decoder.close())
            last = max(int(part.notes["start"].max(initial=0)) for part in known)
            until = max(take.bars, last // bar_ticks + 1) * bar_ticks
        while (bar + 1) * bar_ticks <= until:
            yield _between(known, bar * bar_ticks, (bar + 1) * bar_ticks)
            bar += 1
        known = [_between(known, bar * bar_ticks, FOREVER)]


def _between(parts: Sequence[Score], start: int, end: int) -> Score:
    """What begins between two ticks."""
    notes = np.concatenate([part.notes for part in parts])
    tempos = np.concatenate([part.tempos for part in parts])
    return parts[0].replace(
        notes=notes[(notes["start"] >= start) & (notes["start"] < end)],
        tempos=tempos[(tempos["tick"] >= start) & (tempos["tick"] < end)],
        chords=tuple(mark for part in parts for mark in part.chords if start <= mark.tick < end),
    )
