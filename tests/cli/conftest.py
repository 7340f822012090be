"""`musicgen prepare`, run in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from prepare_runs import Run, folder_of

from musicgen.cli import main as command
from musicgen.data import summary


@pytest.fixture
def run(drawing_run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same without the picture, which takes longer than all the rest."""
    monkeypatch.setattr(summary, "draw_summary", lambda _, path: path.write_bytes(b"no picture"))
    return drawing_run


@pytest.fixture
def drawing_run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command: its exit status, what it printed, and what it complained of."""

    def call(*arguments: object) -> tuple[int, str, str]:
        status = command.main(["prepare", *map(str, arguments)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("many") / "input", 40, 8)
