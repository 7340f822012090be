from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
FENCED = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in FENCED if language == "python"]
COMMANDS = [
    line for language, text in FENCED if language == "sh" for line in text.splitlines() if line.startswith("musicgen ")
]
TARGETS = sorted(set(re.findall(r"(?:^ *|`)make ([a-z-]+)", README, re.MULTILINE)))
LINKS = sorted(set(re.findall(r"\]\((?!https?:)([^)#]+)\)", README)))


def run(*command: str, cwd: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr


def test_there_is_something_of_each_kind() -> None:
    assert PYTHON
    assert COMMANDS
    assert {"demo", "test"} <= set(TARGETS)


@pytest.mark.parametrize("code", PYTHON)
def test_python_runs(code: str, tmp_path: Path) -> None:
    run(sys.executable, "-W", "error", "-c", code, cwd=tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, tmp_path: Path) -> None:
    run(sys.executable, "-m", *shlex.split(command, comments=True), cwd=tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_make_targets_exist(target: str) -> None:
    run("make", "-n", target, cwd=ROOT)


@pytest.mark.parametrize("link", LINKS)
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()
