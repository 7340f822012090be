"""Downloading a published archive: resuming, checking its size and hashes, unpacking it safely.

The download goes to a `.partial` file, from which a later call resumes. The file gets its own name once its size and
hashes are right. We do not use `pooch`, because it deletes an interrupted download and starts again from zero.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import re
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import NamedTuple

from musicgen.errors import UserError
from musicgen.files import atomic_folder, user_errors

BLOCK = 1 << 20
SECONDS = 60.0
"""A connection that sends nothing for this long is closed."""
PARTIAL = ".partial"


class Archive(NamedTuple):
    """A published tar archive.

    Attributes:
        url: Its address.
        name: Its file name.
        size: Its size in bytes.
        sha256, md5: The first digits of its hashes.
        wanted: The folder in it that is unpacked.
    """

    url: str
    name: str
    size: int
    sha256: str
    md5: str
    wanted: str


GROOVE2GROOVE = Archive(
    "https://zenodo.org/records/3958000/files/groove2groove-data-v1.0.0.tar.gz?download=1",
    "groove2groove-data-v1.0.0.tar.gz",
    236_114_569,
    "b4ef60b8",
    "c407de7b",
    "midi/train/fixed",
)
"""The Groove2Groove MIDI data set (doi 10.5281/zenodo.3958000)."""


def fetch(archive: Archive, folder: Path) -> Path:
    """Download and unpack an archive. What is already there is not fetched or unpacked again.

    Args:
        archive: The archive.
        folder: The folder for the archive and its unpacked files. It is made if it does not exist.

    Returns:
        The folder with the unpacked files.

    Raises:
        UserError: The archive cannot be downloaded, or is not the published one.
    """
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    if unpacked.is_dir():
        return unpacked
    with user_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / archive.name
    if not path.is_file():
        download(archive, path)
    elif (fault := _fault(archive, path)) is not None:
        raise UserError(f"{path}: {fault}; move it away and run the same command again to download it")
    unpack(path, archive.wanted, unpacked)
    return unpacked


def download(archive: Archive, path: Path) -> None:
    """Download an archive, or the rest of it.

    Raises:
        UserError: The connection failed (the next call resumes), or the file is not the archive.
    """
    partial = path.with_name(path.name + PARTIAL)
    with user_errors(partial):
        have = partial.stat().st_size if partial.is_file() else 0
        if have < archive.size:
            _receive(archive, partial, have)
        have = partial.stat().st_size
    if have < archive.size:
        raise UserError(
            f"{partial}: {have:,} of {archive.size:,} bytes were downloaded; run the same command again to resume"
        )
    fault = _fault(archive, partial)
    with user_errors(path):
        if fault is None:
            partial.replace(path)
        else:
            partial.unlink()
            raise UserError(f"{archive.url}: {fault}")


def _fault(archive: Archive, path: Path) -> str | None:
    """Why a file is not the archive. None means that it is."""
    digests = [hashlib.sha256(), hashlib.md5(usedforsecurity=False)]
    size = 0
    with user_errors(path), path.open("rb") as file:
        while block := file.read(BLOCK):
            size += len(block)
            for digest in digests:
                digest.update(block)
    found = [digest.hexdigest() for digest in digests]
    if size == archive.size and all(map(str.startswith, found, (archive.sha256, archive.md5))):
        return None
    return f"not the archive that was published ({size:,} bytes, SHA-256 {found[0]})"


def _receive(archive: Archive, partial: Path, have: int) -> None:
    """Append the missing bytes to a file. Start again if the server does not support ranges and sends everything.

    A connection that breaks later is no error here: the caller sees that bytes are missing.

    Raises:
        UserError: There was no answer, or one that does not continue the file. The file is not changed.
    """
    request = urllib.request.Request(archive.url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            resumes = have > 0 and answer.status == 206
            if have and not _fits(answer, archive, have):
                raise UserError(
                    f"{archive.url}: the answer is not the rest of the archive; try again later, "
                    f"or remove {partial} to start again"
                )
            with partial.open("ab" if resumes else "wb") as file:
                shutil.copyfileobj(answer, file, BLOCK)
    except urllib.error.URLError as error:
        raise UserError(f"{archive.url}: no answer ({error.reason})") from None
    except (ConnectionError, TimeoutError, http.client.IncompleteRead):
        if not partial.is_file():
            raise UserError(f"{archive.url}: no answer (the connection broke off)") from None
    except http.client.HTTPException as error:
        raise UserError(f"{archive.url}: no answer that can be understood ({type(error).__name__})") from None


def _fits(answer: http.client.HTTPResponse, archive: Archive, have: int) -> bool:
    """Whether an answer continues the bytes that are there, or is the whole archive."""
    if answer.status != 206:
        return answer.headers.get("Content-Length") == str(archive.size)
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", "").strip())
    return span is not None and int(span[1]) == have and span[2] in ("*", str(archive.size))


def unpack(path: Path, wanted: str, folder: Path) -> None:
    """Unpack one folder of a tar archive, completely or not at all, and never outside the target folder.

    Raises:
        UserError: It is not an archive, has no such folder, has names that lead out of the folder, or the disk is full.
    """
    with atomic_folder(folder) as staging:
        try:
            with tarfile.open(path) as archive:
                chosen = [item for item in archive if f"/{wanted}/" in f"/{item.name}" and not item.isdir()]
                if not chosen:
                    raise UserError(f"{path}: no folder {wanted} in it")
                archive.extractall(staging, chosen, filter="data")
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(f"{path}: not an archive that can be unpacked ({error})") from None
        except OSError as error:
            raise UserError(f"{folder}: cannot be unpacked here ({error.strerror or error})") from None
