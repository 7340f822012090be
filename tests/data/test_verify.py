from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import copy_of, encode_song, pop1k7

from musicgen.data.corpus import Corpus
from musicgen.data.prepare import find_songs, gather, read_files
from musicgen.data.verify import check_song, verify
from musicgen.errors import UserError
from musicgen.languages import Remi
from musicgen.languages.remi.synthetic import compose


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`source` with songs and a broken file, and `corpus`, made of it."""
    root = tmp_path_factory.mktemp("data")
    source = pop1k7(root / "source", 6, 4)
    (source / "src_001" / "broken.mid").write_bytes(b"MThd")
    gather(Remi(), read_files(Remi(), source, find_songs(source)[1], 1), 0).write(mkdir(root))
    return root


def mkdir(root: Path) -> Path:
    (root / "corpus").mkdir()
    return root / "corpus"


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


def sign(folder: Path) -> None:
    """Take the hashes again, so that they hide what was changed."""
    manifest = json.loads((folder / "corpus.json").read_text())
    for name in manifest["sha256"]:
        manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "corpus.json").write_text(json.dumps(manifest))


def edit_index(folder: Path, path: str, **changes: Any) -> None:
    lines = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]
    lines = [{**line, **changes} if line["path"] == path else line for line in lines]
    (folder / "index.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def edit_tokens(folder: Path, place: int, token: int) -> None:
    tokens = np.load(folder / "tokens.npy")
    tokens[place] = token
    np.save(folder / "tokens.npy", tokens)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_corpus_is_sound_as_it_was_made(workers: int, root: Path) -> None:
    assert verify(root / "corpus", root / "source", workers) == []


@pytest.mark.parametrize("name", ["tokens.npy", "index.jsonl", "tokenizer.json"])
def test_a_file_that_was_changed_is_named(name: str, root: Path) -> None:
    path = root / "corpus" / name
    if name == "tokens.npy":
        tokens = np.load(path)
        first = Remi.vocabulary.first("Velocity")
        place = int(np.flatnonzero((tokens >= first) & (tokens < first + 20))[0])
        edit_tokens(
            root / "corpus", place, int(tokens[place]) + 1
        )  # a note a little louder: nothing but the hash says so
    else:
        path.write_bytes(path.read_bytes().replace(b": ", b":  ", 1))
    assert verify(root / "corpus") == [f"{path}: changed since it was prepared"]


@pytest.mark.parametrize("token", [Remi.vocabulary["PAD"], Remi.end, Remi.vocabulary["Bar"]])
def test_a_token_that_breaks_the_grammar_is_named_even_if_hashes_were_taken_again(token: int, root: Path) -> None:
    corpus = Corpus.open(root / "corpus")
    song = corpus.songs()[3]
    edit_tokens(root / "corpus", song.offset + song.tokens // 2, token)
    sign(root / "corpus")
    problems = verify(root / "corpus")
    assert len(problems) == 1
    assert problems[0].startswith(f"{song.path}: ")


def test_a_token_that_does_not_exist_is_noticed_when_the_corpus_is_opened(root: Path) -> None:
    edit_tokens(root / "corpus", 5, 361)
    sign(root / "corpus")
    with pytest.raises(UserError, match="does not fit the index of the corpus"):
        verify(root / "corpus")


def test_a_song_that_does_not_follow_the_one_before_is_named(root: Path) -> None:
    songs = Corpus.open(root / "corpus").songs()
    edit_index(root / "corpus", songs[2].path, offset=songs[2].offset - 1)
    sign(root / "corpus")
    problems = verify(root / "corpus")
    assert f"{songs[2].path}: at token {songs[2].offset - 1}, where {songs[2].offset} was expected" in problems


def test_a_song_that_is_missing_from_the_index_is_noticed(root: Path) -> None:
    lines = (root / "corpus" / "index.jsonl").read_text().splitlines(keepends=True)
    (root / "corpus" / "index.jsonl").write_text("".join(lines[1:]))
    sign(root / "corpus")
    assert verify(root / "corpus")


def test_an_unknown_split_is_named(root: Path) -> None:
    path = Corpus.open(root / "corpus").songs()[0].path
    edit_index(root / "corpus", path, split="trian")
    sign(root / "corpus")
    assert verify(root / "corpus") == [f"{path}: unknown split 'trian'"]


@pytest.mark.parametrize("change", ["song", "broken", "gone"])
def test_a_source_file_that_was_changed_is_named_if_the_source_is_given(change: str, root: Path) -> None:
    path = root / "source" / "src_001" / ("broken.mid" if change == "broken" else "0.mid")
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + b" ")
    assert verify(root / "corpus") == []
    assert verify(root / "corpus", root / "source") == [f"{path}: missing, or changed since the corpus was prepared"]


def test_a_copy_that_was_moved_to_another_split_is_named_with_its_original(tmp_path: Path) -> None:
    songs = [(f"{number}.mid", compose(number, 8)) for number in range(5)]
    songs.append(("copy.mid", copy_of(compose(2, 8), 0, semitones=4, bars=1, changed=0.03)))
    results = [encode_song(score, name, f"{number:064x}") for number, (name, score) in enumerate(songs)]
    folder = mkdir(tmp_path)
    gather(Remi(), results, 0, {name: "train" for name, _ in songs}, {}).write(folder)
    assert verify(folder) == []
    edit_index(folder, "copy.mid", split="test")
    sign(folder)
    assert verify(folder) == ["copy.mid (test): the same song as 2.mid (train)"]


def test_hashes_that_are_missing_are_not_taken_for_right(root: Path) -> None:
    (root / "corpus" / "corpus.json").write_text('{"format": 1}')
    assert len(verify(root / "corpus")) == 3


def test_what_is_checked_goes_through_the_progress_bar(root: Path) -> None:
    seen = []

    def progress(items: Any, total: int) -> Any:
        for item in items:
            seen.append((item, total))
            yield item

    assert verify(root / "corpus", progress=progress) == []
    assert [total for _, total in seen] == [6] * 6


def test_a_song_is_checked_and_sketched_whatever_its_tokens_are() -> None:
    generator = np.random.default_rng(0)
    for length in (0, 1, 2, 50):
        sentence, sketch = check_song(Remi(), generator.integers(0, 361, length).astype(np.uint16), None)
        assert sentence
        assert sketch is not None
        assert len(sketch)
