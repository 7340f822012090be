"""Songs from files, folders and prepared corpora."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from musicgen.cli import main as command
from musicgen.data import summary
from musicgen.data.corpus import Corpus
from musicgen.data.prepare import synthetic_corpus
from musicgen.errors import UserError
from musicgen.evaluation.music.songs import gather, has_split, is_prepared, read_song, splits_of
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.read import MidiError
from musicgen.midi.write import midi_bytes


def quietly(items: Iterable[Any], *_: Any) -> Iterable[Any]:
    return items


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of piano music and one of grooves."""
    folder = tmp_path_factory.mktemp("corpora")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "draw_summary", lambda _, path: path.write_bytes(b"no picture"))
        for kind in ("synthetic", "synthetic_grooves"):
            made = [f"source={kind}", "songs=12", "bars=4", f"out={folder / kind}"]
            assert command.main(["prepare", *made]) == 0
    return folder


def test_files_are_read_in_order_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("c.mid", "b/a.midi", "x.txt"):
        (tmp_path / name).write_bytes(midi_bytes(compose(1, 2)))
    (tmp_path / "bad.mid").write_bytes(b"MThd")
    (tmp_path / os.fsdecode(b"caf\xe9.mid")).write_bytes(midi_bytes(compose(2, 2)))
    found = gather(tmp_path, "generated", "all", quietly)
    assert [song.name for song in found.songs] == ["b/a.midi", "c.mid", "'caf\\udce9.mid'"]
    assert found.language is None
    (line,) = found.left_out
    assert line.startswith(f"{tmp_path / 'bad.mid'}: not a MIDI file")
    (alone,) = gather(tmp_path / "c.mid", "generated", "all", quietly).songs
    assert (alone.name, alone.file) == ("c.mid", tmp_path / "c.mid")


def test_a_prompt_is_left_out_but_kept_beside_the_song(tmp_path: Path) -> None:
    path = tmp_path / "x.mid"
    score = compose(1, 4)
    path.write_bytes(midi_bytes(score, [(1920 * 2, "Continuation")]))
    (song,) = gather(path, "generated", "all", quietly).songs
    notes = song.score.notes
    assert notes["start"].min() >= 1920 * 2
    assert len(notes) == (score.notes["start"] >= 1920 * 2).sum()
    assert song.prompt is not None
    assert song.prompt["start"].max() < 1920 * 2
    assert len(song.whole.notes) == len(score.notes)
    path.write_bytes(midi_bytes(score))
    (song,) = gather(path, "generated", "all", quietly).songs
    assert song.prompt is None
    assert song.whole is song.score
    path.write_bytes(midi_bytes(score, [(1920 * 9, "Continuation")]))
    with pytest.raises(MidiError, match="no notes after its prompt"):
        read_song(str(path))


def test_places_without_music_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"training=.*no such file or folder"):
        gather(tmp_path / "nowhere", "training", "all", quietly)
    with pytest.raises(UserError, match=r"training=.*no MIDI files"):
        gather(tmp_path, "training", "all", quietly)
    (tmp_path / "x.mid").write_bytes(b"")
    with pytest.raises(UserError, match=r"training=.*no file in it can be used.*x\.mid"):
        gather(tmp_path, "training", "all", quietly)


def test_songs_of_a_corpus_are_what_its_tokens_say(corpora: Path) -> None:
    corpus = Corpus.open(corpora / "synthetic")
    assert is_prepared(corpora / "synthetic")
    assert not is_prepared(corpora)
    for split in ("train", "valid", "test"):
        if not corpus.songs(split):
            assert not has_split(corpora / "synthetic", split)
            continue
        found = gather(corpora / "synthetic", "reference", split, quietly)
        assert found.language is not None
        assert found.language.name == corpus.language.name
        assert [song.name for song in found.songs] == [song.path for song in corpus.songs(split)]
        first = corpus.language.decode(corpus[corpus.songs(split)[0]])
        assert np.array_equal(found.songs[0].score.notes, first.notes)
    assert len(gather(corpora / "synthetic", "reference", "all", quietly).songs) == len(corpus.songs())
    with pytest.raises(UserError, match="no songs of the split ival"):
        gather(corpora / "synthetic", "reference", "ival", quietly)


def test_held_out_is_what_was_not_trained_on() -> None:
    corpus = synthetic_corpus("synthetic_grooves", 4, 1, 0)
    assert splits_of(corpus, "held_out") == ("valid", "test")
    assert splits_of(corpus, "itest") == splits_of(corpus, "seen_style_test") == ("seen_style_test",)
    assert set(splits_of(corpus, "all")) == {"train", "valid", "test", "seen_style_valid", "seen_style_test"}


def test_grooves_are_whole_or_trios(corpora: Path) -> None:
    whole = gather(corpora / "synthetic_grooves", "training", "all", quietly)
    trios = gather(corpora / "synthetic_grooves", "training", "all", quietly, trios=True)
    assert whole.language is trios.language is not None
    assert whole.language.name == "groove"
    for band, trio in zip(whole.songs, trios.songs, strict=True):
        assert len(trio.score.tracks) == 3
        assert 0 < len(trio.score.notes) <= len(band.score.notes)
        assert band.score.is_drum(band.score.notes).any()
    assert any(len(band.score.tracks) > 3 for band in whole.songs)
