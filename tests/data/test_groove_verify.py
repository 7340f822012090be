"""Whatever is changed in a corpus of grooves is found and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grooves import style_folder
from test_groove_prepare import prepared
from test_verify import edit_index, sign

from musicgen.data.corpus import Corpus
from musicgen.data.verify import verify
from musicgen.errors import UserError
from musicgen.midi.score import Notes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`source` with accompaniments, and `corpus`, made of it."""
    style_folder(tmp_path / "source", 5, 2, 2)
    (tmp_path / "corpus").mkdir()
    prepared(tmp_path / "source").write(tmp_path / "corpus")
    return tmp_path


def edit_notes(folder: Path, change: Callable[[Notes], Any]) -> None:
    notes = np.load(folder / "notes.npy")
    change(notes)
    np.save(folder / "notes.npy", notes)
    sign(folder)


def set_first(name: str, value: int) -> Callable[[Notes], Any]:
    return lambda notes: notes[name].__setitem__(0, value)


def hold_drum(notes: Notes) -> None:
    notes["end"][np.argmax(notes["track"] == 1)] = 10_000


def test_a_whole_corpus_has_nothing_wrong_with_it(root: Path) -> None:
    assert verify(root / "corpus", root / "source") == []


@pytest.mark.parametrize("name", ["notes.npy", "index.jsonl", "tokenizer.json"])
def test_a_file_that_was_changed_is_named(root: Path, name: str) -> None:
    path = root / "corpus" / name
    if name == "notes.npy":
        notes = np.load(path)
        notes["velocity"][0] += 1  # a note a little louder: nothing but the hash says so
        np.save(path, notes)
    else:
        path.write_bytes(path.read_bytes().replace(b": ", b":  ", 1))
    assert verify(root / "corpus") == [f"{path}: changed since it was prepared"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (set_first("track", 1), "a note on another track"),
        (hold_drum, "a note on a pitch that still sounds"),
    ],
)
def test_a_note_that_cannot_be_is_named_even_if_hashes_were_taken_again(
    root: Path, change: Callable[[Notes], Any], sentence: str
) -> None:
    edit_notes(root / "corpus", change)
    problems = verify(root / "corpus")
    first = Corpus.open(root / "corpus").songs()[0]
    assert any(problem.startswith(f"{first.path}: {sentence}") for problem in problems)


@pytest.mark.parametrize(
    ("name", "value"),
    [("start", -1), ("end", 0), ("start", 96), ("pitch", -1), ("pitch", 128), ("velocity", 0), ("track", 99)],
)
def test_a_note_that_no_groove_can_have_is_refused_at_once(root: Path, name: str, value: int) -> None:
    edit_notes(root / "corpus", set_first(name, value))
    with pytest.raises(UserError, match=r"notes\.npy: .*prepare it again"):
        verify(root / "corpus")


@pytest.mark.parametrize(("field", "sentence"), [("style", "of the style"), ("sha256", "the same file")])
def test_kin_in_two_splits_are_named(root: Path, field: str, sentence: str) -> None:
    corpus = Corpus.open(root / "corpus")
    train, held = corpus.songs("train")[0], corpus.songs("test")[0]
    edit_index(root / "corpus", held.path, **{field: getattr(train, field)})
    sign(root / "corpus")
    assert any(held.path in problem and sentence in problem for problem in verify(root / "corpus"))


def test_a_family_in_two_splits_is_named(root: Path) -> None:
    train = Corpus.open(root / "corpus").songs("train")
    edit_index(root / "corpus", train[0].path, split="test")
    sign(root / "corpus")
    problems = verify(root / "corpus")
    assert any(f"of the family {train[0].family}" in problem for problem in problems)


def test_a_split_that_cannot_be_is_named(root: Path) -> None:
    song = Corpus.open(root / "corpus").songs("valid")[0]
    edit_index(root / "corpus", song.path, split="ival")
    sign(root / "corpus")
    assert any(problem.startswith(song.path) and "seen_style_valid" in problem for problem in verify(root / "corpus"))


def test_notes_that_are_not_in_their_place_are_named(root: Path) -> None:
    song = Corpus.open(root / "corpus").songs()[1]
    edit_index(root / "corpus", song.path, offset=song.offset - 1)
    sign(root / "corpus")
    assert any(problem.startswith(f"{song.path}: at note") for problem in verify(root / "corpus"))


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_source_file_that_was_changed_is_named(root: Path, is_gone: bool) -> None:
    path = root / "source" / "family 0" / "style0.a.mid"
    path.unlink() if is_gone else path.write_bytes(b"else")
    assert verify(root / "corpus") == []
    assert verify(root / "corpus", root / "source") == [f"{path}: missing, or changed since the corpus was prepared"]


def test_hashes_that_are_missing_are_not_taken_for_right(root: Path) -> None:
    (root / "corpus" / "corpus.json").write_text(json.dumps({"format": 1}))
    assert len(verify(root / "corpus")) == 3
