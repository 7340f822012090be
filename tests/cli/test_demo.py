from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib import image

from musicgen.cli.main import main


def test_streaming_is_parallel_and_the_picture_is_drawn(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "musicgen", "demo", "out=new/folder"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "streaming and parallel are equal" in result.stdout
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["kernels.png"]
    height, width, _ = image.imread(tmp_path / "new" / "folder" / "kernels.png").shape
    assert 500 < height < width < 3000


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
