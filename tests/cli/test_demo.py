from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import mido
import pytest
from matplotlib import image

from musicgen.cli import demo
from musicgen.cli import main as command
from musicgen.cli.main import main


def test_it_plays_at_once_and_leads_to_all_that_it_made(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "musicgen", "demo", "out=new/folder"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    out = tmp_path / "new" / "folder"
    assert "streaming and parallel are equal" in result.stdout
    assert "time-pitch" in result.stdout
    assert "open new/folder/index.html" in result.stdout
    assert result.stdout.endswith(": .venv/bin/musicgen studio\n")
    page = (out / "index.html").read_text("utf-8")
    assert page.count("data-music=") == 2
    links = set(re.findall(r'(?:href|src)="([^"]*)"', page))
    assert sorted(Path(link).suffix for link in links) == [*([".html"] * 3), *([".png"] * 4), *([".wav"] * 2)]
    assert all((out / unquote(link)).is_file() for link in links)
    height, width, _ = image.imread(out / "kernels.png").shape
    assert 500 < height < width < 3000
    pieces = sorted((out / "pieces").glob("*.mid"))
    continued = sorted((out / "continued" / "pieces").rglob("*.mid"))
    assert (len(pieces), len(continued)) == (3, 6)
    for path in (*pieces, *continued):
        assert sum(message.type == "note_on" for message in mido.MidiFile(path)) > 50
        assert path.with_suffix(".wav").stat().st_size > 100_000


def test_help_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--help"]) == 0
    assert "out=" in capsys.readouterr().out


def test_with_a_corpus_it_runs_what_leads_to_a_listening_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model is the built-in one that speaks the corpus; the commands are only noted."""
    assert main(["prepare", "source=synthetic_grooves", "songs=8", "bars=8", f"out={tmp_path / 'corpus'}"]) == 0
    ran: list[list[str]] = []
    statuses = iter([0, 0, 0, 2])

    def note(arguments: list[str]) -> int:
        ran.append(arguments)
        return next(statuses)

    monkeypatch.setattr(command, "main", note)
    assert demo.run([f"data={tmp_path / 'corpus'}", f"out={tmp_path / 'heard'}"]) == 0
    assert [arguments[0] for arguments in ran] == ["generate", "continue", "evaluate"]
    assert all("model=groove-small" in arguments for arguments in ran[:2])
    assert {"n=8", "bars=16"} <= set(ran[0])
    assert {"listen=8", f"reference={tmp_path / 'corpus'}"} <= set(ran[2])
    assert "$ musicgen evaluate music" in capsys.readouterr().out
    assert demo.run([f"data={tmp_path / 'corpus'}", "model=mine", f"out={tmp_path / 'heard'}"]) == 2
    assert len(ran) == 4
    assert "model=mine" in ran[3]


def test_a_model_without_a_corpus_and_a_folder_that_is_none_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, naming in ((["model=mine"], "data=CORPUS"), ([f"data={tmp_path}"], str(tmp_path))):
        assert main(["demo", *arguments]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert naming in error


@pytest.mark.parametrize("argument", ["seed=3", "out", "out=", "demo"])
def test_an_unknown_argument_is_one_line_that_quotes_it(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", argument]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert repr(argument) in error


def test_a_folder_that_cannot_be_made_is_one_line_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    assert main(["demo", f"out={file}"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(file) in error
