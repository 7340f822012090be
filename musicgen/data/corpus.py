"""A prepared corpus: every song in one array, and an index of where each song is and came from.

On disk it is a folder: the array (`tokens.npy` or `notes.npy`, mapped into memory when it is read), `index.jsonl` (a
line for each source file, kept or not), `tokenizer.json`, and `corpus.json`, which holds the hashes of the others.

Design note: `corpus.json` and the folder's own name come into being last. So a folder that can be opened is a complete
corpus, whenever the program that made it was stopped.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.files import atomic_write, kind_of
from musicgen.inputs import hash_file, open_regular, read_document, read_regular
from musicgen.languages.language import Language
from musicgen.languages.registry import FILE as TOKENIZER
from musicgen.languages.registry import LANGUAGES, load_tokenizer, save_tokenizer
from musicgen.languages.song import Song, current_split
from musicgen.languages.vocabulary import Tokens
from musicgen.midi.score import Score

FORMAT = 1
MANIFEST, INDEX = "corpus.json", "index.jsonl"
RECORD = {"format": FORMAT, "sha256?": dict}
"""The shape of `corpus.json`."""
MAX_INDEX = 4 << 30


@dataclass(frozen=True)
class Corpus:
    """Songs of one token language.

    Attributes:
        array: The rows of all songs, one song after the other: tokens, or whatever the language stores.
        index: A record for each source file, kept or not.
        language: The language of the songs.
        about: How it was made, from `corpus.json`.
    """

    array: NDArray[Any]
    index: tuple[Any, ...]
    language: Language
    about: dict[str, Any]

    def songs(self, split: str | None = None) -> tuple[Any, ...]:
        """The records of a split's songs, or of all that were kept."""
        split = split and current_split(split)
        return tuple(song for song in self.index if song.split is not None and split in (None, song.split))

    def __getitem__(self, song: Song) -> NDArray[Any]:
        """The rows of a song: a view, not a copy."""
        return self.array[song.offset : song.offset + song.rows]

    def tokens(self, song: Song) -> Tokens:
        """A song in tokens."""
        return self.language.tokens_of(self[song], song)

    def score(self, song: Song, every_part: bool = False) -> Score:
        """A song as music; with `every_part`, also instruments that tokens leave out."""
        return self.language.score_of(self[song], song, every_part)

    def pieces(self, split: str, most: int | None = None) -> list[Tokens]:
        """The songs of a split in tokens, or the first of them: what a model is evaluated on."""
        return [self.tokens(song) for song in self.songs(split)[:most]]

    def in_tokens(self, variant: str) -> Corpus:
        """The same songs in another vocabulary that reads them.

        Args:
            variant: `paper` or `extended`.

        Raises:
            UserError: They were prepared with other tokens.
        """
        choices = [item for item in LANGUAGES.values() if item.variant == variant and item.reads(self.language)]
        if not choices:
            raise UserError(
                f"data.tokens={variant}: the songs have {self.language.variant} tokens; "
                f"prepare them again with tokens={variant}"
            )
        return replace(self, language=choices[0])

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of everything that is trained on."""
        digest = hashlib.sha256(self.array.tobytes())
        for song in self.songs():
            digest.update(self.language.fingerprint(song))
        return digest.hexdigest()

    @classmethod
    def open(cls, folder: Path | str) -> Corpus:
        """Open a prepared corpus.

        The index and the array's type and ranges are checked here; hashes and each song by `musicgen.data.verify`.

        Raises:
            UserError: It is not a complete corpus.
        """
        folder = Path(folder)
        about = read_manifest(folder)
        language = load_tokenizer(folder)
        index = _read_index(folder, language.song_type)
        array = _map_array(folder / language.array)
        corpus = cls(array, index, language, about)
        ends = [song.offset + song.rows for song in corpus.songs()]
        has_empty = any(song.rows < 1 for song in corpus.songs())  # nothing could be predicted in it
        is_array = array.dtype == language.dtype and array.ndim == 1 and max(ends, default=0) == len(array)
        if not is_array or has_empty or not language.fits(array, corpus.songs()):
            raise UserError(f"{folder / language.array}: does not fit the index of the corpus; prepare it again")
        return corpus

    def write(self, folder: Path) -> None:
        """Write the files of the corpus, its manifest last."""
        content = io.BytesIO()
        np.save(content, self.array)
        atomic_write(folder / self.language.array, content.getvalue())
        atomic_write(folder / INDEX, "".join(f"{song.to_json()}\n" for song in self.index).encode())
        save_tokenizer(self.language, folder)
        hashes = {name: hash_file(folder / name) for name in hashed_files(self.language)}
        atomic_write(folder / MANIFEST, (json.dumps({**self.about, "sha256": hashes}, indent=1) + "\n").encode())


def hashed_files(language: Language) -> tuple[str, ...]:
    """The files whose hashes a manifest holds."""
    return language.array, INDEX, TOKENIZER


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `corpus.json` says.

    Raises:
        UserError: The folder is not a prepared corpus.
    """
    path = folder / MANIFEST
    if kind_of(path) is None:
        raise UserError(f"{folder}: not a prepared corpus (it has no {MANIFEST}); `musicgen prepare` makes one")
    about: dict[str, Any] = read_document(path, RECORD, "prepare the corpus again")
    return about


def _read_index(folder: Path, song_type: type[Song]) -> tuple[Song, ...]:
    try:
        lines = read_regular(folder / INDEX, MAX_INDEX).decode("utf-8").splitlines()
        return tuple(map(song_type.from_json, lines))
    except OSError as error:
        raise UserError(f"{folder / INDEX}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, LookupError):
        raise UserError(f"{folder / INDEX}: not an index of this version of musicgen; prepare it again") from None


# numpy parses a header like Python code, and multiplies whatever sizes it finds there
_BAD_ARRAY = (OSError, ValueError, EOFError, SyntaxError, TokenError, OverflowError, MemoryError, RecursionError)


def _map_array(path: Path) -> NDArray[Any]:
    try:
        with open_regular(path):
            array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except _BAD_ARRAY:
        raise UserError(f"{path}: missing or not an array; prepare the corpus again") from None
    return array
