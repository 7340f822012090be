"""Commands in processes of their own, without the seconds that each would take to import torch.

They are forked from a server that has imported what they need, with the standard library's `forkserver`. A test that
is about how a process begins starts `python -m musicgen` itself.
"""

from __future__ import annotations

import functools
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

_CONTEXT = multiprocessing.get_context("forkserver")


@functools.cache
def _server() -> multiprocessing.context.ForkServerContext:
    """The context, with its server started: it finds the modules of this folder, and computes in one thread."""
    _CONTEXT.set_forkserver_preload(["forked_imports"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        patch.setenv("OMP_NUM_THREADS", "1")
        forkserver.ensure_running()
    return _CONTEXT


class Forked:
    """A process that runs `python -m musicgen ARGUMENTS`, or else a program; it is used like `subprocess.Popen`."""

    def __init__(
        self,
        *arguments: str,
        program: str | None = None,
        strict: bool = False,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            arguments: Of the command, or `sys.argv[1:]` of the program.
            program: Python code that runs as `__main__`, as after `python -c`.
            strict: Whether every warning is an error, as after `python -W error`.
            cwd: Where it runs, by default the folder of this process.
            environment: All variables, by default those of this process.
        """
        reading, writing = zip(*(_server().Pipe(duplex=False) for _ in range(2)), strict=True)
        folder, variables = str(cwd or Path.cwd()), dict(os.environ if environment is None else environment)
        self._process = _server().Process(target=_run, args=(arguments, program, strict, folder, variables, *writing))
        self._process.start()
        for pipe in writing:
            pipe.close()  # only the process writes: its end is the end of what is read here
        self.stdout, self.stderr = (
            io.TextIOWrapper(io.FileIO(os.dup(pipe.fileno())), encoding="utf-8") for pipe in reading
        )
        for pipe in reading:
            pipe.close()

    @property
    def returncode(self) -> int | None:
        """The exit status, or the negative number of the signal that ended it."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        assert self._process.pid
        os.kill(self._process.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float = 240) -> tuple[str, str]:
        """Wait until it ends; what it wrote to its output and its errors."""
        texts: dict[str, str] = {}

        def read(name: str, stream: io.TextIOWrapper) -> None:
            texts[name] = stream.read()

        threads = [
            threading.Thread(target=read, args=pair, daemon=True)
            for pair in (("out", self.stdout), ("errors", self.stderr))
        ]
        for thread in threads:
            thread.start()
        self._process.join(timeout)
        if self._process.exitcode is None:
            self.kill()
            raise subprocess.TimeoutExpired("forked", timeout)
        for thread in threads:
            thread.join()
        for stream in (self.stdout, self.stderr):
            stream.close()
        return texts["out"], texts["errors"]


def run_forked(*arguments: str, timeout: float = 240, **options: Any) -> subprocess.CompletedProcess[str]:
    """Like `subprocess.run` with captured output; options are those of `Forked`."""
    process = Forked(*arguments, **options)
    output, errors = process.communicate(timeout)
    assert process.returncode is not None
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def _run(
    arguments: tuple[str, ...],
    program: str | None,
    strict: bool,
    folder: str,
    variables: dict[str, str],
    out: Connection,
    errors: Connection,
) -> None:
    """What the new process does: it takes its pipes, folder and variables, and then it is the command."""
    for number, pipe in enumerate((out, errors), 1):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True
    )
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["musicgen", *arguments]
    if strict:
        warnings.resetwarnings()
        warnings.simplefilter("error")
    if program is None:
        from musicgen.cli.main import main

        raise SystemExit(main(list(arguments)))
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    try:
        exec(compile(program, "<program>", "exec"), module.__dict__)  # noqa: S102
    except Exception:
        traceback.print_exc()
        raise SystemExit(1) from None
