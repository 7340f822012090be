"""The passages that pieces share with training songs, up to transposition and tempo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.evaluation.midi_input import shown
from musicgen.evaluation.music.passages import SPEEDS, Line, Text, covered, lines_of, search
from musicgen.evaluation.music.songs import Song
from musicgen.midi.write import bar_lines

GRID = 4
"""Steps in a beat for music from files: sixteenths."""


@dataclass(frozen=True)
class Passage:
    """A passage that a piece shares with a training song.

    Attributes:
        notes: Its length.
        line, start: The line of the piece, and the number of the first note in it.
        song: The training song.
        song_line, song_start: The same for the training song.
        speed: How many times as long the notes are in the song.
    """

    notes: int
    line: Line
    start: int
    song: Song
    song_line: Line
    song_start: int
    speed: float

    @property
    def transposed(self) -> int:
        """How many semitones the piece is above the song."""
        return int(self.line.pitch[self.start] - self.song_line.pitch[self.song_start])

    @property
    def kinds(self) -> int:
        """How many different steps from note to note it has."""
        return len(np.unique(self.line.steps()[self.start : self.start + self.notes - 1]))


@dataclass(frozen=True)
class Examined:
    """What was found for a piece.

    Attributes:
        song: The piece.
        longest: Its longest passage in a training song; None if it shares no two notes in a row.
        share: The share of its notes in passages that are long enough to count.
        melody: The longest passage of its top lines.
    """

    song: Song
    longest: Passage | None
    share: float
    melody: Passage | None

    @property
    def notes(self) -> int:
        """The length of the longest passage; 1 without one, because every single note is in some song."""
        return self.longest.notes if self.longest else 1

    @property
    def melody_notes(self) -> int:
        """The length of the longest passage of the top lines."""
        return self.melody.notes if self.melody else 1


def examine(
    sets: Mapping[str, Sequence[Song]], training: Sequence[Song], shortest: int, grid: int, apart: bool
) -> tuple[dict[str, list[Examined]], list[str]]:
    """Look for all pieces of all sets among the training songs; if `apart`, for every track separately.

    Passages of at least `shortest` notes count for the share. Returns what was found, by the names of sets, and a line
    for each piece that has only drums.
    """
    pieces = [song for songs in sets.values() for song in songs]
    lines, corpus = (
        [line for number, song in enumerate(songs) for line in lines_of(song.score, number, grid, apart)]
        for songs in (pieces, training)
    )
    if not corpus:
        raise UserError("training: no notes but drums, which are not compared")
    longest, covers = _search(lines, corpus, training, shortest)
    melodies, _ = _search([line.top() for line in lines], [line.top() for line in corpus], training, shortest)
    examined: dict[str, list[Examined]] = {}
    left_out, before = [], 0
    for name, songs in sets.items():
        found = []
        for number, song in enumerate(songs, before):
            if number in covers:
                found.append(Examined(song, longest.get(number), covers[number], melodies.get(number)))
            else:
                left_out.append(f"{shown(song.file or song.name)}: no notes but drums, which are not compared")
        if not found:
            raise UserError(f"{name}: no notes but drums, which are not compared")
        examined[name] = found
        before += len(songs)
    return examined, left_out


def _search(
    lines: Sequence[Line], corpus: Sequence[Line], training: Sequence[Song], shortest: int
) -> tuple[dict[int, Passage], dict[int, float]]:
    """By piece number: the longest passage, if there is one, and the share of notes in passages that count."""
    steps = [line.steps() for line in corpus]
    text, answers = Text(steps), iter(search([line.steps(speed) for line in lines for speed in SPEEDS], steps))
    best: dict[int, tuple[int, Line, int, float]] = {}
    covers: dict[int, list[NDArray[np.bool_]]] = {}
    for line in lines:
        found = [next(answers) for _ in SPEEDS]
        covers.setdefault(line.owner, []).append(np.any([covered(passages, shortest) for passages in found], axis=0))
        for speed, passages in zip(SPEEDS, found, strict=True):
            start = int(passages.argmax())
            notes = int(passages[start])
            if notes > best.get(line.owner, (1,))[0]:  # the first of equally long ones, its own speed before others
                best[line.owner] = notes, line, start, speed
    longest = {}
    for number, (notes, line, start, speed) in best.items():
        row, place = text.first(line.steps(speed)[start : start + notes - 1])
        there = corpus[row]
        longest[number] = Passage(notes, line, start, training[there.owner], there, place, speed)
    return longest, {number: float(np.concatenate(parts).mean()) for number, parts in covers.items()}


def bars_text(song: Song, line: Line, start: int, notes: int, word: str = "") -> str:
    """The bars in which a passage begins and ends, counted from 1: `3–4`, or `bars 3–4`."""
    # Notes were compared on the grid, so a note played a little before a bar line is in the bar after it.
    ticks = line.tick[[start, start + notes - 1]] + song.score.ticks_per_beat // (2 * GRID)
    first, last = np.searchsorted(bar_lines(song.score), ticks, side="right").tolist()
    text = f"{first}" if first == last else f"{first}–{last}"
    return f"{word}{'s' * (first != last)} {text}" if word else text
