"""A MIDI file written as its music comes, in the same memory however long it gets.

The hard choice: a MIDI file has its tracks one after the other, each with its length before it, and music comes in
all of them at once. So each track goes to a file of its own, and `close` copies them into one. Those files are
beside the target, on the disk that has room for it, but have no names: they are gone as soon as nobody has them
open, even if the process is killed. What comes later can change what is said of what came before (a note cuts
another of its pitch short, and bars are counted to the last in which a note starts), so this much waits in memory:
the notes that sound, and the tempos, chords and marks since a note last started.
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
from musicgen.midi.score import NOTE, Score, TimeSignature, Track
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
    write_tracks,
)


class MidiStream:
    """A MIDI file that is written a part at a time: byte for byte what `midi_bytes` gives of the whole.

    As a context it is closed at the end, and discarded if anything is raised.
    """

    def __init__(
        self,
        path: Path,
        ticks_per_beat: int,
        tracks: Sequence[Track],
        time_signatures: Sequence[TimeSignature] = (),
    ) -> None:
        """Begin a file. Until it is closed there is nothing at its path, or what was there before.

        Args:
            path: Where to. The folder must exist. If it is a link, what it points to is written.
            ticks_per_beat: Ticks in a quarter note.
            tracks: The instruments.
            time_signatures: The one of the whole piece, from tick 0 on; without it the piece is in 4/4.

        Raises:
            UserError: It cannot be written there, or the tracks need more channels than MIDI has.
            ValueError: The time signature changes, or MIDI cannot say the resolution or a program.
        """
        silence = Score(ticks_per_beat, np.empty(0, NOTE), tuple(tracks), time_signatures=tuple(time_signatures))
        self._rest = explicit(silence)
        if len(self._rest.time_signatures) != 1:
            raise ValueError(f"one time signature can be streamed, at tick 0, not {self._rest.time_signatures}")
        self._path = path
        self._frame = _frame(silence)
        self._header = header(ticks_per_beat, len(tracks))
        try:
            first, self._channels = openings(tracks), channels(tracks)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

        self._marks: list[Mark] = []
        self._until = 0  # what starts before has been given
        self._bars_until = 0  # bars that begin before are certain, and so is all else the conductor says
        self._bars = 0
        check_writable(path)
        self._files = contextlib.ExitStack()
        with self._or_nothing():
            self._tracks = [TrackWriter(self._files.enter_context(_nameless_file(path))) for _ in first]
            for track, events in zip(self._tracks, first, strict=True):
                track.write(events)

    def write(self, score: Score, until: int, marks: Sequence[Mark] = ()) -> None:
        """Write what starts before a tick, as far as it is certain by then. What starts later is left to a later call.

        Args:
            score: With the resolution, tracks and time signature of the stream. It need not be clean: see `clean`.
            until: Nothing that starts before this tick is yet to come. It never goes back.
            marks: As for `midi_bytes`.

        Raises:
            UserError: The disk is full, or fails. Nothing is left of the file.
            ValueError: Something starts before the last `until`, or the score is not one of this stream.
        """
        self._check(score, until, marks)
        notes, tempos = score.notes, score.tempos
        part = clean(
            self._rest.replace(
                notes=np.concatenate([self._rest.notes, notes[notes["start"] < until]]),
                tempos=np.concatenate([self._rest.tempos, tempos[tempos["tick"] < until]]),
                chords=(*self._rest.chords, *(chord for chord in score.chords if chord.tick < until)),
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
        """Finish: the file appears under its name, whole. Of one that is closed or discarded, nothing.

        Raises:
            UserError: It cannot be written. Nothing is left of it, and what was there before stays.
        """
        if self._tracks[0].file.closed:
            return
        self._put(self._rest, math.inf, math.inf)
        with self._or_nothing(), atomic_file(self._path) as file:
            write_tracks(self._header, self._tracks, file)
        self.discard()

    def discard(self) -> None:
        """Leave nothing of a file that is not closed."""
        with contextlib.suppress(OSError):  # a full disk does not take what is in the buffer at closing either
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
            raise ValueError(f"the resolution, tracks and time signature are {_frame(score)}, not {self._frame}")
        ticks = [*score.notes["start"][:1].tolist(), *score.tempos["tick"][:1].tolist()]  # both are in order of time
        ticks += [chord.tick for chord in score.chords] + [tick for tick, _ in marks]
        if min(ticks, default=until) < self._until:
            raise ValueError(f"something starts at tick {min(ticks)}, and the music is written up to {self._until}")

    def _put(self, part: Score, until: float, certain: float) -> None:
        """Put on disk what a clean part says: of notes before tick `until`, of all else before tick `certain`."""
        _, _, (signature,) = self._frame
        lines = bar_lines_of(signature, part.ticks_per_beat, self._bars, self._bars_until).tolist()
        bars = enumerate(lines, start=self._bars + 1)
        self._bars += len(lines)
        said = [[event for event in conductor_events(part, bars, self._marks) if event[0] < certain]]
        said += [
            note_events(part, number, channel, self._until, until) for number, channel in enumerate(self._channels)
        ]
        with self._or_nothing():
            for track, events in zip(self._tracks, said, strict=True):
                track.write(events)
                track.file.flush()  # so that a full disk is noticed now

    @contextlib.contextmanager
    def _or_nothing(self) -> Iterator[None]:
        """Discard the file if anything fails."""
        try:
            with user_errors(self._path):
                yield
        except BaseException:  # an interrupt too
            self.discard()
            raise


def _frame(score: Score) -> tuple[int, tuple[Track, ...], tuple[TimeSignature, ...]]:
    """What is the same of all parts of a piece: its resolution, tracks and time signature."""
    return score.ticks_per_beat, score.tracks, explicit(score).time_signatures


def _nameless_file(path: Path) -> IO[bytes]:
    """A file in the folder of another. Where no file can be without a name, it has one like this for a moment."""
    return TemporaryFile(dir=path.resolve().parent, prefix=".", suffix=".partial")
