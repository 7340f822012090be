"""How much of generated pieces the training songs have too, beside how much held-out songs share with them.

The hard choice: real songs that were not trained on are the yardstick. Music is full of scales, repeated notes and
stock figures, and songs that know nothing of each other share passages of some length; what a model copied is what goes
beyond that. Held-out songs are cut to as many bars as the pieces typically have, because a longer piece finds more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.evaluation.findings import Cell, Findings, Table
from musicgen.evaluation.novelty_picture import draw_longest, draw_passage
from musicgen.evaluation.passages import SPEEDS, Line, Text, covered, lines_of, search
from musicgen.evaluation.songs import Gathered, Song, shown
from musicgen.midi.write import bar_lines
from musicgen.tokens.groove_quantise import TICKS as GROOVE_GRID

HELD_OUT = "held-out songs"
GRID = 4
"""Steps in a beat: sixteenths, as pop piano is prepared."""
MOST_ROWS = 12
"""Pieces that people are shown."""
FEW_KINDS = 4
"""A passage with no more kinds of step than this, and more than twice as many notes, is a repeated figure."""


@dataclass(frozen=True)
class Passage:
    """A passage that a piece has in common with a training song.

    Attributes:
        notes: Its length.
        line, start: Of the piece, and the number of the first note.
        song: The training song.
        song_line, song_start: The same of that.
        speed: How many times as long its notes are in the song.
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
        """Semitones by which the piece lies above the song."""
        return int(self.line.pitch[self.start] - self.song_line.pitch[self.song_start])

    @property
    def kinds(self) -> int:
        """How many different steps it has, from a note to the next."""
        return len(np.unique(self.line.steps()[self.start : self.start + self.notes - 1]))


@dataclass(frozen=True)
class Examined:
    """What was found of a piece.

    Attributes:
        song: The piece.
        longest: Its longest passage that a training song has too; None if not two notes in a row are.
        share: The part of its notes in such passages of a length that counts.
        melody: The longest passage of its top lines.
    """

    song: Song
    longest: Passage | None
    share: float
    melody: Passage | None

    @property
    def notes(self) -> int:
        """Of the longest passage; 1 without one, as every note is somewhere."""
        return self.longest.notes if self.longest else 1

    @property
    def melody_notes(self) -> int:
        """Of the longest passage of the top lines."""
        return self.melody.notes if self.melody else 1


def novelty_findings(
    generated: Mapping[str, Gathered],
    training: Gathered,
    held_out: Gathered | None,
    shortest: int,
    settings: Mapping[str, Any],
) -> Findings:
    """What is found out about pieces.

    Args:
        generated: By the names of sets.
        training: What the models were trained on.
        held_out: Real songs that they were not trained on.
        shortest: Notes of a passage that counts for the share.
        settings: Of the command.

    Raises:
        UserError: There is nothing but drums, on one of the sides.
    """
    bars = int(np.median([_bars(song) for item in generated.values() for song in item.songs]))
    sets = {name: list(item.songs) for name, item in generated.items()}
    if held_out is not None:
        sets[HELD_OUT] = [_first_bars(song, bars) for song in held_out.songs]
    is_groove = training.language == "groove"
    examined, left_out = examine(sets, list(training.songs), shortest, GROOVE_GRID if is_groove else GRID, is_groove)
    gathered = [*generated.values(), training, *([held_out] if held_out else [])]
    made = [(name, item) for name in generated for item in examined[name]]
    owner, worst = max(made, key=lambda pair: pair[1].notes)
    pictures = [draw_longest({name: [item.notes for item in items] for name, items in examined.items()}, HELD_OUT)]
    if worst.longest is not None:
        pictures.append(draw_passage(worst.song, worst.longest, owner if len(generated) > 1 else ""))
    return Findings(
        kind="novelty",
        title="Novelty",
        summary=_summary(examined, worst, len(training.songs), bars, shortest),
        settings=settings,
        tables=[_sets_table(examined, shortest), _passages_table(examined, generated), _pieces_table(examined)],
        pictures=pictures,
        details={"held_out_bars": bars if held_out else None, "grid": GROOVE_GRID if is_groove else GRID},
        left_out=[*(line for item in gathered for line in item.left_out), *left_out],
    )


