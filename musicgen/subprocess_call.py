"""Run a function in a child process, which may crash, hang or run out of memory without harm to the caller.

Design note: the children are plain subprocesses that communicate through pipes, not `multiprocessing`. They
never import the caller's script, so a script needs no `if __name__ == "__main__"`. Nothing is forked from a
process with threads. A child that dies ends only one call.
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
# Paths are set here because PYTHONPATH would come before the standard library.
_BOOT = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from musicgen.subprocess_call import serve
serve(sys.argv[2], int(sys.argv[3]))
"""
SECONDS = 60.0
"""Time limit of a call. Reading the longest real song takes less than one second."""
MEGABYTES = 3072


class SubprocessError(UserError):
    """The call has no result: the child crashed, took too long, ran out of memory or raised an unexpected error."""


class SubprocessCall:
    """A function that runs in a child process, one call at a time.

    The child starts with the first call. It starts again after a call that killed it.

    Args:
        function: A function at the top level of an importable module. Arguments and results are pickled.
        seconds: A call that takes longer is stopped.
        megabytes: The memory limit of the child, where the system supports one.
    """

    def __init__(self, function: Callable[..., T], seconds: float = SECONDS, megabytes: int = MEGABYTES) -> None:
        self.name = f"{function.__module__}:{function.__qualname__}"
        self.seconds, self.megabytes = seconds, megabytes
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """Call the function.

        Raises:
            SubprocessError: There is no result; the message says why.
            UserError: The function raised it.
        """
        with self._lock:
            succeeded, result = self._call_child(arguments)
        if succeeded:
            return result
        raise result

    def _call_child(self, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        child = self._child = self._child or self._start()
        requests, results = cast(BinaryIO, child.stdin), cast(BinaryIO, child.stdout)
        late = threading.Event()

        def stop() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(self.seconds, stop)
        timer.start()
        try:
            pickle.dump(arguments, requests)
            requests.flush()
            succeeded, result = pickle.load(results)  # noqa: S301  (written by our own child)
            return bool(succeeded), result
        except (EOFError, OSError, pickle.UnpicklingError):
            self.close()
            reason = f"took more than {self.seconds:g} s" if late.is_set() else "crashed the process that tried it"
            return False, SubprocessError(reason)
        except BaseException:
            self.close()  # otherwise the next call would read this result
            raise
        finally:
            timer.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        paths = [path or str(Path.cwd()) for path in sys.path]  # the child can import what we can
        child = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-c", _BOOT, json.dumps(paths), self.name, str(self.megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # only the parent gets Ctrl-C; it stops its children
        )
        try:
            ready, reason = pickle.load(cast(BinaryIO, child.stdout))  # noqa: S301  (written by our own child)
        except (EOFError, OSError, pickle.UnpicklingError):
            ready, reason = False, "it ends at once"
        if not ready:  # no argument is to blame
            child.kill()
            with child:
                raise RuntimeError(f"the child process for {self.name} does not start: {reason}")
        return child

    def close(self) -> None:
        """Stop the child, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            with contextlib.suppress(OSError), child:  # closes the pipes; one may hold half a request
                pass

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be shutting down
            self.close()


def subprocess_map(
    function: Callable[..., T], items: Iterable[tuple[Any, ...]], workers: int, seconds: float = SECONDS
) -> Iterator[T | UserError]:
    """Results of a function, in order, from several children. A call that failed gives its error as the result.

    Args:
        function: As for `SubprocessCall`.
        items: The arguments of each call.
        workers: Number of children.
        seconds: Time limit of each call.
    """
    children = [SubprocessCall(function, seconds) for _ in range(workers)]
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
    """The main loop of the child: report that it is ready, then run calls from standard input until it closes."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not be read as a result
    _limit_memory(megabytes)
    module, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), function_name)
    except Exception:
        results.write(pickle.dumps((False, traceback.format_exc())))
        raise
    results.write(pickle.dumps((True, "")))
    results.flush()
    while True:
        try:
            arguments = pickle.load(sys.stdin.buffer)  # noqa: S301  (written by our own parent)
        except EOFError:
            return
        try:
            result = (True, function(*arguments))
        except UserError as error:
            result = (False, error)
        except MemoryError:
            result = (False, SubprocessError(f"needs more than {megabytes} MB of memory"))
        except Exception as error:  # no error may end the child
            result = (False, SubprocessError(f"raised {type(error).__name__}: {error}"))
        results.write(pickle.dumps(result))
        results.flush()


def _limit_memory(megabytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    with contextlib.suppress(ValueError, OSError):  # not every system has a limit
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
