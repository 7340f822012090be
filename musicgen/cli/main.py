"""The entry point: a table of verbs, and what becomes of errors.

The hard choice: nothing but the standard library is imported until a verb is called, and then that verb
alone. Help is instant, and is there on a machine where the dependencies are not.
"""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys

from musicgen import __doc__ as about
from musicgen import __version__
from musicgen.errors import UserError

VERBS = {
    "continue": ("continue grooves in styles that a model has not seen", "musicgen.cli.continuation"),
    "demo": ("play at once: pieces, continued grooves, pictures and sound", "musicgen.cli.demo"),
    "describe": ("size and state of a model, from its config", "musicgen.cli.describe"),
    "evaluate": ("measure models, and music that was made", "musicgen.cli.evaluate"),
    "export": ("make a model bundle from a checkpoint", "musicgen.cli.export"),
    "generate": ("write music with a model, from nothing or from a prompt", "musicgen.cli.generate"),
    "prepare": ("turn a folder of MIDI files into a training corpus", "musicgen.cli.prepare"),
    "render": ("draw and play a MIDI file: a picture and a sound file", "musicgen.cli.render"),
    "report": ("measure models in every way, on one page", "musicgen.cli.report"),
    "train": ("train a model, or go on training it", "musicgen.cli.train"),
}
"""Verb to what it does and the module whose `run(arguments)` does it and returns the exit status."""

BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 2, 130, 141


def main(argv: list[str] | None = None) -> int:
    """Run a verb.

    Args:
        argv: The arguments after `musicgen`; those of the process by default.

    Returns:
        The exit status: 0, or 2 for what the user can put right.
    """
    arguments = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # whoever follows the log of a long run sees it grow
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()  # a closed pipe is to be met here, not by the interpreter on its way out
    except UserError as error:
        print(f"musicgen: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("musicgen: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has seen enough
        return PIPE_CLOSED
    return status


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    if arguments[0] == "--version":
        print(f"musicgen {__version__}")
        return 0
    verb, *rest = arguments
    if verb not in VERBS:
        close = difflib.get_close_matches(verb, VERBS, 1)
        advice = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(VERBS)}"
        raise UserError(f"unknown command {verb!r}: {advice}")
    try:
        status: int = importlib.import_module(VERBS[verb][1]).run(rest)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "musicgen":
            raise
        raise UserError(
            f"{verb} needs the Python package {error.name!r}: install musicgen with its dependencies"
        ) from None
    return status


def _help() -> str:
    width = max(map(len, VERBS))
    return "\n".join(
        [
            "usage: musicgen COMMAND [key=value ...]",
            "",
            str(about),
            "",
            "commands:",
            *(f"  {verb:{width}}  {summary}" for verb, (summary, _) in VERBS.items()),
            "",
            "`musicgen COMMAND --help` explains a command; `musicgen --version` prints the version.",
        ]
    )
