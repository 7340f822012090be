"""A finished piece: its tokens, how likely the model found them, and ways to save it.

Design note: the tokens are the piece. Score, MIDI file, picture and sound are made from them on demand, so they cannot
disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.language import Language
from musicgen.languages.rendering import Rendering
from musicgen.midi.bars import BarLines
from musicgen.midi.markers import CONTINUATION
from musicgen.midi.picture import draw_piano_roll
from musicgen.midi.score import Score
from musicgen.midi.sound import render_wav
from musicgen.midi.write import write_midi
from musicgen.sampling.form import Section, section_marks, sections_of


class Written(Protocol):
    """What a piece is made from; `PieceInProgress` explains these attributes."""

    @property
    def language(self) -> Language: ...
    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def ends(self) -> Sequence[int]: ...
    @property
    def likelihood(self) -> Sequence[float]: ...
    @property
    def masked_probability(self) -> Sequence[float]: ...
    @property
    def seed(self) -> int: ...
    @property
    def variation(self) -> int: ...
    @property
    def prompt_bars(self) -> int: ...
    @property
    def rendering(self) -> Rendering: ...
    @property
    def setting(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Piece:
    """A piece.

    Attributes:
        tokens: Ids, with the one that ends the piece, if it ended.
        seed, variation: What its choices depend on.
        sizes: Tokens in each bar.
        likelihood: Log-likelihood of each bar's tokens in nats, without masks and temperature.
        masked_probability: How much probability masks removed, from 0 to 1, as a mean over the tokens of each bar.
        prompt_bars: How many bars were given.
        prompt_end: The tick at which they end.
        errors: How many tokens the grammar does not allow where they are; none if the grammar was on.
        rendering: How it sounds.
        fills: The bars that were filled, as the user named them; empty for other pieces.
        following: Log-likelihood of the given bars after the first fill, in nats; None for other pieces.
        prompt_report: What was read of the prompt, and what quantising did to it; empty without a prompt.
    """

    tokens: tuple[int, ...]
    seed: int
    variation: int
    sizes: tuple[int, ...]
    likelihood: tuple[float, ...]
    masked_probability: tuple[float, ...]
    prompt_bars: int
    prompt_end: int
    errors: int
    rendering: Rendering = field(compare=False, repr=False)
    fills: tuple[str, ...] = ()
    following: float | None = None
    prompt_report: str = field(default="", compare=False, repr=False)
    sections: tuple[Section, ...] = ()

    @staticmethod
    def from_progress(piece: Written, prompt_report: str = "") -> Piece:
        """The piece that was written, and what to say about its prompt."""
        tokens = tuple(piece.tokens)
        score = piece.rendering.decode(tokens)
        lines = BarLines(score)
        bars = max(len(piece.ends), lines.bar(int(score.notes["start"].max(initial=0))) + 1)
        bounds = np.append(np.array(piece.ends, np.int64)[: bars - 1], len(tokens))
        sizes = np.diff(bounds, prepend=0)
        masked = _gathered(piece.masked_probability, len(sizes)) / np.maximum(sizes, 1)
        return Piece(
            tokens,
            piece.seed,
            piece.variation,
            tuple(sizes.tolist()),
            tuple(_gathered(piece.likelihood, len(sizes)).tolist()),
            tuple(masked.tolist()),
            piece.prompt_bars,
            lines.tick(piece.prompt_bars),
            len(piece.language.grammar.errors(tokens, complete=False)),
            piece.rendering,
            prompt_report=prompt_report,
            sections=tuple(section for section in sections_of(piece.setting) if section.bar < bars),
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
        """Markers of its MIDI file, besides bars and chords."""
        return [*marks_of(self.prompt_end), *section_marks(self.sections, BarLines(self.score))]

    @property
    def continuation(self) -> Score:
        """What follows the prompt, from its first bar on. Notes of the prompt that sound on are not part of it."""
        notes = self.score.notes[self.score.notes["start"] >= self.prompt_end].copy()
        notes["start"] -= self.prompt_end
        notes["end"] -= self.prompt_end
        return self.score.replace(notes=notes)

    def save(self, path: Path | str) -> None:
        """Write it to a MIDI file.

        Raises:
            UserError: The file cannot be written.
        """
        write_midi(self.score, path, self.marks)

    def picture(self, title: str = "") -> bytes:
        """Its piano roll, as a PNG."""
        return draw_piano_roll(self.score.replace(markers=tuple(self.marks)), title, self.prompt_end)

    def sound(self, soundfont: Path | None = None) -> bytes:
        """Its sound, as a WAV file."""
        return render_wav(self.score, soundfont)

    def record(self) -> dict[str, Any]:
        """Everything about it, for a JSON file."""
        fills = {} if self.following is None else {"fills": list(self.fills), "following": round(self.following, 6)}
        return {
            "seed": self.seed,
            "variation": self.variation,
            "bars": self.bars,
            "prompt_bars": self.prompt_bars,
            "notes": len(self.score.notes),
            "seconds": round(self.score.duration, 6),
            "log_likelihood": [round(nats, 6) for nats in self.likelihood],
            "tokens_of_bars": list(self.sizes),
            "mask_pressure": [round(share, 6) for share in self.masked_probability],
            "grammar_errors": self.errors,
            **fills,
            **({"sections": [section._asdict() for section in self.sections]} if self.sections else {}),
            "tokens": list(self.tokens),
        }


def marks_of(prompt_end: int) -> list[tuple[int, str]]:
    """The marker at the end of a prompt, if there is one."""
    return [(prompt_end, CONTINUATION)] if prompt_end else []


def _gathered(sums: Sequence[float], bars: int) -> NDArray[np.float64]:
    """Sums of bars; the last has those of later bars too, shape (bars,)."""
    gathered = np.array(sums[:bars])
    gathered[-1] += sum(sums[bars:])
    return gathered
