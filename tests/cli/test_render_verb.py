"""`musicgen render`: what is made, where, and what is not made of bad input."""

from __future__ import annotations

import os
import re
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import odd_files
import pytest

from musicgen.cli import main as command
from musicgen.cli import render
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import read, sound, synthesis
from musicgen.midi.score import NOTE
from musicgen.midi.write import midi_bytes
from musicgen.options import options

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in a folder with a song: its exit status, what it printed, and what it complained of."""
    (tmp_path / "song.mid").write_bytes(midi_bytes(compose(0, 2)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(read, "read_midi", read.parse_file)  # a child would be in the folder it was started in

    def call(*arguments: object) -> tuple[int, str, str]:
        status = command.main(["render", *map(str, arguments)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


@pytest.fixture
def quick_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same without the sound, which takes longer than all the rest."""
    monkeypatch.setattr(sound, "render_wav", lambda *_, **__: b"sound")
    return run


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_file_becomes_a_picture_and_a_sound_beside_it(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # all as it is
    before = (tmp_path / "song.mid").read_bytes()
    status, printed, complaint = run(tmp_path / "song.mid")
    assert (status, complaint) == (0, "")
    assert f"{tmp_path}/song.png and {tmp_path}/song.wav" in printed
    assert names(tmp_path) == ["song.mid", "song.png", "song.wav"]
    assert (tmp_path / "song.mid").read_bytes() == before
    assert (tmp_path / "song.png").read_bytes().startswith(b"\x89PNG")
    with wave.open(str(tmp_path / "song.wav")) as file:
        assert file.getnframes() / file.getframerate() == pytest.approx(compose(0, 2).duration, abs=synthesis.TAIL)


@pytest.mark.parametrize("options", [["song.mid", "other.MIDI"], ["input=song.mid", "other.MIDI"]])
def test_several_files_go_to_a_folder_which_is_made(options: list[str], tmp_path: Path, quick_run: Run) -> None:
    (tmp_path / "other.MIDI").write_bytes(midi_bytes(compose(1, 2)))
    status, printed, _ = quick_run(*options, "out=deep/er")
    assert status == 0
    made = ["other.png", "other.wav", "song.png", "song.wav"]
    assert names(tmp_path / "deep" / "er") == made
    assert all(f"deep/er/{name}" in printed for name in made)


def test_a_file_can_be_compared_with_its_tokens(tmp_path: Path, quick_run: Run) -> None:
    (tmp_path / "song.mid").write_bytes(odd_files.swing())
    assert quick_run("song.mid", "wav=false")[0] == 0
    alone = (tmp_path / "song.png").read_bytes()
    status, printed, _ = quick_run("song.mid", "wav=false", "compare=true", "tokens=remi")
    assert status == 0
    assert "song.mid: 32 notes, 16 moved (42 ms on average), 16 in triplets or swing straightened" in printed
    assert (tmp_path / "song.png").read_bytes() != alone
    for wrong, why in {
        "picture=false": "compare=true picture=false: a comparison is a picture; leave out one",
        "tokens=other": "tokens=other: there is no such token language; choose groove, groove-extended, remi",
    }.items():
        status, _, complaint = quick_run("song.mid", "compare=true", wrong)
        assert status == 2
        assert why in complaint
    (tmp_path / "empty.mid").write_bytes(odd_files.no_notes())
    status, _, complaint = quick_run("empty.mid", "compare=true")
    assert status == 2
    assert "empty.mid: cannot be a prompt for a model of remi-extended tokens: no notes" in complaint


def test_either_alone_may_be_made_and_is_made_anew(tmp_path: Path, quick_run: Run) -> None:
    assert quick_run("song.mid", "wav=false", "title=a, [b] ${c} = $d$")[0] == 0
    assert names(tmp_path) == ["song.mid", "song.png"]
    first = (tmp_path / "song.png").read_bytes()
    assert quick_run("song.mid", "wav=false", "title=other")[0] == 0
    assert (tmp_path / "song.png").read_bytes() != first
    assert quick_run("input=song.mid", "picture=false", "out=sound")[0] == 0
    assert names(tmp_path / "sound") == ["song.wav"]


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("a b.mid", "a b"),
        ("x=1.mid", "x=1"),
        ("out=1/wav=true.mid", "out=1/wav=true"),
        ("-song.mid", "-song"),
        ("song.v2", "song.v2"),
        ("song.png", "song.png"),
        ('it\'s, [a] ${b} "c".mid', 'it\'s, [a] ${b} "c"'),
        ("日本 🎹.mid", "日本 🎹"),
        (os.fsdecode(b"caf\xe9.mid"), os.fsdecode(b"caf\xe9")),
        ("a\nb.mid", "a\nb"),
        (".mid", ".mid"),
    ],
    ids=lambda name: ascii(name),
)
def test_a_file_may_have_any_name(name: str, made: str, tmp_path: Path, quick_run: Run) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    (tmp_path / "song.mid").rename(path)
    before = path.read_bytes()
    status, _, complaint = quick_run(f"input={name}" if name.startswith("out=") else name)
    assert (status, complaint) == (0, "")
    assert names(tmp_path) == sorted([name, f"{made}.png", f"{made}.wav"])
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "naming"),
    [
        ([], "FILE.mid"),
        (["out=x"], "FILE.mid"),
        (["input=null"], "FILE.mid"),
        (["nowhere.mid"], "nowhere.mid"),
        (["input=nowhere.mid"], "nowhere.mid"),
        (["folder"], "folder: not a file"),
        (["x" * 300], "x" * 300),
        (["~nobody.here/song.mid"], "~nobody.here"),
        (["text.mid"], "text.mid: not a MIDI file"),
        (["song.mid", "cut.mid"], "cut.mid: cut short"),
        (["empty.mid"], "empty.mid: no notes"),
        (["song.mid", "song.mid"], "song.mid"),
        (["song.mid", "again/song.mid", "out=x"], "again/song.mid"),
        (["song.mid", "picture=false", "wav=false"], "nothing"),
        (["song.mid", "out=text.mid"], "out=text.mid"),
        (["song.mid", "out=text.mid/x"], "text.mid/x"),
        (["song.mid", "out=/proc/x"], "/proc/x"),
        (["song.mid", "soundfont=nowhere.sf2"], "nowhere.sf2"),
        (["song.mid", "soundfont=text.mid"], "text.mid: not a soundfont"),
        (["song.mid", "synthesiser=other"], "synthesiser=other"),
        (["song.mid", "wav=maybe"], "wav=maybe"),
        (["song.mid", "wva=true"], "'wav'"),
        (["song.mid", "--loud"], "--loud"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_exit_status_2_and_nothing_written(
    arguments: list[str], naming: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "text.mid").write_text("not music")
    (tmp_path / "cut.mid").write_bytes((tmp_path / "song.mid").read_bytes()[:-9])
    (tmp_path / "empty.mid").write_bytes(midi_bytes(compose(0, 1).replace(notes=np.empty(0, NOTE))))
    for folder in ("folder", "again"):
        (tmp_path / folder).mkdir()
    (tmp_path / "again" / "song.mid").write_bytes((tmp_path / "song.mid").read_bytes())
    before = sorted(tmp_path.rglob("*"))
    status, printed, complaint = run(*arguments)
    assert (status, printed) == (2, "")
    assert complaint.startswith("musicgen: ")
    assert complaint.count("\n") == 1
    assert naming in complaint
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_cannot_be_written_to_is_one_sentence_and_leaves_what_was_there(
    tmp_path: Path, quick_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "song.png").write_bytes(b"old")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", denied)  # root is denied nothing
    status, printed, complaint = quick_run("song.mid")
    assert (status, printed) == (2, "")
    assert ": cannot be written (Permission denied)" in complaint
    assert names(tmp_path) == ["song.mid", "song.png"]
    assert (tmp_path / "song.png").read_bytes() == b"old"


def test_help_names_every_key_and_the_config_can_be_seen(run: Run) -> None:
    status, printed, _ = run("--help")
    assert status == 0
    assert "example: musicgen render song.mid" in printed
    assert tuple(options(render.RenderConfig)) == (
        "input",
        "out",
        "picture",
        "wav",
        "soundfont",
        "synthesiser",
        "compare",
        "tokens",
        "title",
    )
    for key in options(render.RenderConfig):
        assert re.search(rf"\b{key}=", printed), key
    status, printed, _ = run("--cfg", "job", "out=a")
    assert status == 0
    assert "out: a" in printed
