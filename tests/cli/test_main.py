from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from musicgen import __version__
from musicgen.cli import main as command
from musicgen.errors import UserError

ROOT = Path(__file__).parents[2]


def run_bare(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`python -m musicgen` by a Python that sees the standard library and this package, and nothing else."""
    return subprocess.run(
        [sys.executable, "-S", "-m", "musicgen", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[list[str]], int]], None]:
    """Puts a function into the table of verbs, as `trial`."""

    def add(function: Callable[[list[str]], int]) -> None:
        module = types.ModuleType("trial_verb")
        module.run = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "trial_verb", module)
        monkeypatch.setitem(command.VERBS, "trial", ("a trial", "trial_verb"))

    return add


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_verb_without_any_dependency(arguments: list[str], tmp_path: Path) -> None:
    result = run_bare(*arguments, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    for name, (summary, _) in command.VERBS.items():
        assert name in result.stdout
        assert summary in result.stdout


@pytest.mark.parametrize("verb", ["generate", "prepare", "render", "demo", "export"])
def test_help_of_a_verb_needs_no_dependency(verb: str, tmp_path: Path) -> None:
    result = run_bare(verb, "--help", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"musicgen {verb}" in result.stdout


def test_the_first_token_does_not_wait_for_the_compiler_of_torch(tmp_path: Path) -> None:
    words = ["generate", "n=1", "tokens=1", "picture=false", f"out={tmp_path / 'out'}"]
    script = f"import sys; from musicgen.cli.main import main; main({words!r}); print('torch._dynamo' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=200, check=True
    )
    assert result.stdout.splitlines()[-1] == "False"


def test_version_needs_no_dependency(tmp_path: Path) -> None:
    result = run_bare("--version", cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"musicgen {__version__}\n", "")


def test_a_verb_whose_dependency_is_missing_says_which(tmp_path: Path) -> None:
    result = run_bare("describe", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "'hydra'" in result.stderr


@pytest.mark.parametrize(
    ("word", "advice"), [("descrbe", "did you mean 'describe'?"), ("zzz", "demo, describe"), ("--zzz", "demo")]
)
def test_an_unknown_verb_is_one_sentence_and_exit_status_2(
    word: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([word]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert repr(word) in output.err
    assert advice in output.err


def test_a_verb_gets_the_other_arguments_and_its_status_is_the_exit_status(
    verb: Callable[[Callable[[list[str]], int]], None],
) -> None:
    seen: list[str] = []

    def run(arguments: list[str]) -> int:
        seen.extend(arguments)
        return 7

    verb(run)
    assert command.main(["trial", "a=1", "--help"]) == 7
    assert seen == ["a=1", "--help"]


def test_a_mistake_of_the_user_is_one_sentence_and_exit_status_2(
    verb: Callable[[Callable[[list[str]], int]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: list[str]) -> int:
        raise UserError(f"{arguments[0]}: there is no such file")

    verb(run)
    assert command.main(["trial", "a.mid"]) == 2
    assert capsys.readouterr().err == "musicgen: a.mid: there is no such file\n"


def test_a_mistake_of_ours_keeps_its_traceback(verb: Callable[[Callable[[list[str]], int]], None]) -> None:
    def run(arguments: list[str]) -> int:
        return len(arguments) // 0

    verb(run)
    with pytest.raises(ZeroDivisionError):
        command.main(["trial"])


def test_an_interrupt_is_one_line_and_exit_status_130(
    verb: Callable[[Callable[[list[str]], int]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: list[str]) -> int:
        raise KeyboardInterrupt

    verb(run)
    assert command.main(["trial"]) == 130
    assert capsys.readouterr().err == "musicgen: interrupted\n"


@pytest.mark.parametrize(
    ("number", "status", "words"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "stopped")]
)
def test_a_signal_that_a_package_hides_while_it_is_loaded_is_still_an_answer(
    verb: Callable[[Callable[[list[str]], int]], None],
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    status: int,
    words: str,
) -> None:
    def run(_: list[str]) -> int:
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None  # as extensions in C do
        return 0

    verb(run)
    before = signal.getsignal(number)
    assert command.main(["trial"]) == status
    assert capsys.readouterr().err == f"musicgen: {words}\n"
    assert signal.getsignal(number) is before


def test_a_reader_that_went_away_is_no_error_message(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        result = subprocess.run(
            [sys.executable, "-m", "musicgen", "--help"],
            cwd=tmp_path,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (result.returncode, result.stderr) == (141, "")
