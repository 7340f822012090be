"""`Language`: everything that the rest of the program needs from a token language.

A token language is one folder: its vocabulary and grammar, the way from music to tokens and back, its corpora, training
examples and sampling.

Design note: the defaults describe a simple language, whose corpora store tokens and whose examples are crops. A new one
defines a vocabulary, a grammar, `encode`, `decode`, `complete_bars` and `clock`. Nobody else asks which language it is.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.duplicates import Sketch, sketch
from musicgen.languages.examples import Crops, Examples
from musicgen.languages.grammar import Grammar
from musicgen.languages.grid import TokenError, counted
from musicgen.languages.infill import Infill
from musicgen.languages.layouts import Found, find_midi
from musicgen.languages.mask import ConstraintMask, FreeMask, GrammarMask
from musicgen.languages.panel import Panel
from musicgen.languages.prompt import encode_bars, load_prompt, report_of, taken_bars
from musicgen.languages.rendering import PlainRendering, Rendering
from musicgen.languages.song import Read, Song, Songs, TokenSong
from musicgen.languages.split import SPLITS, Placement
from musicgen.languages.split_by_copies import assign_by_copies, check_copies
from musicgen.languages.vocabulary import Tokens, Vocabulary
from musicgen.midi.read import parse_file
from musicgen.midi.score import Score
from musicgen.request import PromptReading

PLAINLY = PromptReading()
Places = NDArray[np.int64]


class Encoded(NamedTuple):
    """A piece in tokens, and a report (a dataclass of counts) of what quantising did to it."""

    tokens: Tokens
    quantisation: Any


class Prompt(NamedTuple):
    """A prompt in tokens.

    Attributes:
        tokens: The beginning of the piece. The model has not read the last token yet.
        bars: How many bars it has.
        setting: What a continuation inherits from it besides tokens, as plain data: see `Language.rendering`.
        report: What was read, and what quantising did to it.
    """

    tokens: Sequence[int]
    bars: int
    setting: Mapping[str, Any]
    report: str


class Clock(Protocol):
    """The musical time of a piece, token by token, in a state of constant size."""

    def advance(self, token: int) -> float:
        """The time after a token, in beats since the beginning. It goes back only where a gap is filled."""


class Language(abc.ABC):
    """A token language.

    Attributes:
        name: Its name in `tokenizer.json`; `title` is for people.
        vocabulary: Its tokens.
        first, end: The tokens that every piece begins and ends with.
        meaningless: Tokens that say nothing about music (padding, beginnings).
        sampling: Usual sampling settings for such music.
        note_family: The token family that occurs once in each note.
        rhythm: Token families that say when notes begin and how long they are; they may be sampled in their own way.
        grid: Steps in a beat at which its notes begin.
        can_repeat: Whether bars can be encoded again at a later bar line, and leave the tokens before it as they are.
        plays_apart: Whether each instrument is a separate line; otherwise the whole piece is one line.
        has_styles: Whether its songs are examples of styles, so that continuations can be scored for style.
        source: What `musicgen prepare source=` calls its files.
        variant: Which vocabulary for such files it has: `paper` or `extended`.
        synthetic: What `musicgen prepare source=` calls music composed by the program; empty if there is none.
        layouts: Kinds of folders that it can read; the first that fits is used.
        splits, song_type: The splits of its corpora, and a line of their index.
        array, dtype: The file that holds the music of its corpora, and the type of that array.
        row: What a row of that array is called.
        corpora: The language whose corpora it reads; empty means its own.
        infill: How bars are taken out of a piece and filled; None if its vocabulary has no gaps.
    """

    name: ClassVar[str]
    title: ClassVar[str] = "songs"
    vocabulary: Vocabulary
    first: int
    end: int
    meaningless: tuple[int, ...] = ()
    sampling: ClassVar[Mapping[str, float]] = {}
    note_family: str
    rhythm: ClassVar[tuple[str, ...]] = ()
    grid: int = 4
    can_repeat: bool = False
    plays_apart: bool = False
    has_styles: bool = False

    source: ClassVar[str]
    variant: ClassVar[str] = "paper"
    synthetic: ClassVar[str] = ""
    layouts: ClassVar[tuple[str, ...]] = ("folder",)
    splits: ClassVar[tuple[str, ...]] = SPLITS
    song_type: ClassVar[type[Song]] = TokenSong
    array: ClassVar[str] = "tokens.npy"
    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.uint16)
    row: ClassVar[str] = "token"
    corpora: ClassVar[str] = ""
    infill: Infill | None = None

    def reads(self, other: Language) -> bool:
        """Whether corpora of another language are also its own."""
        return (self.corpora or self.name) == (other.corpora or other.name)

    def __reduce__(self) -> tuple[type[Language], tuple[()]]:
        return type(self), ()  # a language has no data besides its class, so only the class goes to a child process

    # Music and tokens

    @cached_property
    @abc.abstractmethod
    def grammar(self) -> Grammar[Any]:
        """Which token may follow which."""

    @abc.abstractmethod
    def encode(self, score: Score) -> Encoded:
        """A piece in tokens.

        Raises:
            TokenError: The language cannot express it.
        """

    @abc.abstractmethod
    def decode(self, tokens: NDArray[Any] | Sequence[int]) -> Score:
        """The piece that tokens stand for. If tokens break the grammar, the parts that make sense are read."""

    @abc.abstractmethod
    def complete_bars(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        """How many bars are complete after each token, shape (tokens,)."""

    @abc.abstractmethod
    def clock(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """The musical time after each token, in beats since the beginning, shape (tokens,); as `Clock` tells it."""

    @abc.abstractmethod
    def start_clock(self) -> Clock:
        """A clock that reads one token at a time."""

    def quantise(self, score: Score) -> Score:
        """The nearest music that tokens can express."""
        return self.decode(self.encode(score).tokens)

    def unquantised(self, score: Score) -> Score:
        """The notes that `quantise` puts on the grid, as they are before it, in its bars."""
        return score

    def transposition(self, semitones: int) -> Tokens:  # noqa: ARG002  (a language may have no pitches)
        """The map of ids that transposes: `transposition(semitones)[tokens]`, shape (vocabulary,)."""
        return np.arange(len(self.vocabulary)).astype(np.uint16)

    def headroom(self, tokens: NDArray[Any]) -> tuple[int, int]:  # noqa: ARG002
        """How many semitones tokens can be moved down (at most 0) and up (at least 0) without leaving the range."""
        return 0, 0

    # Corpora

    def find(self, folder: Path, layout: str, is_asked: bool) -> Found | None:
        """The songs in a folder; None if it is not of such a layout.

        Args:
            folder: The folder.
            layout: One of `layouts`, or `auto`.
            is_asked: Whether the user asked for this language. If not, only a folder that is clearly its own counts.
        """
        del layout
        return find_midi(folder) if is_asked else None

    def load(self, folder: Path, path: str, layout: str) -> Score:  # noqa: ARG002
        """Load the music of a file, as it is. A malformed file may kill the process: call it in a child process.

        Raises:
            UserError: The file cannot be used; the message says why.
        """
        return parse_file(folder / path)

    def complete(self, score: Score) -> Score:
        """Add what tokens need and a file may lack (such as chords)."""
        return score

    def compose(self, number: int, seed: int, bars: int) -> tuple[str, Score, Any]:
        """A synthetic song: its name, its music, and facts about it as `Found.facts` has them."""
        raise NotImplementedError(f"{self.name} has no synthetic music for song {number}, seed {seed}, {bars} bars")

    def read(self, score: Score, path: str, sha256: str, layout: str, facts: Any) -> Read:  # noqa: ARG002
        """What a corpus stores for a piece.

        Args:
            score: The piece.
            path: Where it comes from.
            sha256: Hash of the file.
            layout: Layout of the folder.
            facts: What is known about the file: see `Found`.

        Raises:
            UserError: It cannot be used; the message says why.
        """
        tokens, quantisation = self.encode(score)
        piece = self.decode(tokens)
        song = TokenSong(
            path,
            sha256,
            tokens=len(tokens),
            bars=int(self.complete_bars(tokens)[-1]),
            notes=len(piece.notes),
            seconds=round(piece.duration, 3),
            quantised=asdict(quantisation),
        )
        return Read(song, tokens, sketch(piece))

    def left_out(self, path: str, sha256: str | None, reason: str, facts: Any) -> Song:  # noqa: ARG002
        """The record of a file that cannot be used."""
        return self.song_type(path, sha256, dropped=reason)

    def assign(self, files: Sequence[Read], seed: int, lists: Mapping[str, str] | None) -> list[Placement]:
        """The split of each file.

        Args:
            files: The files that were read.
            seed: Draws the splits.
            lists: The split of each song by path, if the user chose it. Songs in no list are left out.
        """
        return assign_by_copies(files, seed, lists)

    def fits(self, rows: NDArray[Any], songs: Sequence[Any]) -> bool:  # noqa: ARG002
        """A quick check that the rows of a corpus can belong to its songs."""
        return int(rows.max(initial=0)) < len(self.vocabulary)

    def check_song(self, rows: NDArray[Any], song: Any) -> tuple[str, Sketch | None]:  # noqa: ARG002
        """What is wrong with a stored song ("" for nothing), and its sketch. Runs in a child process."""
        errors = self.grammar.errors(rows)
        sentence = f"token {errors[0].place}: {errors[0].sentence}" if errors else ""
        return sentence, sketch(self.decode(rows))

    def check_splits(self, songs: Sequence[Any], sketches: Mapping[str, Sketch | None]) -> Iterator[str]:
        """Sentences about songs that should share a split and do not."""
        return check_copies(songs, {path: item for path, item in sketches.items() if item is not None})

    def fingerprint(self, song: Any) -> bytes:  # noqa: ARG002
        """The part of a song's record that belongs to the fingerprint of a corpus."""
        return b""

    def tokens_of(self, rows: NDArray[Any], song: Any) -> Tokens:  # noqa: ARG002
        """A stored song in tokens."""
        return rows

    def score_of(self, rows: NDArray[Any], song: Any, every_part: bool = False) -> Score:
        """A stored song as music.

        Args:
            rows: Its rows.
            song: Its record.
            every_part: Whether to include instruments that tokens leave out.
        """
        del every_part
        return self.decode(self.tokens_of(rows, song))

    def summarise(self, songs: Songs) -> list[str]:  # noqa: ARG002
        """Lines about a corpus, in addition to the common ones."""
        return []

    def panels(self, songs: Songs, rows: NDArray[Any]) -> list[Panel]:  # noqa: ARG002
        """Panels of the picture of a corpus, in addition to the common ones; at most four."""
        return []

    # Training and evaluation

    def examples(self, songs: Songs, split: str, length: int, augmentation: Mapping[str, float]) -> Examples:
        """Training examples.

        Args:
            songs: The corpus.
            split: Which songs.
            length: Tokens in a window.
            augmentation: How examples are varied: `transpose` in semitones; the others are chances.
        """
        varied = (augmentation.get(name, 0.0) for name in ("transpose", "infill", "beginnings"))
        return Crops(self, songs, songs.songs(split), length, *varied)

    def window_starts(self, tokens: NDArray[Any]) -> Places:
        """Tokens at which a training window may begin: those that begin a bar."""
        return np.flatnonzero(np.diff(self.complete_bars(tokens), prepend=-1) > 0)[:-1]

    def restarts(self, tokens: Tokens) -> list[Places]:
        """Tokens that may be the first to be predicted in a restarted window: good places, then passable ones."""
        return [self.window_starts(tokens) + 1]

    def window(self, tokens: NDArray[Any], start: int, most: int) -> Tokens:
        """The tokens of a training window that begins at one of `window_starts`, and at most this many."""
        return tokens[start : start + most]

    def restart_context(self, tokens: NDArray[Any], start: int) -> Tokens:
        """What a restarted window reads before it predicts the token at `start`: at least one token."""
        return tokens[start - 1 : start]

    # Sampling

    def mask(
        self, constraints: Constraints, tokens: Sequence[int], prompt_bars: int, setting: Mapping[str, Any]
    ) -> ConstraintMask:
        """What may follow in a piece that begins with some tokens.

        Args:
            constraints: What new music must keep to.
            tokens: The beginning.
            prompt_bars: How many bars of it the user gave.
            setting: The setting of the prompt.

        Raises:
            UserError: The constraints cannot be kept.
        """
        if self.infill is not None and self.infill.fill in tokens:
            return self.infill.mask(constraints, tokens, setting)
        if not constraints.grammar:
            return FreeMask(self, constraints, tokens)
        return self.grammar_mask(constraints, tokens, prompt_bars, setting)

    def grammar_mask(
        self,
        constraints: Constraints,
        tokens: Sequence[int],
        prompt_bars: int,  # noqa: ARG002
        setting: Mapping[str, Any],  # noqa: ARG002
    ) -> ConstraintMask:
        """The mask if the grammar is on. The default keeps lengths only; a language may keep more constraints."""
        return GrammarMask(self, constraints, tokens)

    def read_prompt(self, source: Path | str | Score, bars: int | None, reading: PromptReading = PLAINLY) -> Prompt:
        """Turn the beginning of a piece, or all of it, into tokens.

        Args:
            source: A MIDI file or a score.
            bars: How many bars; None means all.
            reading: How it is read.

        Raises:
            UserError: It cannot be used; the message says why.
        """
        score, name, done = load_prompt(source, reading)
        if reading.other is not None:
            raise UserError(f"other={reading.other}: is for models of bands; {self.name} takes all tracks but drums")
        whole = self.complete(score)
        tokens, quantisation = self._for_prompt(name, lambda: self.encode(whole))
        available = int(self.complete_bars(tokens)[-1])
        taken, words = taken_bars(bars, available)
        if taken < available:
            tokens, quantisation = encode_bars(whole, taken, self.encode, self.complete_bars)
        prompt = self._cut_prompt(tokens, taken, report_of(name, str(quantisation), done, words))
        return prompt._replace(setting=self.prompt_setting(score))

    def prompt_setting(self, score: Score) -> dict[str, Any]:  # noqa: ARG002
        """What a continuation of a score inherits from it besides tokens."""
        return {}

    def prompt_of(self, rows: NDArray[Any], song: Any, bars: int, name: str) -> Prompt:
        """The first bars of a stored song as a prompt."""
        tokens = self.tokens_of(rows, song)
        taken = min(bars, int(self.complete_bars(tokens)[-1]))
        return self._cut_prompt(tokens, taken, report_of(name, f"{counted(taken, 'bar')} taken"))

    def rendering(self, constraints: Constraints, setting: Mapping[str, Any]) -> Rendering:  # noqa: ARG002
        """How a piece sounds under constraints, after a prompt with some setting (empty without a prompt)."""
        return PlainRendering(self)

    def _for_prompt(self, name: str, encode: Callable[[], Any]) -> Any:
        try:
            return encode()
        except TokenError as error:
            raise UserError(f"{name}: cannot be a prompt for a model of {self.name} tokens: {error}") from None

    def _cut_prompt(self, tokens: Tokens, bars: int, report: str) -> Prompt:
        """The tokens up to the one that completes the last of some bars."""
        after = int(np.searchsorted(self.complete_bars(tokens), bars)) + 1
        return Prompt(tokens[:after].tolist(), bars, {}, report)