def examine(
    sets: Mapping[str, Sequence[Song]], training: Sequence[Song], shortest: int, grid: int, apart: bool
) -> tuple[dict[str, list[Examined]], list[str]]:
    """Look for all pieces of all sets among the training songs.

    Args:
        sets: Pieces, by the names of sets.
        training: Where to look.
        shortest: Notes of a passage that counts for the share.
        grid: Steps in a beat.
        apart: Whether every track is looked for by itself.

    Returns:
        What was found, by the names of sets; and a line for each piece that has nothing but drums.

    Raises:
        UserError: A set, or the training songs, have nothing else.
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
    """By the numbers of pieces: the longest passage, if there is one, and the share of notes in those that count."""
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
            if notes > best.get(line.owner, (1,))[0]:  # of equally long ones the first, and that in its own speed
                best[line.owner] = notes, line, start, speed
    longest = {}
    for number, (notes, line, start, speed) in best.items():
        row, place = text.first(line.steps(speed)[start : start + notes - 1])
        there = corpus[row]
        longest[number] = Passage(notes, line, start, training[there.owner], there, place, speed)
    return longest, {number: float(np.concatenate(parts).mean()) for number, parts in covers.items()}


def _first_bar(song: Song) -> int:
    """The number of the first bar in which a note begins, from 0 on."""
    first = song.score.notes["start"].min()
    return int(np.searchsorted(bar_lines(song.score), first, side="right")) - 1


def _bars(song: Song) -> int:
    """From the first in which a note begins to the last."""
    return len(bar_lines(song.score)) - _first_bar(song)


def _first_bars(song: Song, bars: int) -> Song:
    """A song up to so many bars from its first note on."""
    lines, end = bar_lines(song.score), _first_bar(song) + bars
    if end >= len(lines):
        return song
    notes = song.score.notes
    return Song(song.name, song.score.replace(notes=notes[notes["start"] < lines[end]]), song.file)


def bars_text(song: Song, line: Line, start: int, notes: int, word: str = "") -> str:
    """The bars in which a passage begins and ends, counted from 1, as people write them: `3–4`, or `bars 3–4`."""
    # A note is in the bar of the grid place that it was compared at, and may have been played a little before it.
    ticks = line.tick[[start, start + notes - 1]] + song.score.ticks_per_beat // (2 * GRID)
    first, last = np.searchsorted(bar_lines(song.score), ticks, side="right").tolist()
    text = f"{first}" if first == last else f"{first}–{last}"
    return f"{word}{'s' * (first != last)} {text}" if word else text


def _spread(values: Sequence[float]) -> list[float]:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return [float(middle), float(low), float(high)]


def _sets_table(examined: Mapping[str, Sequence[Examined]], shortest: int) -> Table:
    columns = ["set", "pieces", "longest (notes)", "median", "lower quartile", "upper quartile"]
    columns += [f"notes in passages of {shortest}+ (%)", "longest melody (notes)", "median melody"]
    rows: list[list[Cell]] = [
        [
            name,
            len(items),
            max(item.notes for item in items),
            *_spread([item.notes for item in items]),
            100 * float(np.mean([item.share for item in items])),
            max(item.melody_notes for item in items),
            float(np.median([item.melody_notes for item in items])),
        ]
        for name, items in examined.items()
    ]
    title = "The longest passages that pieces and training songs both have, up to transposition and tempo"
    return Table("novelty", title, columns, rows, digits=2)


COLUMNS = ("set", "piece", "notes", "bars", "song", "bars there", "kinds of step", "transposed", "speed", "shared (%)")
MELODY = ("melody", "melody bars", "melody song", "melody bars there")


def _row(name: str, item: Examined) -> list[Cell]:
    cells: list[Cell] = [name, item.song.name, item.notes]
    cells += _places(item.song, item.longest)
    found = item.longest
    cells += [found.kinds, found.transposed, found.speed] if found else [None, None, None]
    return [*cells, 100 * item.share, item.melody_notes, *_places(item.song, item.melody)]


def _places(song: Song, found: Passage | None) -> list[Cell]:
    """Bars of the piece, the song, and bars of the song."""
    if found is None:
        return [None, None, None]
    there = bars_text(found.song, found.song_line, found.song_start, found.notes)
    return [bars_text(song, found.line, found.start, found.notes), found.song.name, there]


def _passages_table(examined: Mapping[str, Sequence[Examined]], generated: Mapping[str, Gathered]) -> Table:
    pairs = sorted(((name, item) for name in generated for item in examined[name]), key=lambda pair: -pair[1].notes)
    kept = ("set", "piece", "notes", "bars", "song", "bars there", "kinds of step", "shared (%)", "melody")
    rows = [dict(zip((*COLUMNS, *MELODY), _row(name, item), strict=True)) for name, item in pairs[:MOST_ROWS]]
    title = "The generated pieces that have most in common with a training song"
    return Table("passages", title, kept, [[row[column] for column in kept] for row in rows], digits=2)


def _pieces_table(examined: Mapping[str, Sequence[Examined]]) -> Table:
    rows = [_row(name, item) for name, items in examined.items() for item in items]
    return Table("pieces", "Every piece", (*COLUMNS, *MELODY), rows, shown=False)


def _summary(
    examined: Mapping[str, Sequence[Examined]], worst: Examined, training: int, bars: int, shortest: int
) -> list[str]:
    made = [item for name, items in examined.items() if name != HELD_OUT for item in items]
    real = examined.get(HELD_OUT, [])
    pieces = "1 generated piece was" if len(made) == 1 else f"{len(made):,} generated pieces were"
    lines = [f"{pieces} looked for in {training:,} training songs."]
    if worst.longest is None:
        return [*lines, "Not two notes in a row are the same."]
    found = worst.longest
    sets = [name for name, items in examined.items() if any(item is worst for item in items)]
    owner = f"{sets[0]}/{worst.song.name}" if len(examined) > 1 + bool(real) else worst.song.name
    here = bars_text(worst.song, found.line, found.start, found.notes, "bar")
    there = bars_text(found.song, found.song_line, found.song_start, found.notes, "bar")
    line = f"The longest passage is {found.notes:,} notes: {here} of {owner} = {there} of {found.song.name}"
    line += f", transposed by {found.transposed:+d} semitones" if found.transposed else ""
    line += {1.0: "", 2.0: ", twice as fast", 0.5: ", half as fast"}[found.speed]
    lines.append(f"{line}.")
    if found.kinds <= FEW_KINDS < found.notes // 2:
        kinds = f"{found.kinds} kinds" if found.kinds > 1 else "one kind"
        lines.append(f"It is a repeated figure: it has no more than {kinds} of step from a note to the next.")
    share = float(np.mean([item.share for item in made]))
    lines.append(f"{share:.1%} of the notes of a piece are in shared passages of {shortest:,} notes or more.")
    if not real:
        return [*lines, "There are no held-out songs to compare with, so it is not known how much real songs share."]
    limit, most = max(item.notes for item in real), max(item.share for item in real)
    median, high = np.quantile([item.notes for item in real], [0.5, 0.95])
    lines.append(
        f"{len(real):,} held-out songs, the first {bars:,} bars of each, share up to {limit:,} notes with the training "
        f"songs (median {median:g}, 95 of 100 at most {high:g}; generated pieces "
        f"{np.median([item.notes for item in made]):g}), and {float(np.mean([item.share for item in real])):.1%} of "
        f"their notes are in passages of {shortest:,} or more, at most {most:.1%} of a song's."
    )
    # A short copy is not long, and a long chance passage is no large part of its piece: either is a reason to look.
    longer, fuller = [item.notes > limit for item in made], [item.share > most for item in made]
    for beyond, what in ((longer, "a longer passage"), (fuller, "a larger part of the notes")):
        lines.append(f"{_how_many(beyond)} {what} than any held-out song does.")
    # One held-out song that is a cover of a training song makes the most of them a poor yardstick.
    lines.append(f"{_how_many([item.notes > high for item in made])} a longer passage than 95 of 100 of them do.")
    return lines


def _how_many(chosen: Sequence[bool]) -> str:
    """The beginning of a sentence about those of the generated pieces that are chosen."""
    count = sum(chosen)
    if not count:
        return "No generated piece shares"
    return f"{count:,} of {len(chosen):,} generated pieces {'shares' if count == 1 else 'share'}"
