"""Calling the command in this process, and what holds of every call that is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from musicgen.cli import main as command

Run = Callable[..., tuple[int, str, str]]
"""Arguments to the exit status, what was printed, and what was complained of."""


def calling(capsys: pytest.CaptureFixture[str], *verb: str) -> Run:
    """A verb, and what follows it, to be called with arguments."""

    def call(*arguments: object) -> tuple[int, str, str]:
        status = command.main([*verb, *map(str, arguments)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


def check_refused(run: Run, arguments: Sequence[str], naming: str, folder: Path) -> None:
    """One sentence that names what is wrong, exit status 2, and nothing written."""
    before = sorted(folder.rglob("*"))
    status, printed, complaint = run(*arguments)
    assert (status, printed) == (2, "")
    assert complaint.startswith("musicgen: ")
    assert complaint.count("\n") == 1
    assert naming in complaint
    assert sorted(folder.rglob("*")) == before
