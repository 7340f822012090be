"""Fetching a published archive: as much as is missing, checked, and opened with care.

The hard choice: what has come so far lies beside the archive under another name, and goes on from where it was cut.
The archive's own name comes last, once size and hashes are right; so what has the name is the archive.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from musicgen.errors import UserError
from musicgen.files import atomic_folder, user_errors

BLOCK = 1 << 20
SECONDS = 60.0
"""Without a byte, after which a connection is given up."""
PARTIAL = ".partial"


class Archive(NamedTuple):
    """A file that somebody published.

    Attributes:
        url: Where it is.
        name: What it is called.
        size: In bytes.
        sha256, md5: What its hashes begin with.
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
"""The Groove2Groove MIDI data set, of which grooves are prepared (doi 10.5281/zenodo.3958000)."""


def fetch(archive: Archive, folder: Path) -> Path:
    """The archive's files, unpacked; what is there already is neither fetched nor unpacked again.

    Args:
        archive: What to fetch.
        folder: Where it goes, and what is unpacked beside it. It is made if it is not there.

    Returns:
        The folder of what was unpacked.

    Raises:
        UserError: It cannot be fetched, or is not what it should be.
    """
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    if unpacked.is_dir():
        return unpacked
    with user_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / archive.name
    if not path.is_file():
        download(archive, path)
    unpack(path, archive.wanted, unpacked)
    return unpacked


def download(archive: Archive, path: Path) -> None:
    """Fetch an archive, or what is missing of it.

    Raises:
        UserError: The connection failed (the next call goes on), or what came is something else.
    """
    partial = path.with_name(path.name + PARTIAL)
    with user_errors(partial):
        have = partial.stat().st_size if partial.is_file() else 0
        if have < archive.size:
            _receive(archive, partial, have)
        have = partial.stat().st_size
    if have < archive.size:
        raise UserError(
            f"{partial}: {have:,} of {archive.size:,} bytes have come; the same command goes on with the rest"
        )
    digests = [hashlib.sha256(), hashlib.md5(usedforsecurity=False)]
    with user_errors(partial), partial.open("rb") as file:
        while block := file.read(BLOCK):
            for digest in digests:
                digest.update(block)
    expected = (archive.sha256, archive.md5)
    found = [digest.hexdigest() for digest in digests]
    if have != archive.size or not all(map(str.startswith, found, expected)):
        partial.unlink()
        raise UserError(f"{archive.url}: not the archive that was published ({have:,} bytes, SHA-256 {found[0]})")
    with user_errors(path):
        partial.replace(path)


def _receive(archive: Archive, partial: Path, have: int) -> None:
    """Add to a file what is missing of an archive; begin again if the server knows no parts.

    Raises:
        UserError: There was no answer. A connection that breaks off later is no error here.
    """
    request = urllib.request.Request(archive.url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            goes_on = have > 0 and answer.status == 206
            with partial.open("ab" if goes_on else "wb") as file:
                shutil.copyfileobj(answer, file, BLOCK)
    except urllib.error.URLError as error:
        raise UserError(f"{archive.url}: no answer ({error.reason})") from None
    except (ConnectionError, TimeoutError):
        pass  # the caller sees that bytes are missing


def unpack(path: Path, wanted: str, folder: Path) -> None:
    """Unpack one folder of a tar archive, whole or not at all, and nothing to anywhere else.

    Raises:
        UserError: It is not an archive, has no such folder, or has names in it that lead out of it.
    """
    with atomic_folder(folder) as staging:
        try:
            with tarfile.open(path) as archive:
                chosen = [item for item in archive if f"/{wanted}/" in f"/{item.name}" and not item.isdir()]
                if not chosen:
                    raise UserError(f"{path}: no folder {wanted} in it")
                archive.extractall(staging, chosen, filter="data")
        except (tarfile.TarError, EOFError) as error:
            raise UserError(f"{path}: not an archive that can be unpacked ({error})") from None
