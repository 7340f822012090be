"""The entry point: the table of commands, and how errors are reported.

Design note: only the standard library is imported until a command is called, and then only that command. Help is
instant, and works without the dependencies.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType

from musicgen import __doc__ as about
from musicgen import __version__
from musicgen.errors import UserError

VERBS = {
    "arena": ("classify long sequences with the same attention: the Long-Range Arena", "musicgen.cli.arena"),
    "continue": ("continue grooves in styles that a model has not seen", "musicgen.cli.continuation"),
    "demo": ("try everything at once: pieces, continued grooves, pictures and sound", "musicgen.cli.demo"),
    "describe": ("print the size and the state of a model, from its config", "musicgen.cli.describe"),
    "evaluate": ("measure models and generated music", "musicgen.cli.evaluate"),
    "export": ("make a model bundle from a checkpoint", "musicgen.cli.export"),
    "generate": ("write music with a model, from nothing or from a prompt", "musicgen.cli.generate"),
    "prepare": ("turn a folder of MIDI files into a training corpus", "musicgen.cli.prepare"),
    "render": ("draw and play MIDI files", "musicgen.cli.render"),
    "report": ("measure models in every way and show it on one page", "musicgen.cli.report"),
    "studio": ("open a page in the browser to write, hear and steer music", "musicgen.cli.studio"),
    "train": ("train a model, or continue a run", "musicgen.cli.train"),
}
"""Command to its summary and the module whose `run(arguments)` does the work and returns the exit status."""

BAD_INPUT, INTERRUPTED, PIPE_CLOSED, STOPPED = 2, 130, 141, 143


def main(argv: list[str] | None = None) -> int:
    """Run a command, by default that of the process, and return the exit status: 2 for a mistake of the user."""
    arguments = sys.argv[1:] if argv is None else argv
    _prepare_output()
    try:
        with _stoppable():
            _check_working_folder()
            status = _dispatch(arguments)
            sys.stdout.flush()  # a closed pipe is noticed here, not when the interpreter exits
    except UserError as error:
        print(f"musicgen: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as error:
        _forget_frames(error)
        was_stopped = isinstance(error, Stopped)
        print(f"musicgen: {'stopped' if was_stopped else 'interrupted'}", file=sys.stderr)
        return STOPPED if was_stopped else INTERRUPTED
    except BrokenPipeError:
        _forget_output()  # the reader of the pipe is gone
        return PIPE_CLOSED
    except OSError as error:  # the disk is full, or a folder vanished while it was used
        _forget_output()
        name = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        print(f"musicgen: {name}{error.strerror or error}", file=sys.stderr)
        return BAD_INPUT
    except MemoryError:
        print("musicgen: there is not enough memory; ask for less at a time", file=sys.stderr)
        return BAD_INPUT
    return status


class Stopped(KeyboardInterrupt):
    """The process was asked to end (SIGTERM). Commands treat it like Ctrl-C."""


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Turns SIGTERM into `Stopped`, so that temporary files are removed, and lets no package hide that it was asked."""
    asked: list[KeyboardInterrupt] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        asked.append(Stopped() if number == signal.SIGTERM else KeyboardInterrupt())
        raise asked[-1]

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, stop)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else a shell wants it to be ignored
        before[signal.SIGINT] = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except ImportError:
        if asked:  # it came while a package was loaded, and the package made another error of it
            raise asked[-1] from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _forget_frames(error: BaseException) -> None:
    """Let go of what an interrupt left half-made, whose clean-up may fail and would print a traceback."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        traceback.clear_frames(error.__traceback__)
    finally:
        sys.unraisablehook = hook


def _prepare_output() -> None:
    """Lines appear at once, and a character that the terminal does not know is no error."""
    for name, buffering in (("stdout", True), ("stderr", None)):
        stream = getattr(sys, name)
        if stream is None:  # it was closed by whoever started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=buffering, errors="backslashreplace")


def _forget_output() -> None:
    """Send what is not printed yet to nowhere; otherwise the interpreter tries to print it when it exits."""
    with contextlib.suppress(OSError, ValueError):  # tests replace the output by something without a descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_working_folder() -> None:
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        raise UserError("the working folder was deleted; change to another folder") from None


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    if arguments[0] == "--version":
        print(f"musicgen {__version__}")
        return 0
    verb, *rest = arguments
    check_choice(verb, VERBS, "unknown command")
    try:
        status: int = importlib.import_module(VERBS[verb][1]).run(rest)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "musicgen":
            raise
        raise UserError(
            f"{verb} needs the Python package {error.name!r}: install musicgen with its dependencies"
        ) from None
    return status


def check_choice(name: str, table: dict[str, tuple[str, str]], complaint: str) -> None:
    """Refuse a name that is not in a table of commands."""
    if name not in table:
        close = difflib.get_close_matches(name, table, 1)
        advice = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(table)}"
        raise UserError(f"{complaint} {name!r}: {advice}")


def summaries(table: dict[str, tuple[str, str]]) -> list[str]:
    """The commands of a table and what they do, aligned."""
    width = max(map(len, table))
    return [f"  {name:{width}}  {summary}" for name, (summary, _) in table.items()]


def _help() -> str:
    return "\n".join(
        [
            "usage: musicgen COMMAND [key=value ...]",
            "",
            str(about),
            "",
            "commands:",
            *summaries(VERBS),
            "",
            "`musicgen COMMAND --help` explains a command; `musicgen --version` prints the version.",
        ]
    )
