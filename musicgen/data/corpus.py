"""A prepared corpus: every song in one array of tokens, and an index of where each is and came from.

On disk it is a folder: `tokens.npy` (all songs end to end, 16 bits a token, mapped into memory when it is read),
`index.jsonl` (a line for each source file, kept or not), `tokenizer.json`, and `corpus.json`, which has the hashes
of the others.

The hard choice: `corpus.json` and the folder's own name are the last things to come into being, so that a folder that
can be opened is a whole corpus, whenever the program that made it was stopped.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.files import atomic_write, hash_file, kind_of
from musicgen.tokens import Remi, Tokens
from musicgen.tokens.language import Language
from musicgen.tokens.tokenizer import FILE as TOKENIZER
from musicgen.tokens.tokenizer import load_tokenizer, save_tokenizer

T = TypeVar("T")
FORMAT = 1
MANIFEST, INDEX, TOKENS = "corpus.json", "index.jsonl", "tokens.npy"


@dataclass(frozen=True)
class Song:
    """A line of the index.

    Attributes:
        path: Of the source file, relative to the input folder.
        sha256: Of the source file; None if it could not be read.
        split: `train`, `valid` or `test`; None if it was left out.
        dropped: Why it was left out; None if it was not.
        offset: Its first token in `tokens.npy`.
        tokens: Its length in tokens.
        bars: ... in bars.
        notes: ... in notes.
        seconds: ... in seconds.
        group: The path of the first song of which this one is a copy or nearly; its own path if it is the first.
        quantised: What quantising did to its notes (`musicgen.tokens.Quantisation`).
    """

    path: str
    sha256: str | None
    split: str | None = None
    dropped: str | None = None
    offset: int = 0
    tokens: int = 0
    bars: int = 0
    notes: int = 0
    seconds: float = 0.0
    group: str | None = None
    quantised: dict[str, int] | None = None

    @classmethod
    def from_json(cls, line: str) -> Song:
        """The record that a line holds.

        Raises:
            ValueError: It holds none.
            TypeError: It holds other keys.
        """
        song = cls(**json.loads(line))
        numbers_fit = all(type(number) is int and number >= 0 for number in (song.offset, song.tokens))
        if not numbers_fit or not isinstance(song.path, str) or not isinstance(song.split, (str, type(None))):
            raise ValueError(line)
        return song

    def to_json(self) -> str:
        """The line, in ASCII: a file may have any name, and some letters end a line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Corpus:
    """Songs in tokens.

    Attributes:
        tokens: All songs end to end.
        index: A record for each source file, kept or not.
        language: What the tokens mean.
        about: How it was made, as `corpus.json` says it.
    """

    tokens: Tokens
    index: tuple[Song, ...]
    language: Remi
    about: dict[str, Any]

    def songs(self, split: str | None = None) -> tuple[Song, ...]:
        """The songs of a split, or all that were kept."""
        return tuple(song for song in self.index if song.split is not None and split in (None, song.split))

    def __getitem__(self, song: Song) -> Tokens:
        """The tokens of a song: a view, not a copy."""
        return self.tokens[song.offset : song.offset + song.tokens]

    def pieces(self, split: str, most: int | None = None) -> list[Tokens]:
        """The songs of a split as tokens, or the first of them: what a model is judged on."""
        return [self[song] for song in self.songs(split)[:most]]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of all that is trained on."""
        return hashlib.sha256(self.tokens.tobytes()).hexdigest()

    @classmethod
    def open(cls, folder: Path | str) -> Corpus:
        """A prepared corpus.

        The index and the sizes are checked here, hashes and grammar by `musicgen.data.verify`.

        Raises:
            UserError: It is not one, or not whole.
        """
        folder = Path(folder)
        about = read_manifest(folder)
        index = read_index(folder, Song.from_json)
        tokens = map_array(folder / TOKENS)
        language = load_tokenizer(folder)
        if not isinstance(language, Remi):
            raise UserError(f"{folder}: a corpus in the language {language.name!r}, not in {Remi.name!r}")
        corpus = cls(tokens, index, language, about)
        ends = [song.offset + song.tokens for song in corpus.songs()]
        if tokens.dtype != np.uint16 or tokens.ndim != 1 or max(ends, default=0) != len(tokens):
            raise UserError(f"{folder / TOKENS}: not the tokens that the index speaks of; prepare it again")
        return corpus


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `corpus.json` says.

    Raises:
        UserError: The folder is not a prepared corpus.
    """
    path = folder / MANIFEST
    if kind_of(path) != "file":
        raise UserError(f"{folder}: not a prepared corpus (it has no {MANIFEST}); `musicgen prepare` makes one")
    try:
        about = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON; prepare the corpus again") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UserError(f"{path}: not a corpus of format {FORMAT}; prepare it again")
    return about


def read_index(folder: Path, from_json: Callable[[str], T]) -> tuple[T, ...]:
    """The lines of `index.jsonl`.

    Args:
        folder: The corpus.
        from_json: What makes a record of a line.

    Raises:
        UserError: It cannot be read, or a line of it holds no such record.
    """
    try:
        return tuple(map(from_json, (folder / INDEX).read_text("utf-8").splitlines()))
    except OSError as error:
        raise UserError(f"{folder / INDEX}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UserError(f"{folder / INDEX}: not an index of this version of musicgen; prepare it again") from None


def map_array(path: Path) -> NDArray[Any]:
    """An array on disk, mapped into memory.

    Raises:
        UserError: There is none.
    """
    try:
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError, SyntaxError, TokenError):  # numpy reads a header as if it were Python
        raise UserError(f"{path}: missing or not an array; prepare the corpus again") from None
    return array


def write_files(
    folder: Path, array: tuple[str, NDArray[Any]], lines: Iterable[str], language: Language, about: dict[str, Any]
) -> None:
    """Write the files of a corpus, its manifest last.

    Args:
        folder: Where to.
        array: The name of the file with the music, and what it is to hold.
        lines: Of the index.
        language: Of the corpus.
        about: What the manifest is to say.
    """
    name, values = array
    content = io.BytesIO()
    np.save(content, values)
    atomic_write(folder / name, content.getvalue())
    atomic_write(folder / INDEX, "".join(f"{line}\n" for line in lines).encode())
    save_tokenizer(language, folder)
    hashes = {name: hash_file(folder / name) for name in (name, INDEX, TOKENIZER)}
    atomic_write(folder / MANIFEST, (json.dumps({**about, "sha256": hashes}, indent=1) + "\n").encode())
