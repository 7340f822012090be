"""A folder of pieces: MIDI, records, pictures, sound and states, written as they come, and a page that shows them.

Design note: MIDI is written bar by bar while a piece is made, so pieces can have any length. Files that need the whole
piece are made when it ends, and the MIDI file is put in place last. So whatever stops the program, a piece whose MIDI
file is there is complete, and the page lists exactly those.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.files import atomic_write, atomic_writes
from musicgen.midi.bars import BarLines
from musicgen.midi.stream import MidiStream
from musicgen.midi.write import write_midi
from musicgen.sampling.bar_data import piece_json
from musicgen.sampling.bookmark import save_bookmark
from musicgen.sampling.form import section_marks, sections_of
from musicgen.sampling.in_progress import PieceInProgress
from musicgen.sampling.live import FOREVER, LiveDecoder
from musicgen.sampling.music_model import MusicModel
from musicgen.sampling.page import Entry, page
from musicgen.sampling.piece import Piece, marks_of
from musicgen.sampling.sampler import Step

PAGE = "index.html"
SECONDS_BETWEEN_PAGES = 2.0


@dataclass(frozen=True)
class Wanted:
    """Which files a piece gets besides its MIDI file and its record.

    Attributes:
        picture: A piano roll.
        wav: Its sound.
        soundfont: Sounds of the instruments; None for the built-in ones.
        states: Where it can be continued: at its end (`last`), at every bar line (`bars`), or nowhere (`none`).
        pieces: The sub-folder for these files.
        continuations: A sub-folder for MIDI files with the music after the prompt; empty for none.
    """

    picture: bool = True
    wav: bool = False
    soundfont: Path | None = None
    states: str = "none"
    pieces: str = ""
    continuations: str = ""


@dataclass
class _Open:
    """A piece whose MIDI file is being written."""

    piece: PieceInProgress
    name: str
    stream: MidiStream
    decoder: LiveDecoder
    marks: list[tuple[int, str]]
    """Markers that are not written yet."""
    sections: int = 0
    """How many sections have their marker."""


@dataclass
class Gallery:
    """A folder of pieces.

    Args:
        folder: The folder, which exists.
        music_model: The model that writes them.
        about: Settings by name, for every record and for the page.
        name: Names a piece. A name may have folders in it.
        wanted: The files of each piece.

    Attributes:
        notes: Sentences about pieces that need one.
    """

    folder: Path
    music_model: MusicModel
    about: Mapping[str, Any]
    name: Callable[[PieceInProgress], str]
    wanted: Wanted
    entries: dict[str, Entry] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _open: dict[int, _Open] = field(default_factory=dict)
    _page_written: float = 0.0

    def add(self, step: Step) -> None:
        """Note a token. At the end of a bar the bar is written, and at the end of a piece all its files."""
        piece = step.piece
        opened = self._open.get(id(piece)) or self._begin(piece)
        if step.is_last or piece.at_bar_line:
            part, until = opened.decoder.feed()
            sections = sections_of(piece.setting)
            opened.marks += section_marks(sections[opened.sections :], opened.decoder.lines)
            opened.sections = len(sections)
            opened.stream.write(part, until, [mark for mark in opened.marks if mark[0] < until])
            opened.marks = [mark for mark in opened.marks if mark[0] >= until]
        if step.is_last:
            self._finish(opened)

    def close(self) -> None:
        """Remove the files of incomplete pieces, except requested states."""
        incomplete = list(self._open.values())
        self._open.clear()
        for opened in incomplete:
            opened.stream.discard()
            self._remove_files(opened.name)
        if not self.complete and self._page_written:
            (self.folder / PAGE).unlink(missing_ok=True)
        for opened in incomplete:
            self._save_states(opened)
            for parent in Path(self.wanted.pieces, opened.name).parents[:-1]:
                with contextlib.suppress(OSError):  # it is not empty
                    (self.folder / parent).rmdir()

    def _remove_files(self, name: str) -> None:
        """Remove the files of a piece that has no MIDI file."""
        if not self._path(name, "mid").exists():
            for suffix in ("json", "png", "wav"):
                self._path(name, suffix).unlink(missing_ok=True)
            if self.wanted.continuations:
                (self.folder / self.wanted.continuations / f"{name}.mid").unlink(missing_ok=True)

    @property
    def complete(self) -> list[str]:
        """Names of the pieces that are in place. An interrupt may come at any moment, so this looks at the folder."""
        return [name for name in sorted(self.entries) if self._path(name, "mid").exists()]

    def write_page(self, notes: Sequence[str] = ()) -> Path:
        """Write the page of the pieces that are complete, with some notes before the gallery's own."""
        path = self.folder / PAGE
        name = self.music_model.name
        settings = {key: "–" if value is None else str(value) for key, value in self.about.items()}
        entries = [self.entries[name] for name in self.complete]
        text = page(f"Music by {Path(name).name or name}", settings, entries, [*notes, *self.notes])
        atomic_write(path, text.encode())
        self._page_written = time.monotonic()
        return path

    def _path(self, name: str, suffix: str) -> Path:
        return self.folder / self.wanted.pieces / f"{name}.{suffix}"

    def _begin(self, piece: PieceInProgress) -> _Open:
        """Open the MIDI file of a piece."""
        name = self.name(piece)
        path, frame = self._path(name, "mid"), piece.rendering.decode(piece.tokens)
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = MidiStream(path, frame.ticks_per_beat, frame.tracks)
        marks = marks_of(BarLines(frame).tick(piece.prompt_bars))
        opened = self._open[id(piece)] = _Open(piece, name, stream, LiveDecoder(piece), marks)
        return opened

    def _finish(self, opened: _Open) -> None:
        """Make all files of a piece; the MIDI file comes last."""
        progress, name = opened.piece, opened.name
        piece = Piece.from_progress(progress)
        if progress.fork_at is not None and progress.bars < progress.fork_at:
            self.notes.append(f"{name}: ended before fork_at={progress.fork_at}, and has no variations")
        made = self._write_files(piece, name)
        self._save_states(opened)
        opened.stream.write(opened.decoder.close(), FOREVER, opened.marks)
        self._enter(piece, name, made)
        opened.stream.close()
        del self._open[id(progress)]

    def put(self, piece: Piece, name: str) -> None:
        """Add a piece that is complete; the MIDI file comes last."""
        made = self._write_files(piece, name)
        self._enter(piece, name, made)
        try:
            write_midi(piece.score, self._path(name, "mid"), piece.marks)
        except UserError:
            self._remove_files(name)
            raise

    def _enter(self, piece: Piece, name: str, made: Sequence[str]) -> None:
        files = {suffix: Path(self.wanted.pieces, f"{name}.{suffix}").as_posix() for suffix in ("mid", *made)}
        self.entries[name] = entry_of(piece, name, files)

    def _write_files(self, piece: Piece, name: str) -> list[str]:
        """Make all files of a piece but its MIDI file, and return their suffixes.

        Before them comes the page, from time to time: whatever stops us, there is one.
        """
        if not self._page_written or time.monotonic() - self._page_written > SECONDS_BETWEEN_PAGES:
            self.write_page()
        made = {"json": self._record(piece)}
        if self.wanted.picture:
            made["png"] = piece.picture(name)
        if self.wanted.wav:
            try:
                made["wav"] = piece.sound(self.wanted.soundfont)
            except UserError as error:  # a piece of hours, say; its other files are fine
                self.notes.append(f"{name}.wav: {error}")
        atomic_writes({self._path(name, suffix): data for suffix, data in made.items()})
        if self.wanted.continuations:
            path = self.folder / self.wanted.continuations / f"{name}.mid"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_midi(piece.continuation, path)
        return list(made)

    def _record(self, piece: Piece) -> bytes:
        model = self.music_model
        made_by = {"model": model.name, "bundle_sha256": model.sha256, "language": model.language.name}
        return (json.dumps({**made_by, "config": dict(self.about), **piece.record()}, indent=1) + "\n").encode()

    def _save_states(self, opened: _Open) -> None:
        for bars in opened.piece.states if self.wanted.states != "none" else ():
            path = self._path(f"{opened.name}_bar_{bars:04d}", "state")
            save_bookmark(opened.piece.bookmark(bars), path, self.music_model.sha256)


