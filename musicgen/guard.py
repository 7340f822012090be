"""Run a function in a child process that may crash, hang or fill the memory, and get an answer all the same.

The hard choice: the children are plain subprocesses that talk through their pipes, not `multiprocessing`. They
never import the caller's script, so a script needs no `if __name__ == "__main__"`; nothing is forked from a
process that has threads; and a child that dies takes with it one call and no more.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from musicgen.errors import UserError

T = TypeVar("T")
# Paths are set here and not by PYTHONPATH, which would come before the standard library.
_BOOT = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from musicgen.guard import serve
serve(sys.argv[2], int(sys.argv[3]))
"""
SECONDS = 30.0
MEGABYTES = 3072


class GuardError(UserError):
    """The call gave no result: the child crashed, took too long, ran out of memory or met a bug."""


class Guarded:
    """A function that runs in a child process, one call at a time.

    The child starts with the first call, and again after a call that killed it.

    Args:
        function: A function at the top of an importable module. Arguments and results are pickled.
        seconds: A call that takes longer is stopped.
        megabytes: The child may have no more memory than this (where the system can limit it).
    """

    def __init__(self, function: Callable[..., T], seconds: float = SECONDS, megabytes: int = MEGABYTES) -> None:
        self.name = f"{function.__module__}:{function.__qualname__}"
        self.seconds, self.megabytes = seconds, megabytes
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """Call it.

        Raises:
            GuardError: There is no result, and why.
            UserError: The function raised it.
        """
        with self._lock:
            succeeded, answer = self._ask(arguments)
        if succeeded:
            return answer
        raise answer

    def _ask(self, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        child = self._child = self._child or self._start()
        questions, answers = cast(BinaryIO, child.stdin), cast(BinaryIO, child.stdout)
        late = threading.Event()

        def stop() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(self.seconds, stop)
        timer.start()
        try:
            pickle.dump(arguments, questions)
            questions.flush()
            succeeded, answer = pickle.load(answers)  # noqa: S301  (written by our own child)
            return bool(succeeded), answer
        except (EOFError, OSError, pickle.UnpicklingError):
            self.close()
            reason = f"took more than {self.seconds:g} s" if late.is_set() else "crashed the process that tried it"
            return False, GuardError(reason)
        except BaseException:
            self.close()  # the answer would be taken for that of the next call
            raise
        finally:
            timer.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        paths = [path or str(Path.cwd()) for path in sys.path]  # what we can import, the child can
        child = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-c", _BOOT, json.dumps(paths), self.name, str(self.megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the parent, which stops its children
        )
        try:
            ready, reason = pickle.load(cast(BinaryIO, child.stdout))  # noqa: S301  (written by our own child)
        except (EOFError, OSError, pickle.UnpicklingError):
            ready, reason = False, "it ends at once"
        if not ready:  # not the fault of any argument
            child.kill()
            with child:
                raise RuntimeError(f"the child process for {self.name} does not start: {reason}")
        return child

    def close(self) -> None:
        """Stop the child, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            with contextlib.suppress(OSError), child:  # closes the pipes, one of which may hold half a question
                pass

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be half gone
            self.close()


def guarded_map(
    function: Callable[..., T], items: Iterable[tuple[Any, ...]], workers: int, seconds: float = SECONDS
) -> Iterator[T | UserError]:
    """Results of a function, in order, from several children; an error in the place of a result that failed.

    Args:
        function: As for `Guarded`.
        items: The arguments of each call.
        workers: Number of children.
        seconds: Time for each call.
    """
    children = [Guarded(function, seconds) for _ in range(workers)]
    idle = list(children)

    def call(arguments: tuple[Any, ...]) -> T | UserError:
        child = idle.pop()
        try:
            return cast(T, child(*arguments))
        except UserError as error:
            return error
        finally:
            idle.append(child)

    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(call, items)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.close()


def serve(name: str, megabytes: int) -> None:
    """The child: say that it is ready, and answer calls from standard input until it closes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    _limit_memory(megabytes)
    module, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), function_name)
    except Exception:
        answers.write(pickle.dumps((False, traceback.format_exc())))
        raise
    answers.write(pickle.dumps((True, "")))
    answers.flush()
    while True:
        try:
            arguments = pickle.load(sys.stdin.buffer)  # noqa: S301  (written by our own parent)
        except EOFError:
            return
        try:
            answer = (True, function(*arguments))
        except UserError as error:
            answer = (False, error)
        except MemoryError:
            answer = (False, GuardError(f"needs more than {megabytes} MB of memory"))
        except Exception as error:  # whatever it is, it must not end the child
            answer = (False, GuardError(f"raised {type(error).__name__}: {error}"))
        answers.write(pickle.dumps(answer))
        answers.flush()


def _limit_memory(megabytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    with contextlib.suppress(ValueError, OSError):  # some systems cannot limit it
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
