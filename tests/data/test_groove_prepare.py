"""From folders of accompaniments to corpora: layouts, splits, the index, and what is left out."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from corpora import in_memory, put
from grooves import groove2groove, grooves_in_memory, style_folder

from musicgen.data.corpus import Corpus
from musicgen.data.prepare import gather, read_files
from musicgen.errors import UserError
from musicgen.languages import Groove
from musicgen.languages.groove.kin import check_kin, join_kin
from musicgen.languages.groove.layouts import Kin, find, find_grooves, find_kin
from musicgen.languages.groove.song import SEEN_STYLES, GrooveSong
from musicgen.languages.groove.synthetic import compose_groove
from musicgen.languages.groove.table import make_table
from musicgen.midi.score import TimeSignature

SPLITS = ("train", "valid", "test", *SEEN_STYLES)


def prepared(folder: Path, seed: int = 0, lists: dict[str, str] | None = None, workers: int = 1) -> Corpus:
    found = find(folder, "auto", is_asked=False)
    assert found
    about = {"layout": found.layout}
    return gather(Groove(), read_files(Groove(), folder, found, workers), seed, found.lists or lists, about)


def families(corpus: Corpus) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for song in corpus.songs():
        found[str(song.split)].add(song.family)
    return found


def test_styles_in_folders_are_read_and_described(tmp_path: Path) -> None:
    style_folder(tmp_path, 3, 1)
    put(
        compose_groove(0, 0, 4).replace(time_signatures=(TimeSignature(0, 3, 4),)),
        tmp_path / "family 0" / "waltz.a.mid",
    )
    (tmp_path / "family 0" / "broken.a.mid").write_bytes(b"MThd")
    corpus = prepared(tmp_path)
    assert [song.path for song in corpus.index] == sorted(song.path for song in corpus.index)
    reasons = {song.path: song.dropped for song in corpus.index if song.dropped}
    assert set(reasons) == {"family 0/waltz.a.mid", "family 0/broken.a.mid"}
    assert "not in 4/4" in str(reasons["family 0/waltz.a.mid"])
    for song in corpus.songs():
        letter = song.path[-5]
        family = int(song.path[7])
        played = compose_groove("ab".index(letter), 3 * family, 8)
        table = make_table(played)
        assert np.array_equal(corpus[song], table.notes)
        assert (song.family, song.style) == (f"family {family}", f"family {family}/style0")
        assert song.tracks == table.instruments
        assert (song.bars, song.count_in) == (8, 0)
        assert song.tempo == pytest.approx(float(played.tempos["bpm"][0]), abs=0.01)


def test_groove2groove_loses_its_count_in_and_keeps_its_families_together(tmp_path: Path) -> None:
    groove2groove(tmp_path, 6)
    corpus = prepared(tmp_path)
    assert corpus.about["layout"] == "groove2groove"
    assert len(corpus.songs()) == 24  # of the training part alone
    for song in corpus.songs():
        number, take, letter = int(song.path[-12]), int(song.path[-11]), song.path[-5]
        assert (song.family, song.style) == (f"ST{number}", f"ST{number}_{letter}")
        plain = make_table(compose_groove(take, 3 * number + (letter == "b"), 8))
        assert song.count_in == 2
        assert song.notes <= len(plain.notes)  # two pianos are one
        assert {track.name for track in song.tracks} <= {"BB Bass", "BB Drums", "BB Guitar", "BB Piano"}
        assert [track.part for track in song.tracks][:2] == ["bass", "drums"]
        bass = corpus[song]["track"] == 0
        assert np.array_equal(corpus[song][bass], plain.notes[plain.notes["track"] == 0])
    assert prepared(tmp_path / "midi" / "train" / "fixed").about["layout"] == "groove2groove"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("songs", [6, 14, 60, 150])
def test_no_family_is_in_two_splits_and_held_out_styles_are_a_tenth(seed: int, songs: int) -> None:
    corpus = grooves_in_memory(songs, 1, seed)
    found, styles = families(corpus), len({song.style for song in corpus.songs()})
    check_kin(corpus.songs())
    if styles > 6:  # three families at least
        assert found["train"]
        assert not found["train"] & found["valid"] | found["valid"] & found["test"] | found["train"] & found["test"]
        for split in ("valid", "test"):
            held = {song.style for song in corpus.songs(split)}
            assert 1 <= len(held) <= max(styles // 10, 3)  # a family has three
    trained = {song.style for song in corpus.songs("train")}
    for split in SEEN_STYLES:
        chosen = corpus.songs(split)
        assert len(chosen) == len({song.style for song in chosen}) <= styles // 10
        assert {song.style for song in chosen} <= trained
    in_domain = [{song.style for song in corpus.songs(split)} for split in SEEN_STYLES]
    assert not in_domain[0] & in_domain[1]
    if songs == 150:
        assert all(in_domain)
    assert sum(len(corpus.songs(split)) for split in SPLITS) == songs


def test_a_split_is_drawn_from_the_seed_and_from_contents_and_not_from_names(tmp_path: Path) -> None:
    first, second = grooves_in_memory(60, 1, 0), grooves_in_memory(60, 1, 0)
    assert first.index == second.index
    style_folder(tmp_path / "a", 12, 1, 2)
    drawn = [families(prepared(tmp_path / "a", seed))["valid"] for seed in range(5)]
    assert len({frozenset(names) for names in drawn}) > 1


def test_the_corpus_is_the_same_with_any_number_of_workers(tmp_path: Path) -> None:
    style_folder(tmp_path / "in", 4, 1, 2)
    contents = []
    for workers in (1, 3):
        (tmp_path / str(workers)).mkdir()
        prepared(tmp_path / "in", workers=workers).write(tmp_path / str(workers))
        contents.append({path.name: path.read_bytes() for path in (tmp_path / str(workers)).iterdir()})
    assert contents[0] == contents[1]


def test_an_index_beside_the_files_says_what_is_kin_and_what_is_held_out(tmp_path: Path) -> None:
    style_folder(tmp_path, 4, 1, 2)
    lines = ["path\tcluster\tsplit"]
    for family, (cluster, split) in enumerate([("x", "train"), ("x", "train"), ("y", "valid"), ("z", "test")]):
        lines += [f"family {family}/style0.{letter}.mid\t{cluster}\t{split}" for letter in "ab"]
    (tmp_path / "index.tsv").write_text("\n".join(lines[:-1]) + "\n")
    corpus = prepared(tmp_path)
    assert {song.path[:8]: (song.family, song.split) for song in corpus.songs()} == {
        "family 0": ("x", "train"), "family 1": ("x", "train"), "family 2": ("y", "valid"), "family 3": ("z", "test"),
    }  # fmt: skip
    assert corpus.index[-1].dropped == "in none of the given lists"
    (tmp_path / "index.tsv").write_text("\n".join(lines).replace("x\ttrain", "x\ttest", 1))
    with pytest.raises(UserError, match=r"\(train\): of the family x, like .* \(test\)"):
        prepared(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"name\tsplit\na\tb\n", "no column called path"),
        (b"path\tsplit\na\tb\n", "line 2: split 'b'"),
        (b"\xff", "UTF-8"),
        (b"", "has no lines"),
        (b"path\tsplit\n", "has no lines"),
        (b"path\tsplit\nelsewhere/a.mid\ttrain\n", "none of the MIDI files in its folder .line 2: 'elsewhere/a.mid'"),
    ],
)
def test_a_wrong_index_is_one_sentence(tmp_path: Path, text: bytes, reason: str) -> None:
    style_folder(tmp_path, 1, 1, 2)
    (tmp_path / "index.tsv").write_bytes(text)
    with pytest.raises(UserError, match=reason):
        prepared(tmp_path)


def test_other_folders_are_not_taken_for_grooves_unless_asked(tmp_path: Path) -> None:
    put(compose_groove(0, 0, 2), tmp_path / "some" / "song.mid")
    put(compose_groove(0, 0, 2), tmp_path / "some" / "style.a.mid")
    assert find_grooves(tmp_path, "auto") is None
    assert find_grooves(tmp_path, "styles") is None
    assert find_grooves(tmp_path, "folder") == ("folder", ["some/song.mid", "some/style.a.mid"])
    kin = find_kin(tmp_path, ["some/song.mid", "some/style.a.mid", "alone.mid"], "folder")
    assert [known[:3] for known in kin.values()] == [
        ("some", "some/song", None), ("some", "some/style", None), ("alone", "alone", None),
    ]  # fmt: skip


def test_a_stray_file_does_not_make_a_folder_of_styles_another_thing(tmp_path: Path) -> None:
    style_folder(tmp_path, 3, 1, 2)
    put(compose_groove(7, 20, 2), tmp_path / "family 0" / "demo.mid")
    corpus = prepared(tmp_path)
    assert corpus.about["layout"] == "styles"
    stray = next(song for song in corpus.songs() if song.path == "family 0/demo.mid")
    assert (stray.family, stray.style) == ("family 0", "family 0/demo")


def test_an_index_that_names_files_makes_a_folder_one_of_styles(tmp_path: Path) -> None:
    for number in range(4):
        put(compose_groove(number, 3 * number, 2), tmp_path / f"{number}.mid")
    (tmp_path / "index.tsv").write_text("path\tcluster\n0.mid\tx\n1.mid\tx\n2.mid\ty\n")
    layout, paths = find_grooves(tmp_path, "auto") or ("", [])
    assert layout == "styles"
    kin = find_kin(tmp_path, paths, layout)
    assert [known.family for known in kin.values()] == ["x", "x", "y", "3"]
    assert [path for path, known in kin.items() if not known.is_listed] == ["3.mid"]
    (tmp_path / "index.tsv").write_text("path\nelsewhere.mid\n")
    assert find_grooves(tmp_path, "auto") is None


def groove(path: str, family: str, style: str, sha256: str, split: str | None = None) -> GrooveSong:
    return GrooveSong(path, sha256, split, family=family, style=style)


def test_kin_are_a_chain_of_families_styles_and_copies() -> None:
    songs = [
        groove("0", "f", "s", "h0"), groove("1", "g", "t", "h1"), groove("2", "g", "u", "h2"),
        groove("3", "h", "u", "h3"), groove("4", "i", "v", "h0"), groove("5", "j", "v", "h5"),
        groove("6", "k", "w", "h6"),
    ]  # fmt: skip
    assert join_kin(songs) == [0, 1, 1, 1, 0, 0, 6]
    assert join_kin([]) == []


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        (groove("a", "f", "s", "1", "train"), groove("b", "f", "t", "2", "test"), "of the family f, like a"),
        (groove("a", "f", "s", "1", "seen_style_valid"), groove("b", "g", "s", "2", "valid"), "of the style s, like a"),
        (groove("a", "f", "s", "1", "test"), groove("b", "g", "t", "1", "valid"), "the same file, .* as a"),
        (groove("a", "f", "s", "1", "train"), groove("b", "f", "s", "1", "seen_style_valid"), "the same file, .* as a"),
        (groove("a", "f", "s", "1", "train"), groove("b", "f", "s", "2", "seen_style_test"), ""),
        (groove("a", "f", "s", "1", "train"), groove("b", "f", "s", "1", None), ""),
    ],
)
def test_kin_in_two_splits_are_named(one: GrooveSong, other: GrooveSong, reason: str) -> None:
    if not reason:
        check_kin([one, other])
        return
    with pytest.raises(UserError, match=rf"b \({other.split}\): {reason} \({one.split}\); they belong in one split"):
        check_kin([one, other])


@pytest.mark.parametrize("seed", range(4))
def test_copies_and_styles_are_never_drawn_apart(tmp_path: Path, seed: int) -> None:
    style_folder(tmp_path, 6, 1, 2)
    copied = (tmp_path / "family 0" / "style0.a.mid").read_bytes()
    (tmp_path / "family 5" / "style0.b.mid").write_bytes(copied)
    (tmp_path / "index.tsv").write_text("path\tcluster\nfamily 1/style0.a.mid\tx\nfamily 2/style0.b.mid\tx\n")
    corpus = prepared(tmp_path, seed)
    check_kin(corpus.songs())
    homes = {song.path: "train" if song.split in SEEN_STYLES else song.split for song in corpus.songs()}
    for kin in (("family 0", "family 5"), ("family 1", "family 2")):
        assert len({home for path, home in homes.items() if path.startswith(kin)}) == 1
    assert not {song.path for split in SEEN_STYLES for song in corpus.songs(split)} & {"family 5/style0.b.mid"}


@pytest.mark.parametrize(
    "changes",
    [
        {"tempo": float("nan")}, {"tempo": 5.0}, {"tempo": "fast"}, {"split": "trian"}, {"bars": 0}, {"bars": None},
        {"notes": 1}, {"sha256": 5}, {"tracks": []}, {"seconds": None},
        {"part": "kazoo"}, {"program": 128}, {"program": 1.5}, {"name": None}, {"size": -1},
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_is_refused(folder: Path, changes: dict[str, object]) -> None:
    lines = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]
    fields = set(changes) & set(lines[0])
    lines[0] |= {name: changes[name] for name in fields}
    if not fields:
        lines[0]["tracks"][0] |= {"notes": -1} if "size" in changes else changes
    (folder / "index.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match=r"index\.jsonl: .*prepare it again"):
        Corpus.open(folder)


@pytest.mark.parametrize(("bpm", "tempo"), [(2.0, 10.0), (5000.0, 1000.0), (90.0, 90.0)])
def test_no_tempo_is_beyond_those_that_there_are(bpm: float, tempo: float) -> None:
    score = compose_groove(0, 0, 2)
    tempos = score.tempos[:1].copy()
    tempos["bpm"] = bpm
    record = Groove().read(score.replace(tempos=tempos), "x", "y", "folder", Kin("f", "s")).song
    assert record.tempo == tempo
    assert record.is_sound()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    grooves_in_memory(20, 4).write(tmp_path / "corpus")
    return tmp_path / "corpus"


def test_what_is_written_is_read_again_and_known_by_its_fingerprint(folder: Path) -> None:
    corpus, again = grooves_in_memory(20, 4), Corpus.open(folder)
    assert isinstance(again, Corpus)
    assert again.index == corpus.index
    assert np.array_equal(again.array, corpus.array)
    assert isinstance(again.array, np.memmap)
    assert again.fingerprint == corpus.fingerprint != grooves_in_memory(20, 4, 1).fingerprint
    moved = dataclasses.replace(corpus, index=tuple(dataclasses.replace(song, split="train") for song in corpus.index))
    assert moved.fingerprint != corpus.fingerprint  # the split is a part of what is trained on


def test_the_kind_of_a_corpus_is_told_by_its_tokens(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "piano").mkdir()
    in_memory(3, 2).write(tmp_path / "piano")
    assert Corpus.open(tmp_path / "piano").language.name == "remi"
    assert Corpus.open(folder).language.name == "groove"
    (folder / "notes.npy").rename(folder / "tokens.npy")
    (folder / "index.jsonl").write_text("")
    with pytest.raises(UserError, match=r"notes\.npy"):
        Corpus.open(folder)
    with pytest.raises(UserError, match="not a prepared corpus"):
        Corpus.open(tmp_path)


@pytest.mark.parametrize("line", ["", "{", "[]", "{}", '{"path": 1}', '{"tracks": [{}]}'])
def test_an_index_of_something_else_is_one_sentence(folder: Path, line: str) -> None:
    (folder / "index.jsonl").write_text(f"{line}\n")
    with pytest.raises(UserError, match=r"index\.jsonl"):
        Corpus.open(folder)


def test_a_line_of_the_index_is_the_record_again() -> None:
    for song in grooves_in_memory(4, 2).index:
        assert GrooveSong.from_json(song.to_json()) == song


def test_a_sample_of_real_accompaniments_is_prepared_by_the_splits_beside_them(
    real_data: Callable[[str], Path], tmp_path: Path
) -> None:
    source = real_data("grooves")
    rows = (source / "index.tsv").read_text("utf-8").splitlines()
    for path in [row.split("\t")[0] for row in rows[1::60]]:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes((source / path).read_bytes())
    (tmp_path / "index.tsv").write_text("\n".join(rows))
    corpus = prepared(tmp_path)
    assert len(corpus.songs()) == len(rows[1::60])
    header = rows[0].split("\t")
    known = {row[0]: row for row in (line.split("\t") for line in rows[1:])}
    for song in corpus.songs():
        row = known[song.path]
        assert song.family == row[header.index("cluster")]
        assert song.split in (row[header.index("split")], *SEEN_STYLES)
        roles = [role.split("=")[1] for role in row[header.index("roles")].split(";")]
        assert "bass" in roles
        assert {"bass", "drums", "other"} == {track.part for track in song.tracks}
        assert not corpus.language.grammar.errors(corpus.tokens(song))
