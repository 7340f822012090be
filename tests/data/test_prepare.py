"""Songs become a corpus: one line for each file, the same bytes with any number of workers, and nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import copy_of, encode_song, in_memory, on_disk, pop1k7, put

from musicgen.data import prepare
from musicgen.data.corpus import Corpus
from musicgen.data.prepare import compose_songs, gather, read_file, read_files
from musicgen.languages import Remi
from musicgen.languages.language import Language
from musicgen.languages.layouts import Found
from musicgen.languages.remi.synthetic import compose
from musicgen.languages.song import Read, TokenSong
from musicgen.languages.split import SPLITS
from musicgen.midi.score import NOTE, Score, TimeSignature, Track


def hostile_file(language: Language, folder: str, path: str, layout: str, facts: object, *reading: Any) -> Read:
    """What the worker runs in a test: some files are its death."""
    if "crash" in path:
        os.abort()
    if "hang" in path:
        time.sleep(600)
    if "bug" in path:
        raise KeyError("a mistake of ours")
    return read_file(language, folder, path, layout, facts, *reading)


def lines(corpus: Corpus) -> dict[str, TokenSong]:
    return {song.path: song for song in corpus.index}


def test_a_song_is_what_the_tokens_say_and_the_line_counts_it() -> None:
    score = compose(1, 8)
    encoded = encode_song(score, "a.mid", "0" * 64)
    record = encoded.song
    assert isinstance(record, TokenSong)
    assert (record.tokens, record.bars, record.notes) == (len(encoded.rows), 8, len(score.notes))
    assert record.seconds == pytest.approx(score.duration, abs=0.01)
    assert Remi().grammar.errors(encoded.rows) == []


def test_files_that_cannot_be_used_are_lines_that_say_why(tmp_path: Path) -> None:
    put(compose(0, 4), tmp_path / "good.mid")
    put(compose(1, 4).replace(time_signatures=(TimeSignature(0, 3, 4),)), tmp_path / "three.mid")
    put(compose(2, 4).replace(notes=np.empty(0, NOTE)), tmp_path / "silent.mid")
    put(compose(3, 4).replace(tracks=(Track("Kit", is_drum=True),)), tmp_path / "drums.mid")
    (tmp_path / "cut.mid").write_bytes((tmp_path / "good.mid").read_bytes()[:-40])
    (tmp_path / "empty.mid").write_bytes(b"")
    (tmp_path / "text.mid").write_text("this is no MIDI")
    paths = sorted(path.name for path in tmp_path.iterdir())
    corpus = gather(Remi(), read_files(Remi(), tmp_path, Found("folder", [*paths, "gone.mid"]), 2), 0)
    found = lines(corpus)
    assert list(found) == [*paths, "gone.mid"]
    reasons = {
        "three.mid": "not in 4/4 (3/4 from beat 1 on)",
        "silent.mid": "no notes",
        "drums.mid": "no notes but drums",
        "cut.mid": "cut short",
        "empty.mid": "empty file",
        "text.mid": "not a MIDI file",
        "gone.mid": "No such file",
    }
    for path, reason in reasons.items():
        song = found[path]
        assert reason in str(song.dropped)
        assert str(tmp_path) not in str(song.dropped)
        assert path not in str(song.dropped)
        assert (song.split, song.tokens, song.offset) == (None, 0, 0)
    assert found["good.mid"].dropped is None
    assert found["good.mid"].split == "train"
    for path in paths:
        assert found[path].sha256 == hashlib.sha256((tmp_path / path).read_bytes()).hexdigest()
    assert found["gone.mid"].sha256 is None
    assert len(corpus.array) == found["good.mid"].tokens


def test_a_file_that_kills_or_hangs_the_reader_is_a_line_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a.mid", "bug.mid", "crash.mid", "d.mid", "hang.mid", "z.mid"]
    for number, name in enumerate(names):
        put(compose(number, 2), tmp_path / name)
    monkeypatch.setattr(prepare, "read_file", hostile_file)
    monkeypatch.setattr(prepare, "SECONDS", 2.5)
    corpus = gather(Remi(), read_files(Remi(), tmp_path, Found("folder", names), 2), 0)
    assert [song.dropped for song in corpus.index] == [
        None,
        "raised KeyError: 'a mistake of ours'",
        "crashed the process that tried it",
        None,
        "took more than 2.5 s",
        None,
    ]
    assert all(len(str(song.sha256)) == 64 for song in corpus.index)


def test_the_corpus_is_the_same_with_any_number_of_workers_and_wherever_the_input_is(tmp_path: Path) -> None:
    written = []
    for workers in (1, 3):
        source = pop1k7(tmp_path / f"input {workers}", 12, 4)
        (source / "broken.mid").write_bytes(b"MThd")
        (source / "hidden").mkdir()
        put(compose(3, 4), source / "hidden" / "copy.mid")
        paths = sorted(path.relative_to(source).as_posix() for path in source.rglob("*.mid"))
        output = tmp_path / f"output {workers}"
        output.mkdir()
        gather(Remi(), read_files(Remi(), source, Found("folder", paths), workers), 5, None, {"a": 1}).write(output)
        written.append({path.name: path.read_bytes() for path in output.iterdir()})
    assert written[0] == written[1]
    assert str(tmp_path).encode() not in b"".join(written[0].values())


def test_a_corpus_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    corpus = in_memory(8)
    corpus.write(tmp_path)
    again = Corpus.open(tmp_path)
    assert again.index == corpus.index
    assert np.array_equal(again.array, corpus.array)
    assert again.array.dtype == np.uint16
    for song, encoded in zip(again.songs(), compose_songs(Remi(), 8, 8, 0), strict=True):
        assert np.array_equal(again[song], encoded.rows)
        assert song.group == song.path
    assert {song.split for song in again.songs()} == set(SPLITS)
    assert sum(len(again.songs(split)) for split in SPLITS) == 8


def test_every_line_of_the_index_has_what_is_promised(tmp_path: Path) -> None:
    on_disk(tmp_path / "corpus", [("a.mid", compose(0, 2)), ("ü b.mid", compose(1, 2))], {"a.mid": "train"})
    records = [json.loads(line) for line in (tmp_path / "corpus" / "index.jsonl").read_text("utf-8").splitlines()]
    assert [record["path"] for record in records] == ["a.mid", "ü b.mid"]
    for record in records:
        assert {"path", "sha256", "split", "dropped", "tokens", "bars", "notes", "seconds"} <= set(record)
    assert (records[0]["split"], records[0]["dropped"]) == ("train", None)
    assert (records[1]["split"], records[1]["dropped"]) == (None, "in none of the given lists")


@pytest.mark.parametrize(
    "name", ["a\u2028b.mid", "a\u0085b.mid", "a\nb.mid", "a\tb\\.mid", os.fsdecode(b"caf\xe9.mid")]
)
def test_a_song_of_any_name_can_be_read_back(name: str, tmp_path: Path) -> None:
    on_disk(tmp_path / "corpus", [(name, compose(0, 2)), ("b.mid", compose(1, 2))])
    assert [song.path for song in Corpus.open(tmp_path / "corpus").songs()] == [name, "b.mid"]


def planted() -> list[tuple[str, Score]]:
    """Twelve songs, of which 3 and 7 have copies at the end."""
    songs = [(f"{number:02d}.mid", compose(number, 8)) for number in range(12)]
    songs.append(("copy of 03.mid", copy_of(compose(3, 8), 1, semitones=2, bars=1, changed=0.03)))
    songs.append(("copy of 07.mid", copy_of(compose(7, 8), 2, semitones=-3, changed=0.03)))
    return songs


@pytest.mark.parametrize("seed", range(6))
def test_copies_are_drawn_into_one_split_and_say_of_what_they_are_copies(seed: int) -> None:
    results = [encode_song(score, name, f"{number:064x}") for number, (name, score) in enumerate(planted())]
    found = lines(gather(Remi(), results, seed, None, {}))
    for original in ("03.mid", "07.mid"):
        copy = found[f"copy of {original}"]
        assert (copy.split, copy.group) == (found[original].split, original)
    assert all(song.dropped is None for song in found.values())


def test_of_copies_in_different_given_lists_the_one_that_is_held_out_stays() -> None:
    results = [encode_song(score, name, f"{number:064x}") for number, (name, score) in enumerate(planted())]
    given = {name: "train" for name, _ in planted()} | {"copy of 03.mid": "test", "07.mid": "valid", "01.mid": "test"}
    corpus = gather(Remi(), results, 0, given, {})
    found = lines(corpus)
    assert (found["copy of 03.mid"].split, found["07.mid"].split) == ("test", "valid")
    assert found["03.mid"].dropped == "the same song as copy of 03.mid, which is in 'test'"
    assert found["copy of 07.mid"].dropped == "the same song as 07.mid, which is in 'valid'"
    assert {song.path for song in corpus.songs("train")} == {
        name for name, split in given.items() if split == "train"
    } - {"03.mid", "copy of 07.mid"}
    assert sum(song.tokens for song in corpus.index) == len(corpus.array)


def test_songs_in_no_list_are_left_out_and_say_so() -> None:
    results = [encode_song(score, name, f"{number:064x}") for number, (name, score) in enumerate(planted())]
    corpus = gather(Remi(), results, 0, {"00.mid": "train", "05.mid": "valid"}, {})
    assert [song.path for song in corpus.songs()] == ["00.mid", "05.mid"]
    assert {song.dropped for song in corpus.index if song.split is None} == {"in none of the given lists"}


def test_composed_corpora_are_the_same_for_the_same_seed_and_others_for_others() -> None:
    assert np.array_equal(in_memory(3, 4, 1).array, in_memory(3, 4, 1).array)
    assert not np.array_equal(in_memory(3, 4, 1).array, in_memory(3, 4, 2).array)
    first, second = ({song.sha256 for song in in_memory(5, 4, seed).index} for seed in (1, 2))
    assert not first & second
