"""A line of a corpus's index: the record of one source file, kept or not."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from numpy.typing import NDArray

from musicgen.inputs import parse_json
from musicgen.languages.duplicates import Sketch

S = TypeVar("S", bound="Song")
RENAMED_SPLITS = {"ival": "seen_style_valid", "itest": "seen_style_test"}
"""Names of splits in older corpora, and their current names."""


def is_inside(path: str) -> bool:
    """Whether a relative path stays in its folder."""
    return bool(path) and "\0" not in path and not path.startswith("/") and ".." not in path.split("/")


def current_split(name: str) -> str:
    """The current name of a split."""
    return RENAMED_SPLITS.get(name, name)


@dataclass(frozen=True)
class Song:
    """What every language records about a file. A language may add fields.

    Attributes:
        path: Path of the source file, relative to the input folder.
        sha256: Hash of the source file; None if it could not be read.
        split: The split it belongs to; None if it was left out.
        dropped: Why it was left out; None if it was kept.
        offset: Its first row in the corpus's array.
        bars: Its length in bars.
        notes: Its length in notes.
        seconds: Its length in seconds.
    """

    path: str
    sha256: str | None
    split: str | None = None
    dropped: str | None = None
    offset: int = 0
    bars: int = 0
    notes: int = 0
    seconds: float = 0.0

    counted: ClassVar[str] = "notes"
    """The field that counts its rows in the corpus's array."""

    @property
    def rows(self) -> int:
        """How many rows it has in the corpus's array."""
        return int(getattr(self, self.counted))

    @property
    def style(self) -> str:
        """The style it is an example of. A song without a style is its own style."""
        return self.path

    @property
    def family(self) -> str:
        """Styles that are related; splits keep them together."""
        return self.style

    @classmethod
    def from_json(cls: type[S], line: str) -> S:
        """Read a line of the index.

        Raises:
            ValueError: A value cannot be right.
            TypeError, KeyError: The line has other keys.
        """
        fields = dict(parse_json(line))
        split = fields.get("split")
        song = cls.from_fields({**fields, "split": current_split(split) if isinstance(split, str) else split})
        if not song.is_sound():
            raise ValueError(line)
        return song

    @classmethod
    def from_fields(cls: type[S], fields: dict[str, Any]) -> S:
        """Build a record from the fields of a line."""
        return cls(**fields)

    def is_sound(self) -> bool:
        """Whether every field holds a value that it can have."""
        counts = (self.offset, self.bars, self.notes, self.rows)
        texts = (self.sha256, self.split, self.dropped)
        return (
            all(type(count) is int and count >= 0 for count in counts)
            and isinstance(self.path, str)
            and is_inside(self.path)
            and all(text is None or isinstance(text, str) for text in texts)
            and type(self.seconds) in (int, float)
            and math.isfinite(self.seconds)
        )

    def to_fields(self) -> dict[str, Any]:
        """The fields of its line, in order."""
        return asdict(self)

    def to_json(self) -> str:
        """The line, in ASCII: a file name may contain characters that end a line."""
        return json.dumps(self.to_fields())


@dataclass(frozen=True)
class TokenSong(Song):
    """A song that is stored as tokens.

    Attributes:
        tokens: Its length in tokens.
        group: The path of the first song that this one copies, exactly or nearly; its own path if it is the first.
        quantised: What quantising did to its notes.
    """

    tokens: int = 0
    group: str | None = None
    quantised: dict[str, Any] | None = None

    counted = "tokens"

    def to_fields(self) -> dict[str, Any]:
        """The fields of its line, in the order that corpora have always had."""
        fields = asdict(self)
        order = ("path", "sha256", "split", "dropped", "offset", "tokens", "bars", "notes", "seconds")
        return {name: fields.pop(name) for name in order} | fields


class Read(NamedTuple):
    """A source file after reading.

    Attributes:
        song: Its record.
        rows: Its rows of the array.
        sketch: A sketch to find copies by.
        done: What was done to the file before the language saw it: see `musicgen.languages.reading`.
    """

    song: Song
    rows: NDArray[Any]
    sketch: Sketch | None = None
    done: tuple[str, ...] = ()


class Songs(Protocol):
    """The part of a corpus that a language uses."""

    def songs(self, split: str | None = None) -> tuple[Any, ...]:
        """The songs of a split, or all that were kept."""

    def __getitem__(self, song: Any) -> NDArray[Any]:
        """The rows of a song."""
