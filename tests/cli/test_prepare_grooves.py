"""`musicgen prepare` on grooves: what is recognised, what is refused, and what is on the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prepare_runs import ROOT, SYNTHETIC, Run, contents, folder_of, refused

from musicgen.data.corpus import Corpus
from musicgen.languages.groove.synthetic import compose_groove
from musicgen.midi.write import midi_bytes

GROOVES = ("source=synthetic_grooves", "songs=8", "bars=2")


def style_folder(folder: Path, families: int) -> Path:
    for number in range(2 * families):
        path = folder / f"family {number // 2}" / f"style.{'ab'[number % 2]}.mid"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(midi_bytes(compose_groove(number % 2, 3 * (number // 2), 4)))
    return folder


def test_accompaniments_are_recognised_and_become_a_corpus_of_grooves(tmp_path: Path, drawing_run: Run) -> None:
    source = style_folder(tmp_path / "in", 4)
    (source / "family 0" / "broken.a.mid").write_bytes(b"")
    status, printed, complaint = drawing_run(f"input={source}", f"out={tmp_path}/out", "workers=1")
    assert (status, complaint) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "corpus.json", "corpus.png", "index.jsonl", "notes.npy", "tokenizer.json",
    ]  # fmt: skip
    for part in (
        "files: 9 (layout styles), of which 8 kept and 1 left out",
        "1 x empty file",
        "train: 4 grooves of 2 styles in 2 families",
        "valid: 2 grooves of 1 style in 1 family",
        "grooves with bass: 8, drums: 8, other: 8",
    ):
        assert part in printed
    assert (tmp_path / "out" / "corpus.png").read_bytes().startswith(b"\x89PNG")
    status, printed, _ = drawing_run(f"verify={tmp_path}/out", f"input={source}")
    assert status == 0
    assert "8 songs" in printed


def test_grooves_and_songs_take_each_others_place_only_if_asked(tmp_path: Path, run: Run) -> None:
    assert run(*SYNTHETIC, f"out={tmp_path}/out")[0] == 0
    refused(run, *GROOVES, f"out={tmp_path}/out", naming="overwrite=true")
    assert run(*GROOVES, f"out={tmp_path}/out", "overwrite=true")[0] == 0
    assert isinstance(Corpus.open(tmp_path / "out"), Corpus)
    assert run(*SYNTHETIC, f"out={tmp_path}/out", "overwrite=true")[0] == 0
    assert isinstance(Corpus.open(tmp_path / "out"), Corpus)


def test_the_source_says_what_a_folder_is_taken_for(tmp_path: Path, run: Run) -> None:
    plain = tmp_path / "plain" / "file.mid"
    plain.parent.mkdir()
    plain.write_bytes(midi_bytes(compose_groove(0, 0, 4)))
    styles = style_folder(tmp_path / "styles", 3)
    for source, options, kind in (
        (plain.parent, ["source=groove"], Corpus),
        (plain.parent, [], Corpus),
        (styles, [], Corpus),
        (styles, ["source=pop_piano"], Corpus),
        (styles, ["layout=folder"], Corpus),
    ):
        assert run(f"input={source}", f"out={tmp_path}/out", "workers=1", "overwrite=true", *options)[0] == 0
        assert isinstance(Corpus.open(tmp_path / "out"), kind)


@pytest.mark.parametrize(
    "options", [["layout=styles"], ["layout=groove2groove"], ["source=groove", "layout=pop909"], ["source=groove"]]
)
def test_a_layout_of_grooves_that_is_not_there_is_one_sentence(tmp_path: Path, run: Run, options: list[str]) -> None:
    source = tmp_path / "empty" if options == ["source=groove"] else folder_of(tmp_path / "in", 2, 1)
    source.mkdir(exist_ok=True)
    refused(run, f"input={source}", f"out={tmp_path}/out", *options, naming=f"input={source}")
    assert not (tmp_path / "out").exists()


def test_given_lists_split_grooves_and_a_family_in_two_is_refused(tmp_path: Path, run: Run) -> None:
    source = style_folder(tmp_path / "in", 2)
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "train.txt").write_text("family 0/style.a\n")
    (tmp_path / "lists" / "test.txt").write_text("family 1/style.a\n")
    options = (f"input={source}", f"splits={tmp_path}/lists", "workers=1")
    assert run(*options, f"out={tmp_path}/out")[0] == 0
    assert [song.path for song in Corpus.open(tmp_path / "out").songs("test")] == ["family 1/style.a.mid"]
    (tmp_path / "lists" / "test.txt").write_text("family 0/style.b\n")
    refused(run, *options, f"out={tmp_path}/other", naming="family 0")


def test_files_without_a_line_in_the_index_are_counted(tmp_path: Path, run: Run) -> None:
    source = style_folder(tmp_path / "in", 3)
    (source / "index.tsv").write_text("path\tcluster\nfamily 0/style.a.mid\tx\n")
    status, printed, _ = run(f"input={source}", f"out={tmp_path}/out", "workers=1")
    assert status == 0
    assert "5 files have no line in index.tsv, family 0/style.b.mid the first of them" in printed
    (source / "index.tsv").write_text("path\nnowhere.mid\n")
    refused(run, f"input={source}", f"out={tmp_path}/other", naming="'nowhere.mid'")


def test_the_script_of_grooves_does_what_the_verb_does(tmp_path: Path, drawing_run: Run) -> None:
    source = style_folder(tmp_path / "in", 3)
    command = [sys.executable, str(ROOT / "data_prep" / "groove2groove.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    words = [f"input={source}", f"out={tmp_path}/a", "workers=1"]
    subprocess.run([*command, *words], env=environment, stdout=subprocess.DEVNULL, timeout=120, check=True)
    assert drawing_run("source=groove", f"input={source}", f"out={tmp_path}/b", "workers=1")[0] == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    failed = subprocess.run([*command, "download=true"], env=environment, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)
    assert "input=DIR" in failed.stderr
