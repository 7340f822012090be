"""`musicgen prepare`: what a user sees, what is on the disk, and every wrong argument."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prepare_runs import CORPUS_FILES, ROOT, SYNTHETIC, Run, contents, folder_of, refused

from musicgen.cli.prepare import PrepareConfig
from musicgen.data.corpus import Corpus
from musicgen.data.summary import summarise
from musicgen.errors import UserError
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.score import NOTE, TimeSignature
from musicgen.midi.write import midi_bytes
from musicgen.options import options, read_arguments


def test_a_folder_becomes_a_corpus_and_the_summary_says_what_is_in_it(tmp_path: Path, drawing_run: Run) -> None:
    source = folder_of(tmp_path / "input", 6)
    (source / "src_001" / "empty.mid").write_bytes(b"")
    (source / "src_001" / "three.mid").write_bytes(
        midi_bytes(compose(7, 4).replace(time_signatures=(TimeSignature(0, 11, 8),)))
    )
    status, printed, complaint = drawing_run(f"input={source}", f"out={tmp_path}/out", "workers=1")
    assert (status, complaint) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == CORPUS_FILES
    corpus = Corpus.open(tmp_path / "out")
    tokens = f"tokens: {len(corpus.array):,}"
    for part in (
        "files: 8 (layout pop1k7), of which 6 kept and 2 left out",
        "1 x empty file",
        "not in a metre that tokens can say",
        "4 train, 1 valid, 1 test",
        tokens,
        "minutes of music",
    ):
        assert part in printed
    assert str(tmp_path / "out") in printed
    assert summarise(corpus) in printed
    assert len(corpus.index) == 8
    assert (tmp_path / "out" / "corpus.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input", "out"]


def test_the_tokens_are_extended_unless_those_of_the_paper_are_asked_for(tmp_path: Path, drawing_run: Run) -> None:
    source = folder_of(tmp_path / "input", 3)
    (source / "src_001" / "waltz.mid").write_bytes(
        midi_bytes(compose(7, 4).replace(time_signatures=(TimeSignature(0, 3, 4),)))
    )
    kept = {}
    for name, words in (("new", []), ("extended", ["tokens=extended"]), ("paper", ["tokens=paper"])):
        assert drawing_run(f"input={source}", f"out={tmp_path}/{name}", "workers=1", *words)[0] == 0
        corpus = Corpus.open(tmp_path / name)
        kept[name] = (corpus.language.name, len(corpus.songs()))
    assert kept == {"new": ("remi-extended", 4), "extended": ("remi-extended", 4), "paper": ("remi", 3)}
    with pytest.raises(UserError, match=r"data.tokens=paper: the songs have extended tokens; prepare them again with"):
        Corpus.open(tmp_path / "new").in_tokens("paper")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["input={}/none"], "/none: there is no such folder; give a folder of MIDI files"),
        (["input={}/file"], "/file: not a folder; give a folder of MIDI files"),
        (["input={}/file", "source=synthetic"], "/file and source=synthetic: leave out one of them"),
    ],
)
def test_an_input_that_is_no_folder_or_is_not_read_is_refused(
    tmp_path: Path, run: Run, words: list[str], sentence: str
) -> None:
    (tmp_path / "file").write_bytes(b"")
    status, _, complaint = run(*(word.format(tmp_path) for word in words), f"out={tmp_path}/out")
    assert (status, complaint.count("\n")) == (2, 1)
    assert sentence in complaint
    assert not (tmp_path / "out").exists()


def test_the_same_input_and_seed_give_the_same_bytes(many: Path, tmp_path: Path, drawing_run: Run) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(many, moved)
    (many / "src_001" / "broken.mid").write_bytes(b"MThd")
    (moved / "src_001" / "broken.mid").write_bytes(b"MThd")
    results = []
    for source, workers in ((many, 1), (moved, 3)):
        assert drawing_run(f"input={source}", f"out={tmp_path}/{workers}", f"workers={workers}", "seed=3")[0] == 0
        results.append(contents(tmp_path / str(workers)))
    (many / "src_001" / "broken.mid").unlink()
    assert results[0] == results[1]
    assert set(results[0]) == set(CORPUS_FILES)


def test_the_script_does_what_the_verb_does_and_a_terminal_sees_how_far_it_is(tmp_path: Path, drawing_run: Run) -> None:
    source = folder_of(tmp_path / "input", 3, 2)
    ours, theirs = pty.openpty()
    script = ROOT / "data_prep" / "pop_piano.py"
    process = subprocess.Popen(
        [sys.executable, str(script), f"input={source}", f"out={tmp_path}/a", "workers=1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # what a terminal says when nobody is left at its other end
        while block := os.read(ours, 4096):
            seen += block
    os.close(ours)
    assert process.wait(timeout=60) == 0
    assert b"3/3" in seen
    status, printed, complaint = drawing_run("source=pop_piano", f"input={source}", f"out={tmp_path}/b", "workers=1")
    assert (status, complaint) == (0, "")  # nobody watches: there is no bar
    assert "3 kept" in printed
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_songs_of_any_name_are_kept_and_verified(tmp_path: Path, run: Run) -> None:
    source = tmp_path / "in"
    (source / 'it\'s, [a] "folder"').mkdir(parents=True)
    names = ["a\u2028b", "a\u0085b", os.fsdecode(b"caf\xe9"), "a\nb", "ü 'x', \"y\" [1] ${z} {}", "-", "日本"]
    for number, name in enumerate(names):
        folder = source / 'it\'s, [a] "folder"' if number % 2 else source
        (folder / f"{name}.MID").write_bytes(midi_bytes(compose(number, 2)))
        (folder / f"{name} bad.mid").write_bytes(b"")
    assert run(f"input={source}", f"out={tmp_path}/out", "workers=1")[0] == 0
    assert len(Corpus.open(tmp_path / "out").songs()) == len(names)
    status, printed, complaint = run(f"verify={tmp_path}/out", f"input={source}", "workers=1")
    assert (status, complaint) == (0, "")
    assert f"{len(names)} songs" in printed
    (source / f"{names[0]}.MID").write_bytes(b"changed")
    assert run(f"verify={tmp_path}/out", f"input={source}", "workers=1")[0] == 2


PATH_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(deadline=None, max_examples=15)
@given(PATH_TEXT | st.text("'\"\\${}[](),=: ?*~#%\n\t", min_size=1, max_size=8))
@example("???")
@example("${input}")
@example("\\")
@example("\\\\'")
@example("'\"")
@example("a,b")
@example("[a]")
@example("{a:1}")
@example("true")
@example("1")
@example(" a ")
@example("a=b")
@example("~/x")
def test_a_path_stands_for_itself_whatever_is_in_it(text: str) -> None:
    if text != "null":
        config = read_arguments(PrepareConfig, [f"input={text}", "output=x"], "prepare")
        assert (config["input"], config["out"]) == (text, "x")


def test_lists_that_are_given_are_used(tmp_path: Path, run: Run) -> None:
    source = folder_of(tmp_path / "in", 5, 4)
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "train.txt").write_text("src_001/0\nsrc_002/1.mid\n")
    (tmp_path / "lists" / "test.txt").write_text("src_003/2\n")
    options = (f"input={source}", f"splits={tmp_path}/lists", "workers=1")
    status, printed, _ = run(*options, f"out={tmp_path}/out")
    assert status == 0
    assert "2 x in none of the given lists" in printed
    corpus = Corpus.open(tmp_path / "out")
    assert [song.path for song in corpus.songs("train")] == ["src_001/0.mid", "src_002/1.mid"]
    assert [song.path for song in corpus.songs("test")] == ["src_003/2.mid"]
    (tmp_path / "lists" / "valid.txt").write_text("src_003/2\n")
    refused(run, *options, f"out={tmp_path}/other", naming="test.txt")
    assert not (tmp_path / "other").exists()


def test_a_corpus_that_is_not_sound_is_exit_status_2(tmp_path: Path, run: Run) -> None:
    run(*SYNTHETIC, f"out={tmp_path}/out")
    assert run(f"verify={tmp_path}/out")[0] == 0
    tokens = np.load(tmp_path / "out" / "tokens.npy")
    tokens[9] = 0
    np.save(tmp_path / "out" / "tokens.npy", tokens)
    status, printed, complaint = run(f"verify={tmp_path}/out")
    assert (status, printed) == (2, "")
    assert "tokens.npy: changed since it was prepared" in complaint
    assert "synthetic/0/00000: token" in complaint


@pytest.mark.parametrize(
    ("arguments", "naming"),
    [
        ([], "out=DIR"),
        (["out=out"], "input=DIR"),
        (["input=in"], "out=DIR"),
        (["input=", "out=out"], "input="),
        (["input=null", "out=out"], "input=DIR"),
        (["input=nowhere", "out=deep/er/out"], "input=nowhere"),
        (["input=nothing", "out=out"], "input=nothing"),
        (["input=file", "out=out"], "input=file"),
        (["input=in", "out=out", "layout=pop909"], "pop909"),
        (["input=in", "out=out", "layout=pop"], "layout=pop"),
        (["input=in", "out=out", "layout=[a]"], "layout="),
        (["input=in", "out=out", "layout=null"], "layout="),
        (["input=in", "out=out", "source=pop"], "source=pop"),
        (["input=in", "out=out", "source=[a]"], "source="),
        (["input=in", "out=out", "workers=0"], "workers=0"),
        (["input=in", "out=out", "workers=-1"], "workers=-1"),
        (["input=in", "out=out", "workers=two"], "workers=two"),
        (["input=in", "out=out", "workers=1.5"], "workers=1.5"),
        (["input=in", "out=out", "workers=true"], "workers="),
        (["input=in", "out=out", "workers=[1]"], "workers="),
        (["input=in", "out=out", "workers=inf"], "workers="),
        (["input=in", "out=out", "seed=nan"], "seed="),
        (["input=in", "out=out", "wokers=1"], "'workers'"),
        (["input=in", "out=out", "seed=null"], "seed="),
        (["input=in", "out=out", "seed=x"], "seed=x"),
        (["input=in", "out=out", "overwrite=maybe"], "overwrite=maybe"),
        (["input=in", "out=out", "overwrite=1"], "overwrite=1"),
        (["input=in", "out=out", "splits=nowhere"], "splits=nowhere"),
        (["input=in", "out=out", "splits=nothing"], "splits=nothing"),
        (["input=in", "out=out", "in"], "'in'"),
        (["in", "out"], "'in'"),
        (["source=synthetic", "out=out", "songs=0"], "songs=0"),
        (["source=synthetic", "out=out", "bars=0"], "bars=0"),
        (["source=synthetic", "out=out", "seed=-1"], "seed=-1"),
        (["input=in", "out=file"], "out=file"),
        (["input=in", "out=file/out"], "file/out"),
        (["input=in", "out=in"], "out=in"),
        (["input=in", "out=in/src_001"], "out=in/src_001"),
        (["input=in", "out=."], "out=."),
        (["input=in", "out=/proc/out"], "/proc/out"),
        (["input=in", "out=" + "x" * 300], "x" * 300),
        (["input=" + "x" * 300, "out=out"], "x" * 300),
        (["verify=" + "x" * 300], "x" * 300),
        (["input=in", "out=~nobody.here/out"], "~nobody.here/out"),
        (["verify=in"], "in"),
        (["verify=nowhere"], "nowhere"),
        (["verify=file"], "file"),
        (["input=bad", "out=out"], "bad"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_exit_status_2_and_nothing_written(
    arguments: list[str], naming: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(tmp_path / "in", 2, 1)
    (tmp_path / "file").write_text("text")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.mid").write_bytes(b"")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    if "input=bad" in arguments:  # no song can be used: the summary says why
        status, printed, complaint = run(*arguments)
        assert (status, printed) == (2, "")
        assert "no song could be kept" in complaint
        assert "empty file" in complaint
    else:
        refused(run, *arguments, naming=naming)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_corpus_is_replaced_only_if_that_is_asked_for(tmp_path: Path, run: Run) -> None:
    output = f"out={tmp_path}/out"
    assert run(*SYNTHETIC, output)[0] == 0
    before = contents(tmp_path)
    assert "overwrite=true" in refused(run, *SYNTHETIC, output, "seed=1", naming=f"{tmp_path}/out")
    assert contents(tmp_path) == before
    assert run(*SYNTHETIC, output, "seed=1", "overwrite=true")[0] == 0
    assert contents(tmp_path).keys() == before.keys()
    assert contents(tmp_path) != before


@pytest.mark.parametrize("there", ["a file of mine", "a folder of mine", "another corpus.json", "the input"])
def test_what_is_not_ours_is_never_replaced(there: str, tmp_path: Path, run: Run) -> None:
    output = tmp_path / "out"
    arguments = [*SYNTHETIC]
    if there == "another corpus.json":
        output.mkdir()
        (output / "corpus.json").write_text('{"texts": []}')
        (output / "thesis.tex").write_text("years of work")
    else:
        run(*SYNTHETIC, f"out={output}")
        if there == "a file of mine":
            (output / "notes.txt").write_text("of great worth")
        elif there == "a folder of mine":
            (output / "runs").mkdir()
            (output / "runs" / "model").write_text("days of training")
        else:
            arguments = [f"input={folder_of(output / 'midi', 2, 2)}", "workers=1"]
    before = contents(tmp_path)
    refused(run, *arguments, f"out={output}", "overwrite=true", naming=f"out={output}")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "kind", ["empty folder", "link to a folder", "the folder one is in", "inside the input", "deep"]
)
def test_the_output_may_be(kind: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    source = folder_of(tmp_path / "in", 2, 1)
    output = tmp_path / "out"
    if kind in ("empty folder", "the folder one is in"):
        output.mkdir()
    if kind == "link to a folder":
        (tmp_path / "real").mkdir()
        output.symlink_to(tmp_path / "real")
    if kind == "inside the input":
        output = source / "out"
    if kind == "deep":
        output = tmp_path / "a" / "b" / "c"
    if kind == "the folder one is in":
        monkeypatch.chdir(output)
    given = "." if kind == "the folder one is in" else output
    status, printed, complaint = run(f"input={source}", f"out={given}", "workers=1")
    assert (status, complaint) == (0, "")
    assert "2 kept" in printed
    assert sorted(path.name for path in output.iterdir()) == CORPUS_FILES
    assert not list(tmp_path.rglob("*.partial"))
    assert output.is_symlink() == (kind == "link to a folder")


def test_a_folder_that_may_not_be_opened_is_one_sentence(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = os.stat

    def denied(path: object, *rest: object, **options: object) -> os.stat_result:
        if "secret" in os.fsdecode(path):  # type: ignore[arg-type]  # root is denied nothing
            raise PermissionError(13, "Permission denied")
        return stat(path, *rest, **options)  # type: ignore[arg-type]

    source = folder_of(tmp_path / "in", 1, 1)
    (tmp_path / "secret").mkdir()
    monkeypatch.setattr(os, "stat", denied)
    refused(run, f"input={source}", f"out={tmp_path}/secret/out", naming="secret")
    refused(run, f"input={tmp_path}/secret/in", f"out={tmp_path}/out", naming="secret")
    refused(run, f"verify={tmp_path}/secret/out", naming="secret")


def test_help_names_every_key(run: Run) -> None:
    status, printed, _ = run("--help")
    assert status == 0
    for key in options(PrepareConfig):
        assert re.search(rf"\b{key}=", printed), key
    status, printed, _ = run("--cfg", "input=a")
    assert status == 0
    assert "input: a" in printed


def test_a_folder_without_music_at_all_says_why_for_every_file(tmp_path: Path, run: Run) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "silent.mid").write_bytes(midi_bytes(compose(0, 1).replace(notes=np.empty(0, NOTE))))
    (source / "text.mid").write_text("not music")
    status, printed, complaint = run(f"input={source}", f"out={tmp_path}/out", "workers=1")
    assert (status, printed) == (2, "")
    assert "no notes" in complaint
    assert "not a MIDI file" in complaint
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_the_index_is_lines_of_json_in_the_order_of_paths(tmp_path: Path, run: Run) -> None:
    source = folder_of(tmp_path / "in", 9, 1)
    assert run(f"input={source}", f"out={tmp_path}/out", "workers=2")[0] == 0
    text = (tmp_path / "out" / "index.jsonl").read_text("utf-8")
    paths = [json.loads(line)["path"] for line in text.split("\n")[:-1]]
    assert paths == sorted(path.relative_to(source).as_posix() for path in source.rglob("*.mid"))
