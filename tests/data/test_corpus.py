"""A folder that is opened is a whole corpus; of any other, one sentence says what is wrong."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import on_disk

from musicgen.data.corpus import Corpus
from musicgen.data.verify import verify
from musicgen.errors import UserError
from musicgen.languages.remi.synthetic import compose

FILES = ["tokens.npy", "index.jsonl", "tokenizer.json", "corpus.json"]
Change = Callable[[bytes], bytes | None]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return on_disk(tmp_path_factory.mktemp("data") / "corpus", [(f"{i}.mid", compose(i, 4)) for i in range(5)])


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "corpus")
    return tmp_path / "corpus"


def line(**changes: Any) -> Change:
    """The first line of an index says something else."""

    def change(data: bytes) -> bytes:
        first, rest = data.split(b"\n", 1)
        return json.dumps({**json.loads(first), **changes}).encode() + b"\n" + rest

    return change


def array(values: Any) -> Change:
    def change(_: bytes) -> bytes:
        buffer = io.BytesIO()
        np.save(buffer, values)
        return buffer.getvalue()

    return change


def archive(_: bytes) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, tokens=np.zeros(3, np.uint16))
    return buffer.getvalue()


DAMAGE: dict[str, tuple[str, Change]] = {
    "no tokens": ("tokens.npy", lambda _: None),
    "empty tokens": ("tokens.npy", lambda _: b""),
    "text for tokens": ("tokens.npy", lambda _: b"these are no tokens"),
    "tokens cut short": ("tokens.npy", lambda data: data[:-7]),
    "a header cut short": ("tokens.npy", lambda data: data[:40]),
    "a header that is no Python": ("tokens.npy", lambda data: data.replace(b"{'descr'", b"{(((((((")),
    "more tokens than the index has": ("tokens.npy", array(np.zeros(1_000_000, np.uint16))),
    "tokens of another type": ("tokens.npy", array(np.zeros(10, np.float32))),
    "a table of tokens": ("tokens.npy", array(np.zeros((2, 5), np.uint16))),
    "pickled tokens": ("tokens.npy", array(np.array([{}], object))),
    "an archive of tokens": ("tokens.npy", archive),
    "a broken archive of tokens": ("tokens.npy", lambda _: b"PK\x03\x04 and nothing"),
    "no index": ("index.jsonl", lambda _: None),
    "empty index": ("index.jsonl", lambda _: b""),
    "an index of bytes": ("index.jsonl", lambda _: b"\xff\xfe\n"),
    "an index of lists": ("index.jsonl", lambda _: b"[1, 2]\n"),
    "an index of other keys": ("index.jsonl", lambda _: b'{"file": "a.mid"}\n'),
    "an offset in words": ("index.jsonl", line(offset="here")),
    "an offset in parts": ("index.jsonl", line(offset=0.5)),
    "no offset": ("index.jsonl", line(offset=None)),
    "a negative offset": ("index.jsonl", line(offset=-4)),
    "no length": ("index.jsonl", line(tokens=None)),
    "a negative length": ("index.jsonl", line(tokens=-4)),
    "a split that is a list": ("index.jsonl", line(split=["train"])),
    "a path that is a number": ("index.jsonl", line(path=7)),
    "no tokenizer": ("tokenizer.json", lambda _: None),
    "a tokenizer with another token": ("tokenizer.json", lambda data: data.replace(b"Bar", b"Baz")),
    "no manifest": ("corpus.json", lambda _: None),
    "empty manifest": ("corpus.json", lambda _: b""),
    "a manifest of bytes": ("corpus.json", lambda _: b"\xff"),
    "a manifest that is a list": ("corpus.json", lambda _: b"[]"),
    "a manifest of the future": ("corpus.json", lambda _: b'{"format": 99}'),
}


def apply(folder: Path, name: str, change: Change) -> None:
    data = change((folder / name).read_bytes())
    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_corpus_is_one_sentence_that_names_a_file(kind: str, folder: Path) -> None:
    apply(folder, *DAMAGE[kind])
    with pytest.raises(UserError, match=re.escape(str(folder))) as caught:
        Corpus.open(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", DAMAGE)
def test_verifying_a_damaged_corpus_is_no_traceback(kind: str, folder: Path) -> None:
    apply(folder, *DAMAGE[kind])
    with pytest.raises(UserError):
        raise UserError("\n".join(verify(folder)))


def test_what_is_not_a_corpus_at_all_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "file", tmp_path / ("x" * 300)):
        with pytest.raises(UserError, match=re.escape(str(path))):
            Corpus.open(path)


@pytest.mark.parametrize("seed", range(4))
def test_bytes_changed_anywhere_are_a_sentence_or_a_corpus_that_can_be_used(seed: int, folder: Path) -> None:
    generator = random.Random(seed)
    originals = {name: (folder / name).read_bytes() for name in FILES}
    for _ in range(40):
        name = generator.choice(FILES)
        data = bytearray(originals[name])
        for _ in range(generator.choice([1, 1, 2, 20])):
            data[generator.randrange(min(len(data), generator.choice([128, 1 << 30])))] = generator.randrange(256)
        if generator.random() < 0.2:
            del data[generator.randrange(len(data)) :]
        (folder / name).write_bytes(bytes(data))
        with contextlib.suppress(UserError):
            corpus = Corpus.open(folder)
            assert all(corpus[song].dtype == np.uint16 for song in corpus.songs())
        (folder / name).write_bytes(originals[name])


def test_tokens_are_mapped_and_not_read_into_memory(sound: Path) -> None:
    corpus = Corpus.open(sound)
    assert isinstance(corpus.array, np.memmap)
    assert np.shares_memory(corpus[corpus.songs()[1]], corpus.array)
    with pytest.raises(ValueError, match="read-only"):
        corpus.array[0] = 0
