from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from corpora import pop1k7, pop909_song, put

from musicgen.data.prepare import find_songs as find_in
from musicgen.errors import UserError
from musicgen.languages import Remi
from musicgen.languages.remi.layouts import LAYOUTS
from musicgen.languages.remi.quantise import quantise
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.score import Score

NAMES = ["a b.mid", "ü.MID", 'it\'s "x".Midi', "a,b[c]{d}.mid", "no.dots.mid", "-.mid", "日本/曲.mid", "#1 $x ${y}.mid"]


def find_songs(folder: Path, layout: str) -> tuple[str, list[str]]:
    found = find_in(folder, layout, "pop_piano")[1]
    return found.layout, found.paths


def freely(beats: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.uniform(0, 2) + np.cumsum(np.clip(np.cumprod(random.uniform(0.8, 1.25, beats)), 0.4, 0.9))


def same_music(loaded: Score, piece: Score) -> bool:
    ours, theirs = quantise(loaded)[0], quantise(piece)[0]
    return np.array_equal(ours.notes, theirs.notes) and ours.chords == theirs.chords


def test_pop1k7_is_recognised_and_its_songs_are_in_order(tmp_path: Path) -> None:
    name, songs = find_songs(pop1k7(tmp_path, 6, 2), "auto")
    assert (name, songs) == ("pop1k7", sorted(songs))
    assert songs[0] == "src_001/0.mid"
    assert len(songs) == 6


def test_pop909_is_recognised_without_the_other_versions_of_its_songs(tmp_path: Path) -> None:
    for number in (2, 1):
        pop909_song(compose(number, 2), tmp_path / "POP909" / f"{number:03d}")
        put(compose(number, 2), tmp_path / "POP909" / f"{number:03d}" / "versions" / f"{number:03d}-v1.mid")
    assert find_songs(tmp_path, "auto") == ("pop909", ["POP909/001/001.mid", "POP909/002/002.mid"])


def test_any_other_folder_has_every_midi_file_whatever_its_name(tmp_path: Path) -> None:
    for name in NAMES:
        put(compose(0, 1), tmp_path / name)
    (tmp_path / "readme.txt").write_text("no song")
    (tmp_path / "mid").write_text("no song")
    assert find_songs(tmp_path, "auto") == ("folder", sorted(NAMES))


def test_folders_and_links_that_lead_nowhere_are_found_so_that_reading_can_say_what_they_are(tmp_path: Path) -> None:
    put(compose(0, 1), tmp_path / "songs" / "a.mid")
    (tmp_path / "x.mid").mkdir()
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "songs" / "round").symlink_to(tmp_path / "songs")
    (tmp_path / "self.mid").symlink_to(tmp_path / "self.mid")
    assert find_songs(tmp_path, "auto") == ("folder", ["self.mid", "songs/a.mid", "x.mid"])


@pytest.mark.parametrize("other", ["b.mid", "more/c.mid"])
def test_no_file_is_lost_in_a_folder_that_is_a_known_layout_only_in_part(other: str, tmp_path: Path) -> None:
    pop1k7(tmp_path, 2, 1)
    put(compose(5, 1), tmp_path / other)
    assert other in find_songs(tmp_path, "auto")[1]


def test_a_song_of_pop909_without_its_beats_is_not_lost(tmp_path: Path) -> None:
    for number in (1, 2):
        pop909_song(compose(number, 2), tmp_path / f"{number:03d}")
    (tmp_path / "002" / "beat_midi.txt").unlink()
    assert find_songs(tmp_path, "auto")[1] == ["001/001.mid", "002/002.mid"]
    with pytest.raises(UserError, match=r"beat_midi\.txt"):
        Remi().load(tmp_path, "002/002.mid", "pop909")


def test_a_layout_can_be_named(tmp_path: Path) -> None:
    pop909_song(compose(1, 2), tmp_path / "001")
    put(compose(1, 2), tmp_path / "extra.mid")
    assert find_songs(tmp_path, "folder") == ("folder", ["001/001.mid", "extra.mid"])
    assert find_songs(tmp_path, "pop909") == ("pop909", ["001/001.mid"])


