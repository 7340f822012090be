"""The folder of one call of `musicgen generate`: pieces as files, written as they come, and a page that shows them.

The hard choice: MIDI is written bar by bar while the piece is made, so that its length is no matter; what needs the
whole piece (its record, picture and sound) is made the moment it ends, and the MIDI file is put in place last. So
whatever stops the command, a piece whose MIDI file is there is complete, and the page lists exactly those.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.files import atomic_write
from musicgen.midi.stream import MidiStream
from musicgen.sampling.composer import Session
from musicgen.sampling.dialect import Decoder
from musicgen.sampling.page import Entry, page
from musicgen.sampling.piece import CONTINUES, Piece
from musicgen.sampling.sampler import Step, Take
from musicgen.sampling.state import save_beginning

PAGE = "index.html"
FOREVER = 1 << 40


@dataclass(frozen=True)
class Wanted:
    """What is made of a piece beside its MIDI file and its record.

    Attributes:
        picture: A piano roll.
        wav: Its sound.
        soundfont: Sounds of the instruments; the built-in ones if None.
        states: Where it can be taken up again: at its end (`last`), at every bar line (`bars`), or not (`none`).
    """

    picture: bool = True
    wav: bool = False
    soundfont: Path | None = None
    states: str = "none"


@dataclass
class _Open:
    """A piece whose MIDI file is being written."""

    take: Take
    name: str
    stream: MidiStream
    decoder: Decoder
    marks: list[tuple[int, str]]
    """Markers that are still to be written."""
    tokens: int = 0
    """Tokens that have gone into it."""


@dataclass
class Gallery:
    """A folder of pieces.

    Args:
        folder: Which is there.
        session: What they are made by.
        about: What every record and the page say of the call: settings by name.
        n: How many seeds there are, for names that sort.
        wanted: What is made of each piece.
    """

    folder: Path
    session: Session
    about: Mapping[str, Any]
    n: int
    wanted: Wanted
    entries: dict[str, Entry] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _open: dict[int, _Open] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        """Take note of a token; at the end of a bar write the bar, and at the end of a piece all that belongs to it."""
        take = step.take
        opened = self._open.get(id(take))
        if opened is None:
            opened = self._begin(take)
        if step.is_last or take.at_bar_line:
            self._write(take, opened)
        if step.is_last:
            self._finish(take, opened)

    def close(self) -> None:
        """Leave no trace of pieces that are not complete, but where they can be taken up again if that is wanted."""
        for opened in self._open.values():
            opened.stream.discard()
            self._save_states(opened.take, opened.name)
        self._open.clear()

    @property
    def complete(self) -> list[str]:
        """Names of the pieces that are in place. An interrupt may come at any moment, so the folder is asked."""
        return [name for name in sorted(self.entries) if (self.folder / f"{name}.mid").exists()]

    def write_page(self) -> Path:
        """The page of the pieces that are complete."""
        path = self.folder / PAGE
        notes = [self.session.prompt.report] if self.session.prompt else []
        notes += self.notes
        title = f"Music by {Path(self.session.composer.name).name or self.session.composer.name}"
        settings = {name: "–" if value is None else str(value) for name, value in self.about.items()}
        entries = [self.entries[name] for name in self.complete]
        atomic_write(path, page(title, settings, entries, notes).encode())
        return path

    def name(self, take: Take) -> str:
        """`piece_0`, or `piece_0_variation_2`."""
        number = take.seed - self.session.request.seed
        name = f"piece_{number:0{len(str(self.n - 1))}d}"
        variations = self.session.request.variations
        return f"{name}_variation_{take.variation:0{len(str(variations - 1))}d}" if variations > 1 else name

    def _begin(self, take: Take) -> _Open:
        """Open the MIDI file of a piece."""
        name, rendering = self.name(take), self.session.rendering
        frame = rendering.decode(take.tokens[:1])
        stream = MidiStream(self.folder / f"{name}.mid", frame.ticks_per_beat, frame.tracks, frame.time_signatures)
        prompt_end = take.prompt_bars * self.session.composer.dialect.bar_ticks
        marks = [(prompt_end, CONTINUES)] if take.prompt_bars else []
        opened = self._open[id(take)] = _Open(take, name, stream, rendering.decoder(), marks)
        return opened

    def _write(self, take: Take, opened: _Open) -> None:
        """Write what has become certain of the music."""
        part, until = opened.decoder.feed(take.tokens[opened.tokens :])
        opened.tokens = len(take.tokens)
        opened.stream.write(part, until, [mark for mark in opened.marks if mark[0] < until])
        opened.marks = [mark for mark in opened.marks if mark[0] >= until]

    def _finish(self, take: Take, opened: _Open) -> None:
        """Make all files of a piece, and then put them in place."""
        piece, name = self.session.piece(take), opened.name
        fork_at = self.session.request.fork_at
        if fork_at is not None and take.bars < fork_at:
            self.notes.append(f"{name}: ended before fork_at={fork_at}, and has no variations")
        made = {"json": self._record(piece)}
        if self.wanted.picture:
            made["png"] = piece.picture(name)
        if self.wanted.wav:
            try:
                made["wav"] = piece.sound(self.wanted.soundfont)
            except UserError as error:  # of a piece of hours, say; the rest of it is as good as ever
                self.notes.append(f"{name}.wav: {error}")
        for suffix, data in made.items():
            atomic_write(self.folder / f"{name}.{suffix}", data)
        self._save_states(take, name)
        rest = opened.decoder.close()
        opened.stream.write(rest, FOREVER, opened.marks)
        self.entries[name] = entry_of(piece, name, {suffix: f"{name}.{suffix}" for suffix in ("mid", *made)})
        opened.stream.close()
        del self._open[id(take)]

    def _record(self, piece: Piece) -> bytes:
        composer = self.session.composer
        made_by = {"model": composer.name, "bundle_sha256": composer.sha256, "language": composer.language.name}
        return (json.dumps({**made_by, "config": dict(self.about), **piece.record()}, indent=1) + "\n").encode()

    def _save_states(self, take: Take, name: str) -> None:
        if self.wanted.states == "none":
            return
        for bars in take.states:
            if bars:
                beginning = take.beginning(bars)
                save_beginning(beginning, self.folder / f"{name}_bar_{bars:04d}.state", self.session.composer.sha256)


def entry_of(piece: Piece, name: str, files: Mapping[str, str]) -> Entry:
    """What the page shows of a piece, whose files have names by their kinds."""
    minutes, seconds = divmod(round(piece.score.duration), 60)
    facts = {
        "seed": str(piece.seed),
        "bars": f"{piece.bars:,}" + (f" ({piece.prompt_bars} of the prompt)" if piece.prompt_bars else ""),
        "length": f"{minutes}:{seconds:02d}",
        "notes": f"{len(piece.score.notes):,}",
        "tokens": f"{len(piece.tokens):,}",
    }
    if piece.errors:
        facts["grammar errors"] = f"{piece.errors:,}"
    return Entry(
        name,
        files,
        facts,
        (np.array(piece.likelihood) / np.maximum(piece.sizes, 1)).tolist(),
        piece.pressure,
        piece.prompt_bars,
    )
