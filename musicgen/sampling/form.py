"""Form: sections that return, as in AABA. They are the same music again, and end in the model's own way.

A section that is new is written by the model. When its letter comes again, the first three quarters of its bars are
repeated note by note, and the model, which reads them, writes the last quarter anew. So the second A of AABA leads on
to B, and the last A to the end of the piece.

Design note: what is repeated are notes, chords and tempos, which are encoded again where they now stand, because tokens
say only what changes. Notes that would strike a key that is down are left out. The rest of the piece has exactly the
tokens that it had.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.language import Language
from musicgen.midi.bars import BarLines
from musicgen.midi.markers import section_text
from musicgen.midi.score import ChordMark, Score, TimeSignature, make_tempos
from musicgen.sampling.sampler import Sampler, Step

if TYPE_CHECKING:
    from musicgen.sampling.in_progress import PieceInProgress
    from musicgen.sampling.music_model import MusicModel

SECTIONS = "sections"
"""Key of a setting: a list of (first bar, letter, how many bars are repeated), which is saved with states."""
LETTERS = re.compile(r"[A-Z]{1,100}\Z")
ALONE = ("seconds", "tokens", "prompt", "from_state", "fork_at", "fill")
"""Options that do not go with a form."""


class Section(NamedTuple):
    """A section of a piece: its first bar, its letter, and how many bars at its beginning are repeated."""

    bar: int
    letter: str
    repeated: int


@dataclass(frozen=True)
class Form:
    """The form of a piece.

    Attributes:
        letters: A letter for each section.
        section_bars: How many bars each has.
    """

    letters: str
    section_bars: int

    @property
    def bars(self) -> int:
        """How many bars the piece has."""
        return len(self.letters) * self.section_bars

    @property
    def repeated(self) -> int:
        """How many bars of a section that returns are repeated."""
        return self.section_bars * 3 // 4

    def check(self, constraints: Constraints, language: Language) -> None:
        """Check that pieces can have this form.

        Raises:
            UserError: They cannot.
        """
        if not language.can_repeat:
            raise UserError(f"form={self.letters}: models of {language.title} have no forms yet; leave it out")
        if not constraints.grammar:
            raise UserError(f"form={self.letters} and grammar=false: it is the grammar that counts bars; leave out one")
        if constraints.chords and self.section_bars % len(constraints.chords):
            raise UserError(
                f"chords and form={self.letters}: {len(constraints.chords)} chords do not fit into sections of "
                f"{self.section_bars} bars, which return with their chords; give as many chords as divide it"
            )

    def run(self, sampler: Sampler, pieces: Iterable[PieceInProgress], music_model: MusicModel) -> Iterator[Step]:
        """Write pieces of this form to their ends; tokens as they come."""
        for step in sampler.run(self._begun(pieces)):
            yield step
            if step.piece.at_bar_line and not step.is_last:
                bars = step.piece.bars
                yield from self._go_on(step.piece, music_model)
                if step.piece.bars > bars:
                    sampler.rejoin(step.piece)

    def _begun(self, pieces: Iterable[PieceInProgress]) -> Iterator[PieceInProgress]:
        """Pieces that know their first section."""
        for piece in pieces:
            piece.setting = {**piece.setting, SECTIONS: [[0, self.letters[0], 0]]}
            yield piece

    def _go_on(self, piece: PieceInProgress, music_model: MusicModel) -> Iterator[Step]:
        """Begin a section at a bar line, if one begins there, and repeat what is repeated, token by token."""
        number, rest = divmod(piece.bars, self.section_bars)
        if rest or number >= len(self.letters):
            return
        letter, tokens = self.letters[number], piece.tokens.tolist()
        first, before = self.letters.index(letter), len(tokens)
        if first < number:
            tokens = repeat(piece.language, tokens, first * self.section_bars, self.repeated, piece.constraints)
        bars = int(piece.language.complete_bars(tokens)[-1]) - piece.bars
        piece.setting = {**piece.setting, SECTIONS: [*piece.setting[SECTIONS], [piece.bars, letter, bars]]}
        if bars == 0:
            return
        nats, state = music_model.read(tokens, state=piece.states[piece.bars])
        for token, likelihood in zip(tokens[before:], nats.tolist(), strict=True):
            piece.append(token, likelihood, 0.0)
            if len(piece.tokens) == len(tokens):
                piece.keep_state(state)
                piece.resume()
            yield Step(piece, token, False)


def parse_form(letters: str, section_bars: int) -> Form:
    """A form from what the user writes.

    Raises:
        UserError: It is no form.
    """
    text = letters.strip().upper()
    if not LETTERS.match(text):
        raise UserError(f"form={letters}: takes a letter for each section, such as AABA")
    return Form(text, section_bars)


def sections_of(setting: Mapping[str, Any]) -> list[Section]:
    """The sections of a piece, from its setting; what makes no sense in a file is left out."""
    found = setting.get(SECTIONS, ())
    kinds = (int, str, int)
    return [
        Section(*item)
        for item in (found if isinstance(found, list | tuple) else ())
        if isinstance(item, list | tuple) and len(item) == 3 and all(map(isinstance, item, kinds)) and item[0] >= 0
    ]


def section_marks(sections: Sequence[Section], lines: BarLines) -> list[tuple[int, str]]:
    """Markers of sections."""
    return [(lines.tick(section.bar), section_text(section.letter)) for section in sections]


def repeat(language: Language, tokens: Sequence[int], first: int, bars: int, constraints: Constraints) -> list[int]:
    """The tokens of a piece at a bar line, and after them some of its bars again.

    Args:
        language: Its token language.
        tokens: The piece so far.
        first: The first bar that is repeated.
        bars: How many are repeated. Empty bars at their end are left out.
        constraints: What the piece keeps to.
    """
    score = language.decode(tokens)
    lines, now = BarLines(score), int(language.complete_bars(tokens)[-1])
    start, end, here = lines.tick(first), lines.tick(first + bars), lines.tick(now)
    again = _with_bars_again(score, start, end, here, constraints.polyphony)
    encoded = language.encode(again).tokens
    target = min(now + bars, int(language.complete_bars(encoded)[-1]))
    cut = int(np.searchsorted(language.complete_bars(encoded), target)) + 1
    repeated: list[int] = encoded[:cut].tolist()
    return repeated if repeated[: len(tokens)] == list(tokens) else list(tokens)


def _with_bars_again(score: Score, start: int, end: int, here: int, polyphony: int | None) -> Score:
    """A piece up to a tick, and there its music between two earlier ticks again."""
    move, notes = here - start, score.notes
    copies = notes[(notes["start"] >= start) & (notes["start"] < end)].copy()
    copies["end"] = np.minimum(copies["end"], end) + move
    copies["start"] += move
    up_at = np.zeros(128, np.int64)
    np.maximum.at(up_at, notes["pitch"], notes["end"])
    free = up_at[copies["pitch"]] if polyphony is None else np.full(len(copies), up_at.max())
    copies = copies[copies["start"] >= free]

    def moved(marks: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """Marks, and those of the repeated bars, with the one that holds at their beginning."""
        held = [(here, what) for tick, what in marks if tick <= start][-1:]
        return [*marks, *held, *((tick + move, what) for tick, what in marks if start < tick < end)]

    tempos = moved([(int(tick), bpm) for tick, bpm in score.tempos.tolist()])
    chords = moved([(mark.tick, mark.chord) for mark in score.chords])
    metres = moved([(item.tick, item[1:]) for item in score.time_signatures])
    return score.replace(
        notes=np.sort(np.concatenate([notes, copies]), order=("start", "track", "pitch")),
        tempos=make_tempos(tempos),
        chords=tuple(ChordMark(tick, chord) for tick, chord in _changes(chords)),
        time_signatures=tuple(TimeSignature(tick, *metre) for tick, metre in _changes(metres)),
    )


def _changes(marks: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Marks that change something."""
    return [mark for number, mark in enumerate(marks) if not number or marks[number - 1][1] != mark[1]]
