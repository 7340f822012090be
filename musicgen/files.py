"""Writing a file, or a folder, whole or not at all.

The hard choice: the new bytes go to a file beside the old one, which they replace in one step once they are on the
disk. It takes twice the space for a moment, and the folder must be writable, not the file alone; but whoever reads
at any moment, and whatever fails, there is the old file or the new one and never a part.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Literal

from musicgen.errors import UserError


def atomic_write(path: Path, data: bytes) -> None:
    """Write a file; one that is there is replaced, and stays as it was if anything fails.

    Args:
        path: Where to. The folder must exist. If it is a link, what it points to is written.
        data: All that the file is to hold.

    Raises:
        UserError: It cannot be written. The sentence names the path and says why.
    """
    with atomic_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to a part at a time, which takes the place of `path` at the end: see `atomic_write`."""
    check_writable(path)
    target = path.resolve()
    # A name of its own: as long as can be, the name of the target would leave no room for an ending.
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with user_errors(path):
            with partial.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)  # noqa: PTH105 - a function that a test can make fail on every Python
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def user_errors(path: Path) -> Iterator[None]:
    """Make of what the disk refuses a `UserError` that names the path and says why."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None


def check_writable(path: Path) -> None:
    """Refuse what replacing would get around or destroy: a protected file, a folder, a device.

    Raises:
        UserError: It is such a thing, or there is no folder for it.
    """
    with user_errors(path):
        target = path.resolve()
        if not target.parent.is_dir():
            raise UserError(f"{path}: there is no folder {path.parent}; make it first")
        if target.exists() and not target.is_file():
            raise UserError(f"{path}: exists and is not a file; give another name")
        if target.exists() and not os.access(target, os.W_OK):
            raise UserError(f"{path}: the file is write-protected; give another name")


def hash_file(path: Path) -> str:
    """The SHA-256 of what a file holds."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `path` in one step at the end, and vanishes on failure.

    What a process that was killed left behind is removed by the next that writes to the same place.

    Args:
        path: What is there is replaced, so ask first.

    Raises:
        UserError: It cannot be made. The sentence names the path and says why.
    """
    target = path.resolve()
    staging = target.with_name(f".{target.name}.{os.getpid()}.partial")
    with user_errors(path):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _clear_up_after_the_dead(target)
            staging.mkdir()
        except (FileExistsError, NotADirectoryError):
            raise UserError(f"{path}: cannot be written (what should be a folder above it is a file)") from None
    try:
        yield staging
        with user_errors(path):
            _put_in_place(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _put_in_place(staging: Path, target: Path) -> None:
    """Rename a folder over another, which is there again if that fails."""
    old = target.with_name(f"{staging.name.removesuffix('.partial')}.old.partial")
    if target.exists():
        target.rename(old)
    try:
        staging.rename(target)
    except BaseException:  # an interrupt too
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _clear_up_after_the_dead(target: Path) -> None:
    """Remove what killed processes left beside a folder; put the folder back if one died while replacing it."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.(\d+)(\.old)?\.partial")
    for path in sorted(target.parent.iterdir()):
        match = ours.fullmatch(path.name)
        if match is None or _is_running(int(match[1])):
            continue
        if match[2] and not target.exists():
            path.rename(target)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _is_running(process: int) -> bool:
    """Whether a process lives, and is not this one."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is somebody else's
        return True
    return True


def check_makeable(path: Path, key: str) -> None:
    """See that a folder can be made, before hours are spent on what is to go into it.

    Raises:
        UserError: It cannot.
    """
    above = path.absolute().parent
    while kind_of(above) is None and above != above.parent:
        above = above.parent
    try:
        tempfile.TemporaryDirectory(dir=above).cleanup()
    except OSError as error:
        raise UserError(f"{key}={path}: cannot be made there ({error.strerror}); choose another folder") from None


def kind_of(path: Path) -> Literal["folder", "file", "other"] | None:
    """What is at a path; None for nothing, and for what may not be looked at."""
    try:
        return "folder" if path.is_dir() else "file" if path.is_file() else "other" if path.exists() else None
    except OSError:  # a name that is too long, or a folder that may not be opened
        return None


def tell_apart(paths: Sequence[str], key: str, says_nothing: str = "") -> list[str]:
    """Names for paths: the last part in which they differ, or more parts where that would not tell two apart.

    Args:
        paths: The paths.
        key: By which they were given.
        says_nothing: A part that is no name.

    Raises:
        UserError: One is given twice.
    """
    if len({Path(path).expanduser().resolve() for path in paths}) < len(paths):
        raise UserError(f"{key}={','.join(paths)}: names one twice")
    parts = [[part for part in Path(path).expanduser().absolute().parts if part != says_nothing] for path in paths]
    while len(parts) > 1 and min(map(len, parts)) > 1 and len({each[-1] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]  # what all end with is no name either
    number, names = 1, [each[-1] for each in parts]
    while len(set(names)) < len(names) and number < max(map(len, parts)):
        number += 1
        names = ["/".join(each[-number:]) for each in parts]
    return names
