"""Attacks on running commands: kills, signals, full disks, two writers, vanished folders, closed pipes, odd locales."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from soak.cases import Ended, Fault, call, check, command, fork, isolated, stop_group, tree, unchanged, wait
from soak.inputs import check_pieces
from soak.world import training

PROMPT = 4.0
"""Seconds in which a command ends after SIGTERM or SIGINT, on a machine that is busy with other things."""


def commands(world: Path, out: Path) -> dict[str, list[str]]:
    """A short call of every verb that writes."""
    model = f"model={world / 'pop_bundle'}"
    grooves = (f"model={world / 'groove_bundle'}", f"data={world / 'groove_corpus'}")
    few = ("split=train", "styles=2", "continuations=2", "prompt_bars=1", "bars=4")
    return {
        "prepare": ["prepare", f"input={world / 'midi'}", "workers=1", f"out={out}"],
        "train": training("pop", out),
        "generate": ["generate", model, "n=3", "bars=8", "states=bars", f"out={out}"],
        "continue": ["continue", *grooves, *few, f"out={out}"],
        "evaluate": [
            *("evaluate", "nll", model, f"data={world / 'pop_corpus'}", "split=train", "draws=1", f"out={out}"),
        ],
        "export": ["export", f"checkpoint={world / 'pop_run'}", f"out={out}"],
        "render": ["render", str(world / "midi" / "synthetic_0.mid"), f"out={out}"],
    }  # fmt: skip


AGAIN = {"train": "resume=auto", "export": "", "render": ""}
"""What a command needs to go on where another was stopped, if not overwrite=true."""
MARKS = {"prepare": "corpus.json", "evaluate": "nll.json", "export": "config.json"}
"""Folders that appear as a whole, and a file in each."""
SECONDS = {
    "prepare": 3.0,
    "train": 3.0,
    "generate": 2.5,
    "continue": 3.0,
    "evaluate": 2.0,
    "export": 0.5,
    "render": 2.0,
}
"""About how long the calls take, on a quiet machine."""


def _again(verb: str, arguments: list[str]) -> list[str]:
    return [*arguments, *filter(None, [AGAIN.get(verb, "overwrite=true")])]


def _start(arguments: list[str]) -> tuple[int, int]:
    """A command in a fork of a fork, which can be killed alone."""
    return fork(lambda: call(*arguments))


def _left(place: Path) -> list[str]:
    """Temporary files next to the output."""
    return [path.name for path in place.iterdir() if path.name.startswith(".")]


def kill(chance: Random, world: Path, place: Path) -> int:
    """A command that is killed leaves nothing half, and the same command then finishes its work."""
    verb = chance.choice(list(SECONDS))
    out = place / "out"
    arguments = commands(world, out)[verb]
    (place / "mine").write_text("mine")
    process, reading = _start(arguments)
    time.sleep(chance.random() * SECONDS[verb])
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(reading)
    stop_group(process)
    if verb in MARKS and out.exists() and not (out / MARKS[verb]).is_file():
        raise Fault(f"{verb} was killed and left a part of its folder: {sorted(tree(out))}")
    if verb == "generate" and out.exists():
        check_pieces(out)
    ended = command(*_again(verb, arguments))
    if ended.status:
        raise Fault(f"{verb} was killed, and cannot go on: {ended.complaint[-400:]}")
    if (place / "mine").read_text() != "mine" or _left(place):
        raise Fault(f"{verb} was killed, and went on, and left {_left(place)}")
    if verb == "train" and _losses(out) != _losses(world / "pop_run"):
        raise Fault("a resumed run differs from the unbroken one")
    return 1


def _losses(folder: Path) -> list[dict[str, str]]:
    """The metrics of a run, but for its speed."""
    rows = csv.DictReader(io.StringIO((folder / "metrics.csv").read_text()))
    return [{name: value for name, value in row.items() if "second" not in name} for row in rows]


def stop(chance: Random, world: Path, place: Path) -> int:
    """A command that is asked to end does so at once, and leaves nothing half."""
    verb = chance.choice(list(SECONDS))
    out = place / "out"
    process, reading = _start(commands(world, out)[verb])
    time.sleep(chance.random() * SECONDS[verb])
    began = time.monotonic()
    os.kill(process, chance.choice((signal.SIGTERM, signal.SIGINT)))
    try:
        ended = Ended(*wait(process, reading, 30))
    except Fault as fault:
        if "no answer" in str(fault) or "KeyboardInterrupt" in str(fault):
            return 1  # the signal came before or after the command itself
        raise
    took = time.monotonic() - began
    if took > PROMPT and ended.status != 0:
        raise Fault(f"{verb} took {took:.1f} s to end")
    check(ended)
    if _left(place):
        raise Fault(f"{verb} was stopped, and left {_left(place)}")
    if verb in MARKS and out.exists() and not (out / MARKS[verb]).is_file():
        raise Fault(f"{verb} was stopped, and left a part of its folder")
    return 1


@contextlib.contextmanager
def small_disk(folder: Path, size: int, read_only: bool = False) -> Iterator[bool]:
    """A disk of some bytes at a folder, if we may mount one; whether there is one."""
    program = shutil.which("mount")
    folder.mkdir()
    words = [program or "mount", "-t", "tmpfs", "-o", f"size={size}{',ro' if read_only else ''}", "none", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run([shutil.which("umount") or "umount", "-l", str(folder)], check=False)


def full_disk(chance: Random, world: Path, place: Path) -> int:
    """On a full disk a command ends with a sentence, and everything that is there is whole."""
    verb = chance.choice(list(SECONDS))
    size = int(4096 * 2 ** (chance.random() * 9))
    with small_disk(place / "disk", size) as is_disk:
        out = place / "disk" / "out"

        def work() -> Ended:
            if not is_disk:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            return call(*commands(world, out)[verb])

        with unchanged(place, "disk"):
            ended = check(Ended(*isolated(work)))
        if verb in MARKS and out.exists() != (ended.status == 0):
            raise Fault(f"{verb} on a full disk ended with {ended.status} and its folder {tree(place / 'disk')}")
        if verb == "render" and ended.status and out.exists() and any(out.iterdir()):
            raise Fault(f"render on a full disk left {sorted(tree(out))}")
        if verb == "generate" and out.exists():
            check_pieces(out)
            if any(out.glob("*.mid")) and not (out / "index.html").is_file():
                raise Fault("generate on a full disk left pieces without a page")
        if ended.status and [name for name in tree(place / "disk") if ".partial" in name]:
            raise Fault(f"{verb} on a full disk left {sorted(tree(place / 'disk'))}")
    return 1


def read_only(chance: Random, world: Path, place: Path) -> int:
    """A folder that cannot be written gives a sentence."""
    verb = chance.choice(list(SECONDS))
    with small_disk(place / "disk", 1 << 20, read_only=True) as is_disk:
        if is_disk:
            ended = command(*commands(world, place / "disk" / "out")[verb])
            if ended.status != 2:
                raise Fault(f"{verb} says that it wrote to a disk that cannot be written")
    return 1


def vanish(chance: Random, world: Path, place: Path) -> int:
    """A folder that vanishes while a command reads or writes it gives a sentence or is no harm."""
    verb = chance.choice(list(SECONDS))
    own = place / "world"
    shutil.copytree(world, own, symlinks=True)
    out = place / "deep" / "out"
    process, reading = _start(commands(own, out)[verb])
    time.sleep(chance.random() * SECONDS[verb])
    shutil.rmtree(chance.choice((own, out, place / "deep", own / "midi")), ignore_errors=True)
    check(Ended(*wait(process, reading)))
    return 1


def two_writers(chance: Random, world: Path, place: Path) -> int:
    """Two commands that write to one folder do not mix: what is there is whole."""
    verb = chance.choice([verb for verb in SECONDS if verb != "render"])
    out = place / "out"
    arguments = commands(world, out)[verb]
    both = [_start(arguments if chance.random() < 0.5 else _again(verb, arguments)) for _ in range(2)]
    ended = [check(Ended(*wait(*started))) for started in both]
    if all(each.status for each in ended):
        raise Fault(f"two writers of {verb}, and neither succeeded: {ended}")
    if verb in MARKS and not (out / MARKS[verb]).is_file():
        raise Fault(f"two writers of {verb} left {sorted(tree(out))}")
    if verb == "train" and _losses(out) != _losses(world / "pop_run"):
        raise Fault("two writers of one run changed its losses")
    if verb == "generate":
        check_pieces(out)
    if _left(place):
        raise Fault(f"two writers of {verb} left {_left(place)}")
    return 1


def output(chance: Random, world: Path, place: Path) -> int:
    """A closed pipe, a full disk behind it, a missing output or a strange locale is no traceback."""
    verb = chance.choice(("generate", "prepare", "export", "evaluate", "help"))
    words = ["--help"] if verb == "help" else commands(world, place / "out")[verb]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    locale = chance.choice((None, "C", "POSIX", "tr_TR.ISO-8859-9", "xx_XX"))
    if locale:
        environment |= {"LC_ALL": locale, "PYTHONIOENCODING": chance.choice(("ascii", "latin-1", "utf-8", "cp1252"))}
    shell = chance.choice(
        ("{} | true", "{} > /dev/full", "{} >&-", "{} 2>&-", "{} > /dev/null", "{} < /dev/null | head -1")
    )
    line = (
        shell.format('"$0" -m musicgen "$@"')
        if "|" not in shell
        else shell.format('("$0" -m musicgen "$@"; echo $? >&3)')
    )
    reading, writing = os.pipe()
    done = subprocess.run(
        ["/bin/sh", "-c", line if "|" not in shell else f"exec 3>&{writing}; {line}", sys.executable, *words],
        env=environment, cwd=Path(__file__).parents[1], capture_output=True, check=False, timeout=120,
        pass_fds=[writing],
    )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading) as pipe:
        status = int(pipe.read() or done.returncode)
    complaint = done.stderr.decode("utf-8", "replace")
    if status not in (0, 2, 130, 141, 143) or "Traceback" in complaint or "Exception ignored" in complaint:
        raise Fault(f"{shell.format('musicgen ' + verb)} in {locale}: exit status {status}: {complaint[-600:]}")
    return 1


def gone_folder(chance: Random, world: Path, place: Path) -> int:
    """A working folder that was deleted gives a sentence."""
    verb = chance.choice(list(SECONDS))
    (place / "here").mkdir()
    os.chdir(place / "here")
    (place / "here").rmdir()
    ended = command(*commands(world, Path("out"))[verb])
    if ended.status != 2:
        raise Fault(f"{verb} works in a folder that is not there")
    return 1
