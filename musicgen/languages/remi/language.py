"""`Remi`: the token language of pop piano, as the rest of the program sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from musicgen.languages.constraints import Constraints
from musicgen.languages.grammar import Grammar
from musicgen.languages.language import Encoded, Language
from musicgen.languages.layouts import Found
from musicgen.languages.panel import Panel
from musicgen.languages.remi.clock import RemiClock, clock
from musicgen.languages.remi.codec import decode, encode
from musicgen.languages.remi.grammar import Place, remi_grammar
from musicgen.languages.remi.layouts import LAYOUTS, find
from musicgen.languages.remi.mask import RemiMask
from musicgen.languages.remi.quantise import quantise, unquantised
from musicgen.languages.remi.rendering import EXACT, RemiRendering
from musicgen.languages.remi.synthetic import compose
from musicgen.languages.remi.tokens import CHORD_NUMBER, CHORDS, PAPER, PITCHES, TokenSet
from musicgen.languages.song import Songs
from musicgen.languages.vocabulary import Tokens
from musicgen.midi.harmony import find_chords
from musicgen.midi.score import DEFAULT_BPM, Score


class Remi(Language):
    """The token language of pop piano: the 361 tokens of the paper.

    Attributes:
        tokens: What its tokens can say.
    """

    name = "remi"
    title = "pop piano"
    tokens: ClassVar[TokenSet] = PAPER
    vocabulary = tokens.vocabulary
    first, end = vocabulary["Bar"], vocabulary["EOS"]
    meaningless = (vocabulary["PAD"],)
    sampling: ClassVar[dict[str, float]] = {"temperature": 1.2, "top_p": 0.9}
    note_family = "Pitch"
    rhythm = ("Bar", "Metre", "Beat", "Duration")
    can_repeat = True

    source, synthetic = "pop_piano", "synthetic"
    layouts = tuple(LAYOUTS)

    @cached_property
    def grammar(self) -> Grammar[Place]:
        """Which token may follow which."""
        return remi_grammar(self.tokens)

    def encode(self, score: Score) -> Encoded:
        """A piece in tokens."""
        quantised, quantisation = quantise(score, self.tokens)
        return Encoded(encode(quantised, self.tokens), quantisation)

    def decode(self, tokens: NDArray[Any] | Sequence[int]) -> Score:
        """The piece that tokens stand for."""
        return decode(tokens, self.tokens)

    def quantise(self, score: Score) -> Score:
        """The nearest piece that tokens can express."""
        return quantise(score, self.tokens)[0]

    def unquantised(self, score: Score) -> Score:
        """The notes of a piano that `quantise` puts on the grid, as they are before it, in its bars."""
        return unquantised(score, self.tokens)

    def complete_bars(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        """How many bars are complete after each token: a `Bar` ends the one before."""
        bars: NDArray[np.int64] = np.cumsum(np.asarray(tokens) == self.first) - 1
        return bars

    def clock(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """The time after each token, in quarter notes."""
        return clock(tokens, self.tokens)

    def start_clock(self) -> RemiClock:
        """A clock that reads one token at a time."""
        return RemiClock(self.tokens)

    def transposition(self, semitones: int) -> Tokens:
        """The permutation of ids that transposes notes and chords.

        It is meant for pieces that stay on the keyboard (see `headroom`): a pitch that leaves it returns at the other
        end.
        """
        permutation = np.arange(len(self.vocabulary))
        pitches, chords = self.vocabulary.ids["Pitch"], self.vocabulary.ids["Chord"]
        permutation[pitches.start : pitches.stop] = np.roll(np.array(pitches), -semitones)
        for number, chord in enumerate(CHORDS):
            permutation[chords.start + number] = chords.start + CHORD_NUMBER[chord.transposed(semitones)]
        return permutation.astype(np.uint16)

    def headroom(self, tokens: NDArray[Any]) -> tuple[int, int]:
        """How far tokens can be moved down (at most 0) and up (at least 0) on the keyboard."""
        words = self.vocabulary
        pitch = words.value[tokens][words.family[tokens] == words.number("Pitch")]
        if not len(pitch):
            return -len(PITCHES), len(PITCHES)
        return -int(pitch.min()), len(PITCHES) - 1 - int(pitch.max())

    # Corpora

    def find(self, folder: Path, layout: str, is_asked: bool) -> Found | None:  # noqa: ARG002
        """The songs of a folder. Any folder of MIDI files will do."""
        return find(folder, layout)

    def load(self, folder: Path, path: str, layout: str) -> Score:
        """Load the music of a file, with its annotated beats and chords if there are any."""
        return LAYOUTS[layout].load(folder / path)

    def complete(self, score: Score) -> Score:
        """Find chords if the file has none."""
        return score if score.chords or not len(score.notes) else score.replace(chords=find_chords(score))

    def compose(self, number: int, seed: int, bars: int) -> tuple[str, Score, Any]:
        """A synthetic song."""
        return f"synthetic/{seed}/{number:05d}", compose(seed * 1_000_003 + number, bars), None

    def summarise(self, songs: Songs) -> list[str]:
        """What quantising did to the notes."""
        kept = songs.songs()
        notes = sum(song.quantised["notes"] for song in kept if song.quantised)
        changes = {
            name: sum(song.quantised[name] for song in kept if song.quantised) / max(notes, 1)
            for name in ("moved", "clamped", "trimmed", "merged", "dropped")
        }
        parts = ", ".join(f"{part:.1%} {name}" for name, part in changes.items())
        return [f"notes put on the grid: {notes:,}, of which {parts}"] if kept else []

    def panels(self, songs: Songs, rows: NDArray[Any]) -> list[Panel]:  # noqa: ARG002
        """Tempos, pitches, positions and chord qualities."""
        words = self.vocabulary
        counts = np.bincount(rows, minlength=len(words))
        titles = {
            "Tempo": "tempo (beats per minute)",
            "Pitch": "pitch (60 is middle C)",
            "Beat": "position in the bar",
        }
        panels = []
        for family, title in titles.items():
            ids = words.ids[family]
            values = [float(name.partition("_")[2]) for name in words.names[ids.start : ids.stop]]
            panels.append(Panel("bars", title, "tokens", counts[ids.start : ids.stop].tolist(), at=values))
        qualities = Counter[str]()
        for chord, count in zip(CHORDS, counts[words.first("Chord") :], strict=False):
            qualities[str(chord).split("_", 1)[1]] += int(count)
        names, heights = zip(*qualities.most_common(), strict=True)
        return [*panels, Panel("bars", "chord quality", "tokens", heights, names)]

    # Training

    def window(self, tokens: NDArray[Any], start: int, most: int) -> Tokens:
        """The tokens of a window. It says the metre that holds at its beginning."""
        context = self.restart_context(tokens, start + 1)
        return np.concatenate([context, tokens[start + 1 : start + 1 + most - len(context)]])

    def restart_context(self, tokens: NDArray[Any], start: int) -> Tokens:
        """What a window reads before it predicts the token at `start`: the `Bar` before it, and the metre."""
        context = tokens[start - 1 : start]
        if not self.tokens.has_metres or context[0] != self.first:
            return context
        metres = self.vocabulary.ids["Metre"]
        said = np.flatnonzero((tokens[: start + 1] >= metres.start) & (tokens[: start + 1] < metres.stop))
        return context if not len(said) or said[-1] == start else np.append(context, tokens[said[-1]])

    # Sampling

    def grammar_mask(
        self, constraints: Constraints, tokens: Sequence[int], prompt_bars: int, _: Mapping[str, Any]
    ) -> RemiMask:
        """Keeps all constraints for a piano."""
        return RemiMask(self.grammar, self.tokens, constraints, tokens, prompt_bars)

    def prompt_setting(self, score: Score) -> dict[str, Any]:
        """The tempos of a prompt that are between those of the tokens."""
        exact = dict[float, float]()
        for bpm in score.tempos["bpm"].tolist() or [DEFAULT_BPM]:
            written = float(self.tokens.tempos[self.tokens.nearest_tempo(bpm)])
            if abs(bpm - written) < self.tokens.tempos.step:  # others are out of the range of tokens
                exact[written] = round(bpm, 6)
        return {EXACT: [[written, bpm] for written, bpm in exact.items() if written != bpm]}

    def rendering(self, constraints: Constraints, setting: Mapping[str, Any]) -> RemiRendering:
        """How pieces sound."""
        return RemiRendering(self.tokens, constraints, setting)
