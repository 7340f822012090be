"""Writing a MIDI file while its music is generated, in constant memory.

Design note: a MIDI file has its tracks one after the other, each with its length first, but music comes in
all tracks at once. So each track goes to its own temporary file, and `close` copies them into one. These files are in
the folder of the target but have no names, so they vanish even if the process is killed. Later music can change what
earlier music becomes: a note ends an earlier one of its pitch, and bars are counted up to the last one in which a note
starts. So the sounding notes, and the tempos, chords and marks since the last start of a note, wait in memory.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO

import numpy as np

from musicgen.errors import UserError
from musicgen.files import atomic_file, check_writable, user_errors
from musicgen.midi.score import NOTE, Score, Track
from musicgen.midi.write import (
    Mark,
    TrackWriter,
    bar_lines_of,
    channels,
    clean,
    conductor_events,
    explicit,
    header,
    note_events,
    openings,
    signatures,
    write_tracks,
)


class MidiStream:
    """A MIDI file that is written in parts. Its bytes equal those of `midi_bytes` for the whole piece.

    As a context manager it closes the file at the end, and discards it if an exception is raised.
    """

    def __init__(
        self,
        path: Path,
        ticks_per_beat: int,
        tracks: Sequence[Track],
    ) -> None:
        """Begin a file. The path stays as it was until the file is closed.

        Args:
            path: The file. Its folder must exist. If it is a link, the target of the link is written.
            ticks_per_beat: Ticks in a quarter note.
            tracks: The instruments.

        Raises:
            UserError: The file cannot be written, or the tracks need more channels than MIDI has.
            ValueError: MIDI cannot express the resolution or a program.
        """
        self._rest = explicit(Score(ticks_per_beat, np.empty(0, NOTE), tuple(tracks)))
        self._path = path
        self._frame = _frame(self._rest)
        self._metre = self._rest.time_signatures[0]  # the last that is certain, and so many bars are before it
        self._metre_bars = 0
        self._header = header(ticks_per_beat, len(tracks))
        try:
            first, self._channels = openings(tracks), channels(tracks)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

        self._marks: list[Mark] = []
        self._until = 0  # everything that starts before this tick has been given
        self._bars_until = 0  # bars, tempos, chords and marks before this tick are final
        self._bars = 0
        check_writable(path)
        self._files = contextlib.ExitStack()
        with self._or_nothing():
            self._tracks = [TrackWriter(self._files.enter_context(_nameless_file(path))) for _ in first]
            for track, events in zip(self._tracks, first, strict=True):
                track.write(events)

    def write(self, score: Score, until: int, marks: Sequence[Mark] = ()) -> None:
        """Write everything final that starts before a tick. The rest waits for a later call.

        Args:
            score: A score with the resolution and tracks of the stream. It need not be clean. Time signatures before
                the last `until` are known already.
            until: The caller will give nothing more that starts before this tick. It never decreases.
            marks: As for `midi_bytes`.

        Raises:
            UserError: The disk is full, or fails. Nothing is left of the file.
            ValueError: Something starts before the last `until`, or the score does not fit this stream.
        """
        marks = [*score.markers, *marks]
        self._check(score, until, marks)
        notes, tempos = score.notes, score.tempos
        part = clean(
            self._rest.replace(
                notes=np.concatenate([self._rest.notes, notes[notes["start"] < until]]),
                tempos=np.concatenate([self._rest.tempos, tempos[tempos["tick"] < until]]),
                chords=(*self._rest.chords, *(chord for chord in score.chords if chord.tick < until)),
                time_signatures=(
                    *self._rest.time_signatures,
                    *(item for item in signatures(score) if self._until <= item.tick < until),
                ),
            )
        )
        self._marks += [mark for mark in marks if mark[0] < until]
        certain = self._bars_until = max(self._bars_until, 1 + int(part.notes["start"].max(initial=-1)))
        self._put(part, until, certain)

        self._until = until
        self._marks = [mark for mark in self._marks if mark[0] >= certain]
        self._rest = part.replace(
            notes=part.notes[part.notes["end"] >= until],
            tempos=part.tempos[part.tempos["tick"] >= certain],
            time_signatures=tuple(item for item in part.time_signatures if item.tick >= certain),
            chords=tuple(chord for chord in part.chords if chord.tick >= certain),
        )

    def close(self) -> None:
        """Finish the file, which then appears at its path. Does nothing if it is closed or discarded.

        Raises:
            UserError: It cannot be written. The path stays as it was.
        """
        if self._tracks[0].file.closed:
            return
        self._put(self._rest, math.inf, math.inf)
        with self._or_nothing(), atomic_file(self._path) as file:
            write_tracks(self._header, self._tracks, file)
        self.discard()

    def discard(self) -> None:
        """Remove everything of a file that is not closed."""
        with contextlib.suppress(OSError):  # closing may flush to a full disk
            self._files.close()

    def __enter__(self) -> MidiStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _check(self, score: Score, until: int, marks: Sequence[Mark]) -> None:
        if until < self._until:
            raise ValueError(f"the music is written up to tick {self._until}, and cannot go back to {until}")
        if _frame(score) != self._frame:
            raise ValueError(f"the resolution and tracks are {_frame(score)}, not {self._frame}")
        held = [item for item in self._rest.time_signatures if item.tick < self._until] or [self._metre]
        given = [item for item in score.time_signatures if item.tick < self._until]
        if given and given[-1] != held[-1]:
            raise ValueError(f"the time signature is {held[-1]}, not {given[-1]}")
        ticks = [*score.notes["start"][:1].tolist(), *score.tempos["tick"][:1].tolist()]  # both are in order of time
        ticks += [chord.tick for chord in score.chords] + [tick for tick, _ in marks]
        if min(ticks, default=until) < self._until:
            raise ValueError(f"something starts at tick {min(ticks)}, and the music is written up to {self._until}")

    def _put(self, part: Score, until: float, certain: float) -> None:
        """Write a clean part to disk: notes before tick `until`, everything else before tick `certain`."""
        lines = list[int]()
        for metre in [item for item in part.time_signatures if item.tick < self._bars_until]:
            lines += self._lines(part, metre.tick, len(lines))
            self._metre, self._metre_bars = metre, self._bars + len(lines)
        lines += self._lines(part, self._bars_until, len(lines))
        bars = enumerate(lines, start=self._bars + 1)
        self._bars += len(lines)
        contents = [[event for event in conductor_events(part, bars, self._marks) if event[0] < certain]]
        contents += [
            note_events(part, number, channel, self._until, until) for number, channel in enumerate(self._channels)
        ]
        with self._or_nothing():
            for track, events in zip(self._tracks, contents, strict=True):
                track.write(events)
                track.file.flush()  # notices a full disk now

    def _lines(self, part: Score, end: int, more: int) -> list[int]:
        """Bar lines of the current time signature before a tick, after those written and `more` that will be."""
        first = self._bars + more - self._metre_bars
        return [int(line) for line in bar_lines_of(self._metre, part.ticks_per_beat, first, end)]

    @contextlib.contextmanager
    def _or_nothing(self) -> Iterator[None]:
        """Discard the file if anything fails."""
        try:
            with user_errors(self._path):
                yield
        except BaseException:  # an interrupt too
            self.discard()
            raise


def _frame(score: Score) -> tuple[int, tuple[Track, ...]]:
    """What all parts of a piece share: resolution and tracks."""
    return score.ticks_per_beat, score.tracks


def _nameless_file(path: Path) -> IO[bytes]:
    """A temporary file in the folder of another. On systems that need a name, it has this one."""
    return TemporaryFile(dir=path.resolve().parent, prefix=".", suffix=".partial")
