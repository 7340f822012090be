from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import mido
import pytest
from matplotlib import image

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
    links = re.findall(r'(?:href|src)="([^"]*)"', (out / "index.html").read_text("utf-8"))
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