@pytest.mark.parametrize("layout", ["auto", *LAYOUTS])
def test_a_folder_without_songs_is_one_sentence(layout: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^input=.*: no [^\n]*$") as caught:
        find_songs(tmp_path, layout)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("layout", ["pop", "", "AUTO", "None"])
def test_an_unknown_layout_is_named_with_the_known_ones(layout: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^layout={layout}: choose from auto, .*pop909, pop1k7$"):
        find_songs(tmp_path, layout)


@pytest.mark.parametrize("name", ["nowhere", "file.mid", "x" * 300])
def test_an_input_that_is_no_folder_is_one_sentence(name: str, tmp_path: Path) -> None:
    put(compose(0, 1), tmp_path / "file.mid")
    with pytest.raises(UserError, match=f"input={tmp_path / name}: "):
        find_songs(tmp_path / name, "auto")


def test_a_song_of_pop1k7_comes_with_its_tempo_map_and_chords(tmp_path: Path) -> None:
    piece = compose(0, 8)
    pop1k7(tmp_path, 1, 8)
    loaded = Remi().load(tmp_path, "src_001/0.mid", "pop1k7")
    assert same_music(loaded, piece)
    assert np.array_equal(quantise(loaded)[0].tempos, quantise(piece)[0].tempos)


@pytest.mark.parametrize("seed", range(4))
def test_a_song_of_pop909_is_the_piece_that_was_performed(seed: int, tmp_path: Path) -> None:
    piece = compose(seed, 12)
    pop909_song(piece, tmp_path / "001", freely(piece.end // 480 + 6, seed))
    loaded = Remi().load(tmp_path, "001/001.mid", "pop909")
    assert len(loaded.tracks) == 3
    assert same_music(loaded, piece)


def test_a_song_of_pop909_without_chords_gets_those_that_are_heard(tmp_path: Path) -> None:
    pop909_song(compose(3, 8), tmp_path / "001")
    (tmp_path / "001" / "chord_midi.txt").unlink()
    loaded = Remi().complete(Remi().load(tmp_path, "001/001.mid", "pop909"))
    assert len(loaded.chords) > 4
    assert all(mark.tick % 480 == 0 for mark in loaded.chords)


def test_a_song_without_chords_gets_those_that_are_heard_and_one_with_chords_keeps_them(tmp_path: Path) -> None:
    piece = compose(0, 8)
    put(piece.replace(chords=piece.chords[:1]), tmp_path / "with.mid")
    put(piece.replace(chords=()), tmp_path / "without.mid")
    assert len(Remi().complete(Remi().load(tmp_path, "with.mid", "folder")).chords) == 1
    assert len(Remi().complete(Remi().load(tmp_path, "without.mid", "folder")).chords) > 4


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("beat_midi.txt", b""),
        ("beat_midi.txt", b"0.5 1.0\n1.0 0.0\n"),
        ("beat_midi.txt", b"0.5 1.0 1.0\nsoon 0.0 0.0\n"),
        ("beat_midi.txt", b"0.5 1.0 1.0\nnan 0.0 0.0\n"),
        ("beat_midi.txt", b"0.5 1.0 yes\n1.0 0.0 no\n"),
        ("beat_midi.txt", b"0.5 1.0 1.0\n1.0 0.0 0.0\n"),
        ("beat_midi.txt", b"0.5 1 1\n0.4 0 1\n0.3 0 1\n"),
        ("beat_midi.txt", b"0.5 1 1\n0.5 0 1\n0.5 0 1\n"),
        ("beat_midi.txt", b"\xff\xfe\x00"),
        ("chord_midi.txt", b"0.0 1.0 H:maj\n"),
        ("chord_midi.txt", b"0.0 C:maj\n"),
        ("chord_midi.txt", b"0.0 inf C:maj\n"),
        ("chord_midi.txt", b"\xff\xfe\x00"),
    ],
)
def test_an_annotation_that_cannot_be_used_is_a_sentence_that_names_its_file(
    file: str, content: bytes, tmp_path: Path
) -> None:
    pop909_song(compose(1, 4), tmp_path / "001")
    (tmp_path / "001" / file).write_bytes(content)
    with pytest.raises(UserError, match=file) as caught:
        Remi().load(tmp_path, "001/001.mid", "pop909")
    assert "\n" not in str(caught.value)


def test_a_folder_that_only_its_owner_may_open_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    put(compose(0, 1), tmp_path / "secret" / "a.mid")
    (tmp_path / "secret").chmod(0)
    if os.access(tmp_path / "secret", os.R_OK):
        pytest.skip("nothing is denied to root")
    with pytest.raises(UserError, match="input="):
        find_songs(tmp_path / "secret", "auto")
