"""Atomic writing of files and folders: a reader sees the old content or the new, never a part.

Design note: the new bytes go to a temporary file in the same folder, which replaces the old file once it is on disk.
This needs twice the space for a moment, and a writable folder. A folder is replaced only if everything in it is ours.
This is checked before the work, and again at the moment of the rename: a folder that appears meanwhile stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

from musicgen.errors import UserError

UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.partial")
"""Names of temporary files, which stay if a process is killed."""


def atomic_write(path: Path, data: bytes) -> None:
    """Write a file. An existing file is replaced, and stays as it was if anything fails.

    Args:
        path: The file. Its folder must exist. If it is a link, the target of the link is written.
        data: The whole content.

    Raises:
        UserError: The file cannot be written.
    """
    with atomic_file(path) as file:
        file.write(data)


def atomic_writes(files: Mapping[Path, bytes]) -> None:
    """Write several files. None of them appears before all are on disk; see `atomic_write`."""
    with contextlib.ExitStack() as stack:
        for path, data in files.items():
            file = stack.enter_context(atomic_file(path))
            file.write(data)
            file.flush()  # notices a full disk now


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write in parts. It replaces `path` at the end: see `atomic_write`."""
    check_writable(path)
    target = path.resolve()
    # A short random name: the name of the target may already have the maximal length.
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with user_errors(path):
            with partial.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)  # noqa: PTH105 - tests replace this function
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def user_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` into a `UserError` that names the path and the reason."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None


def check_writable(path: Path) -> None:
    """Check that a path can be replaced: not a write-protected file, a folder or a device.

    Raises:
        UserError: It cannot be replaced, or its folder does not exist.
    """
    with user_errors(path):
        target = path.resolve()
        if not target.parent.is_dir():
            raise UserError(f"{path}: there is no folder {path.parent}; make it first")
        if target.exists() and not target.is_file():
            raise UserError(f"{path}: exists and is not a file; give another name")
        if target.exists() and not os.access(target, os.W_OK):
            raise UserError(f"{path}: the file is write-protected; give another name")


Foreign = Callable[[Path], Iterable[str]]
"""Returns the names in a folder that a command did not make."""


@contextlib.contextmanager
def atomic_folder(path: Path, foreign: Foreign | None = None) -> Iterator[Path]:
    """A temporary folder to write into. It takes its place in one step at the end, and is removed on failure.

    If a process was killed here, the next one that writes to the same path removes what it left.

    Args:
        path: The folder.
        foreign: With it, an existing folder is replaced if it holds nothing foreign. Without it, none is replaced.

    Raises:
        UserError: The folder cannot be written, or there is one that may not be replaced.
    """
    target = path.resolve()
    staging = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with user_errors(path):
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                _remove_leftovers(target)
                staging.mkdir()
            except (FileExistsError, NotADirectoryError):
                raise UserError(f"{path}: cannot be written (what should be a folder above it is a file)") from None
            yield staging
            _place(staging, target, path, foreign)
    except UserError as error:
        raise UserError(str(error).replace(str(staging), str(path))) from None  # the temporary name is ours alone
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _place(staging: Path, target: Path, path: Path, foreign: Foreign | None) -> None:
    """Rename a folder to its place. What was there and is ours is deleted; if anything fails, it is restored."""
    old = target.with_name(f"{staging.name.removesuffix('.partial')}.old.partial")
    if foreign is not None and target.exists():
        target.rename(old)  # from here on nobody finds it by its name, so what is in it stays as it is checked
    try:
        if foreign is not None and old.exists():
            _check_again(old, path, foreign)
        _rename(staging, target, path)
    except BaseException:  # an interrupt too
        if old.exists():
            with contextlib.suppress(OSError):  # there is a new folder by now; the old one keeps its other name
                old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _check_again(old: Path, path: Path, foreign: Foreign) -> None:
    if others := sorted(foreign(old)):
        raise UserError(f"{path}: holds something else by now ({others[0]}), which stays; choose another folder")


def _rename(staging: Path, target: Path, path: Path) -> None:
    """Rename a folder. The system refuses, in one step, to replace anything but an empty folder."""
    try:
        staging.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise UserError(f"{path}: appeared while this command ran, and stays; choose another folder") from None
        raise


def _remove_leftovers(target: Path) -> None:
    """Remove what killed processes left next to a folder. Restore the folder if one died while replacing it."""
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
    """Whether a process exists and is not this one."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def strangers(folder: Path, is_ours: Callable[[Path], bool]) -> list[str]:
    """Names in a folder, except of files that are ours and of files that we did not finish. A link is never ours."""
    return [
        path.name
        for path in sorted(folder.iterdir())
        if path.is_symlink() or not path.is_file() or not (UNFINISHED.fullmatch(path.name) or is_ours(path))
    ]


@contextlib.contextmanager
def only_writer(folder: Path, key: str) -> Iterator[None]:
    """Makes sure that no other process of ours writes to a folder at the same time.

    The system ends the claim with the process, whatever ends that. Where it cannot lock folders, nothing is checked.

    Raises:
        UserError: Another process writes there.
    """
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):  # Windows; a folder that may not be read
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(f"{key}={folder}: another command writes there now; wait, or choose another folder") from None
    except OSError:  # some network drives
        pass
    try:
        yield
    finally:
        os.close(descriptor)


def check_makeable(path: Path, key: str) -> None:
    """Check that a folder can be made, before hours are spent on its content.

    Raises:
        UserError: It cannot be made.
    """
    above = path.absolute().parent
    while kind_of(above) is None and above != above.parent:
        above = above.parent
    probe = above / f".{secrets.token_hex(8)}.partial"
    try:
        probe.mkdir()
    except OSError as error:
        raise UserError(f"{key}={path}: cannot be made there ({error.strerror}); choose another folder") from None
    finally:
        with contextlib.suppress(OSError):
            probe.rmdir()


def check_output(
    out: Path,
    what: str,
    foreign: Foreign,
    *,
    key: str = "out",
    may_replace: bool = False,
    as_one: bool = False,
    advice: str = "choose another folder, or add overwrite=true",
    inputs: Iterable[Path | None] = (),
) -> list[Path]:
    """Check that a folder may be written to, before time is spent on its content.

    Args:
        out: The folder.
        what: What a command makes there: `an evaluation`.
        foreign: Returns names in a folder that such a command did not make.
        key: The option that names the folder.
        may_replace: Whether what an earlier call made there may be replaced.
        as_one: Whether the folder is replaced in one step, which needs a writable parent folder.
        advice: What to do if the folder already holds this.
        inputs: Files that will be read and must not be replaced.

    Returns:
        What is in the folder.

    Raises:
        UserError: It may not be written to.
    """
    kind = kind_of(out)
    if kind in ("file", "other"):
        raise UserError(f"{key}={out}: exists and is not a folder; choose another name")
    if kind is None or as_one:
        check_makeable(out, key)
    if kind is None:
        return []
    try:
        there = sorted(out.iterdir())
    except OSError as error:
        raise UserError(f"{key}={out}: cannot be read ({error.strerror}); choose another folder") from None
    if there and (others := sorted(foreign(out))):
        raise UserError(f"{key}={out}: holds other things than {what} ({others[0]}); choose another folder")
    if there and not may_replace:
        raise UserError(f"{key}={out}: already holds {what}; {advice}")
    for file in inputs:
        if file is not None and there and out.resolve() in file.resolve().parents:
            raise UserError(f"{file}: is in the folder that would be overwritten; choose another {key}=")
    return there


def kind_of(path: Path) -> Literal["folder", "file", "other"] | None:
    """What is at a path. None means that there is nothing, or that we may not look."""
    try:
        return "folder" if path.is_dir() else "file" if path.is_file() else "other" if path.exists() else None
    except OSError:  # the name is too long, or the folder may not be opened
        return None


def check_folder(key: str, path: Path, advice: str) -> None:
    """Check that a path that the user gave is a folder.

    Raises:
        UserError: It is not; the message says whether there is something else.
    """
    if (kind := kind_of(path)) != "folder":
        raise UserError(f"{key}={path}: {'not a folder' if kind else 'there is no such folder'}; {advice}")


def tell_apart(paths: Sequence[str], key: str, says_nothing: str = "") -> list[str]:
    """Short distinct names for paths: the last part in which they differ, or more parts where two would be equal.

    Args:
        paths: The paths.
        key: The key of the command that gave them.
        says_nothing: A part of a path that is never used as a name.

    Raises:
        UserError: A path is given twice.
    """
    if len({Path(path).expanduser().resolve() for path in paths}) < len(paths):
        raise UserError(f"{key}={','.join(paths)}: lists the same entry twice")
    parts = [[part for part in Path(path).expanduser().absolute().parts if part != says_nothing] for path in paths]
    while len(parts) > 1 and min(map(len, parts)) > 1 and len({each[-1] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]  # a part that all share does not distinguish them
    number, names = 1, [each[-1] for each in parts]
    while len(set(names)) < len(names) and number < max(map(len, parts)):
        number += 1
        names = ["/".join(each[-number:]) for each in parts]
    return names
