"""One case: a call in a process of its own, with limits, and what it may leave behind.

Design note: a case runs in a fork of a process that has everything imported. So it costs what the call costs, and not
the seconds of a new interpreter; and a crash, a hang or a process that takes all memory ends only that case.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ALLOWED = (0, 2, 130, 143)
"""Exit statuses of a command; one whose reader is gone may also end with 141."""
SECONDS = 90.0
"""Time limit of a case on a busy machine. The longest takes a few seconds on a quiet one."""
MEMORY = 12 << 30
"""Address space of a case, most of which torch reserves and never uses."""
FILES = 512 << 20
"""Largest file that a case may write."""


class Fault(Exception):  # noqa: N818
    """A promise that was not kept."""


class Ended(NamedTuple):
    """How a call ended: its exit status (negative for a signal), what it printed, and what it complained of."""

    status: int
    printed: str
    complaint: str


def fork(work: Callable[[], Any]) -> tuple[int, int]:
    """Start work in a fork. Returns its process and the pipe for its result, as JSON."""
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    os.close(reading)
    status = 1
    with contextlib.suppress(BaseException):
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told us to ignore it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILES, FILES))
        try:
            answer: dict[str, Any] = {"result": work()}
        except Fault as fault:
            answer = {"fault": str(fault)}
        except BaseException:
            answer = {"fault": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        status = 0
    os._exit(status)


def wait(process: int, reading: int, seconds: float = SECONDS) -> Any:
    """The result of a fork.

    Raises:
        Fault: It raised a fault, crashed, or took too long.
    """
    end, parts = time.monotonic() + seconds, []
    with os.fdopen(reading, "rb") as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            block = os.read(pipe.fileno(), 1 << 16) if ready else b""
            if not block:
                break
            parts.append(block)
    if not ready:
        stop_group(process)
    _, status = os.waitpid(process, 0)
    stop_group(process)  # its own children
    if not ready:
        raise Fault(f"took more than {seconds:.0f} s")
    if os.WIFSIGNALED(status) or not parts:
        raise Fault(f"the process ended with {os.waitstatus_to_exitcode(status)} and no answer")
    answer = json.loads(b"".join(parts))
    if "fault" in answer:
        raise Fault(answer["fault"])
    return answer["result"]


def stop_group(process: int) -> None:
    """Kill a fork and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def isolated(work: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Work in a fork, and its result; see `wait`."""
    return wait(*fork(work), seconds)


def call(*arguments: str) -> Ended:
    """Run a command in this process. It may not raise."""
    from musicgen.cli.main import main

    printed, complaint = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaint):
        status = main(list(arguments))
    return Ended(status, printed.getvalue(), complaint.getvalue())


def check(ended: Ended, allowed: tuple[int, ...] = ALLOWED) -> Ended:
    """Check the exit status, and that a complaint is a sentence of ours."""
    if ended.status not in allowed:
        raise Fault(f"exit status {ended.status}: {ended.complaint[-800:]}")
    if "Traceback (most" in ended.complaint:
        raise Fault(f"a traceback: {ended.complaint[-800:]}")
    if ended.status == 2 and "musicgen: " not in ended.complaint:
        raise Fault(f"exit status 2 without a reason: {ended.complaint[-800:]!r}")
    if ".partial" in ended.complaint:
        raise Fault(f"an internal name in a message: {ended.complaint[-800:]}")
    return ended


def command(*arguments: str) -> Ended:
    """Run a command and check how it ended."""
    return check(call(*arguments))


def tree(folder: Path) -> dict[str, str]:
    """Every file and folder below a folder, with its hash."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsdecode(os.path.relpath(path, folder))
        is_file = path.is_file() and not path.is_symlink()
        found[name] = hashlib.sha256(path.read_bytes()).hexdigest() if is_file else "link" if path.is_symlink() else "/"
    return found


@contextlib.contextmanager
def unchanged(folder: Path, *but: str) -> Iterator[None]:
    """Check that nothing in a folder changes, but for what is below some names."""

    def seen() -> dict[str, str]:
        return {name: kind for name, kind in tree(folder).items() if name.split("/")[0] not in but}

    before = seen()
    yield
    after = seen()
    if before != after:
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        raise Fault(f"changed outside of out=: {', '.join(changed[:5])}")


def warm_up() -> None:
    """Import what commands import, so that a fork need not."""
    import torch

    torch.set_num_threads(1)
    sys.argv = ["musicgen"]
    for name in MODULES:
        importlib.import_module(name)


MODULES = (
    "matplotlib.pyplot",
    "mido",
    "uvicorn",
    *(f"musicgen.cli.{name}" for name in ("continuation", "export", "generate", "prepare", "render", "report")),
    "musicgen.data.verify",
    "musicgen.evaluation.report.files",
    "musicgen.sampling.gallery",
    "musicgen.studio.app",
    "musicgen.training.run",
)
