"""Findings on novelty: how much generated pieces, and held-out songs, share with training songs.

Design note: real songs that were not trained on are the yardstick. Music is full of scales, repeated notes and common
figures, so songs that have nothing to do with each other share passages of some length. A model copied only what goes
beyond that. Held-out songs are cut to the median number of bars of the pieces, because longer pieces share more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from musicgen.evaluation.music.novelty import GRID, Examined, Passage, bars_text, examine
from musicgen.evaluation.music.pictures import draw_longest, draw_passage
from musicgen.evaluation.music.songs import Gathered, Song
from musicgen.evaluation.report.findings import Cell, Findings, Table
from musicgen.evaluation.resampling import quartiles
from musicgen.languages.language import Language
from musicgen.midi.write import bar_lines

HELD_OUT = "held-out songs"
MOST_ROWS = 12
"""Pieces in the table that is shown."""
FEW_KINDS = 4
"""A passage is a repeated figure if it has at most this many kinds of step and more than twice as many notes."""


def novelty_findings(
    generated: Mapping[str, Gathered],
    training: Gathered,
    held_out: Gathered | None,
    shortest: int,
) -> Findings:
    """Look for generated pieces among the training songs."""
    bars = int(np.median([_bars(song) for item in generated.values() for song in item.songs]))
    sets = {name: list(item.songs) for name, item in generated.items()}
    if held_out is not None:
        sets[HELD_OUT] = [_first_bars(song, bars) for song in held_out.songs]
    grid, apart = _grid(training.language)
    examined, left_out = examine(sets, list(training.songs), shortest, grid, apart)
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
        tables=[_sets_table(examined, shortest), _passages_table(examined, generated), _pieces_table(examined)],
        pictures=pictures,
        details={"held_out_bars": bars if held_out else None, "grid": grid},
        left_out=[*(line for item in gathered for line in item.left_out), *left_out],
    )


def _grid(language: Language | None) -> tuple[int, bool]:
    """Steps in a beat, and whether every track is searched separately."""
    return (GRID, False) if language is None else (language.grid, language.plays_apart)


def _first_bar(song: Song) -> int:
    """The number of the first bar in which a note begins, from 0 on."""
    first = song.score.notes["start"].min()
    return int(np.searchsorted(bar_lines(song.score), first, side="right")) - 1


def _bars(song: Song) -> int:
    """From the first in which a note begins to the last."""
    return len(bar_lines(song.score)) - _first_bar(song)


def _first_bars(song: Song, bars: int) -> Song:
    """The first bars of a song, from its first note on."""
    lines, end = bar_lines(song.score), _first_bar(song) + bars
    if end >= len(lines):
        return song
    notes = song.score.notes
    return Song(song.name, song.score.replace(notes=notes[notes["start"] < lines[end]]), song.file)


def _sets_table(examined: Mapping[str, Sequence[Examined]], shortest: int) -> Table:
    columns = ["set", "pieces", "longest (notes)", "median", "lower quartile", "upper quartile"]
    columns += [f"notes in passages of {shortest}+ (%)", "longest melody (notes)", "median melody"]
    rows: list[list[Cell]] = [
        [
            name,
            len(items),
            max(item.notes for item in items),
            *quartiles([item.notes for item in items])[[1, 0, 2]].tolist(),
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
        return [*lines, "No two notes in a row are shared."]
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
    # A short copy is not long, and a long chance passage is a small part of its piece. So both are reported.
    longer, fuller = [item.notes > limit for item in made], [item.share > most for item in made]
    for beyond, what in ((longer, "a longer passage"), (fuller, "a larger part of the notes")):
        lines.append(f"{_how_many(beyond)} {what} than any held-out song does.")
    # If one held-out song is a cover of a training song, the maximum is a poor yardstick.
    beyond_most = _how_many([item.notes > high for item in made])
    lines.append(f"{beyond_most} a longer passage than 95 of 100 held-out songs do.")
    return lines


def _how_many(chosen: Sequence[bool]) -> str:
    """The beginning of a sentence about the chosen pieces."""
    count = sum(chosen)
    if not count:
        return "No generated piece shares"
    return f"{count:,} of {len(chosen):,} generated pieces {'shares' if count == 1 else 'share'}"