def entry_of(piece: Piece, name: str, files: Mapping[str, str]) -> Entry:
    """What the page shows of a piece. The name may have folders in it; the files have names by their kinds."""
    minutes, seconds = divmod(round(piece.score.duration), 60)
    facts = {
        "seed": str(piece.seed),
        "bars": f"{piece.bars:,}" + (f" ({piece.prompt_bars} of the prompt)" if piece.prompt_bars else ""),
        "length": f"{minutes}:{seconds:02d}",
        "notes": f"{len(piece.score.notes):,}",
        "tokens": f"{len(piece.tokens):,}",
    }
    if piece.fills:
        facts["filled"] = ", ".join(piece.fills)
    if piece.sections:
        repeated = sum(section.repeated for section in piece.sections)
        facts["form"] = f"{''.join(section.letter for section in piece.sections)}, {repeated} bars repeated"
    if piece.errors:
        facts["grammar errors"] = f"{piece.errors:,}"
    likelihood = (np.array(piece.likelihood) / np.maximum(piece.sizes, 1)).tolist()
    masked, music = piece.masked_probability, piece_json(piece)
    return Entry(title_of(name), files, facts, likelihood, masked, piece.prompt_bars, music)


def title_of(name: str) -> str:
    """The name of a piece as a title for people: `rock/fast_1/0` becomes `Rock · fast 1 · 0`."""
    words = " · ".join(part.replace("_", " ").strip() for part in name.split("/"))
    return words[:1].upper() + words[1:]
