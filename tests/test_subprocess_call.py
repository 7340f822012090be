from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from musicgen.errors import UserError
from musicgen.subprocess_call import SubprocessCall, SubprocessError, subprocess_map


def double(value: int) -> int:
    if value == 3:
        os.abort()
    if value == 5:
        raise UserError("five is refused")
    return 2 * value


def misbehave(how: str) -> object:
    match how:
        case "sleep":
            time.sleep(60)
        case "exit":
            os._exit(0)
        case "fill":
            return len(bytearray(4 << 30))
        case "raise":
            raise KeyError("gone")
        case "print":
            sys.stdout.write("hello")
            sys.stdout.flush()
            os.write(1, b"noise")
        case "id":
            return os.getpid()
    return how


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("exit", "crashed"),
        ("fill", "needs more than 200 MB"),
        ("raise", "raised KeyError: 'gone'"),
        ("sleep", "took more"),
    ],
)
def test_a_call_that_fails_is_an_answer_and_the_next_works(how: str, reason: str) -> None:
    call = SubprocessCall(misbehave, seconds=1.5, megabytes=200)
    with pytest.raises(SubprocessError, match=reason):
        call(how)
    assert call("well") == "well"
    call.close()


def test_what_a_function_prints_is_not_taken_for_its_answer() -> None:
    call = SubprocessCall(misbehave)
    assert call("print") == "print"
    call.close()


def test_one_child_serves_many_calls_and_is_gone_when_closed() -> None:
    call = SubprocessCall(misbehave)
    number = call("id")
    assert number == call("id") != os.getpid()
    call.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
    assert call("id") != number
    call.close()


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_order_with_errors_in_their_places(workers: int) -> None:
    results = list(subprocess_map(double, ((value,) for value in range(8)), workers))
    assert [result for result in results if not isinstance(result, UserError)] == [0, 2, 4, 8, 12, 14]
    assert isinstance(results[3], SubprocessError)
    assert str(results[5]) == "five is refused"


def test_a_map_that_is_left_early_leaves_no_children() -> None:
    results = subprocess_map(misbehave, [("id",)] * 20, 2)
    children = {next(results), next(results)}
    results.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(os.path.exists(f"/proc/{child}") for child in children):  # noqa: PTH110
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{child}") for child in children)  # noqa: PTH110


def test_a_function_that_cannot_be_imported_is_no_fault_of_its_arguments() -> None:
    call = SubprocessCall(double)
    call.name = "musicgen.no_such_module:double"
    with pytest.raises(RuntimeError, match="No module named"):
        call(1)


def test_a_script_beside_a_file_named_like_a_module_of_python_has_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "encodings.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)
    call = SubprocessCall(double)
    assert call(2) == 4
    call.close()


def test_a_child_that_died_with_half_a_question_is_closed_quietly() -> None:
    call = SubprocessCall(double)
    assert call(1) == 2
    child = call._child
    assert child
    assert child.stdin
    child.stdin.write(b"half")
    child.kill()
    child.wait()
    call.close()
