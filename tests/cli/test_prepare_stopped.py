"""`musicgen prepare`, stopped: what is on the disk after every way to stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prepare_runs import ROOT, SYNTHETIC, Run, contents

from musicgen.data.verify import verify


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "musicgen", "prepare", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Until something holds, or the process has ended by itself."""
    limit = time.monotonic() + 60
    while not condition() and process.poll() is None:
        assert time.monotonic() < limit
        time.sleep(0.002)


@pytest.mark.parametrize("when", ["reading", "tokens.npy", "corpus.json", "output"])
def test_a_run_that_is_killed_leaves_no_corpus_or_a_whole_one_and_the_next_makes_it(
    when: str, many: Path, tmp_path: Path, run: Run
) -> None:
    output = tmp_path / "out"
    process = start(f"input={many}", f"out={output}", "workers=1")

    def now() -> bool:
        staged = list(tmp_path.glob(".out.*.partial"))
        if when == "output":
            return output.exists()
        return bool(staged) if when == "reading" else any((folder / when).exists() for folder in staged)

    wait_for(now, process)
    if when == "reading":
        time.sleep(0.4)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    if when != "output":  # by then it may have been through
        assert process.returncode == -signal.SIGKILL
        assert list(tmp_path.glob(".out.*.partial"))
    if output.exists():
        assert verify(output) == []
    assert output.exists() == (when == "output")
    again = [f"input={many}"] if when == "reading" else SYNTHETIC
    status, _, complaint = run(*again, f"out={output}", "workers=1", "overwrite=true")
    assert (status, complaint) == (0, "")
    assert verify(output) == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_interrupt_leaves_what_was_there_and_nothing_else(
    overwrite: bool, many: Path, tmp_path: Path, run: Run
) -> None:
    output = tmp_path / "out"
    if overwrite:
        run(*SYNTHETIC, f"out={output}")
    before = contents(tmp_path)
    process = start(f"input={many}", f"out={output}", "workers=2", f"overwrite={str(overwrite).lower()}")
    wait_for(lambda: list(tmp_path.glob(".out.*.partial")), process)
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (130, "musicgen: interrupted\n")
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"] * overwrite
