"""An archive comes whole, piece by piece if it must, and is what was published or nothing."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import tarfile
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from musicgen.data.download import GROOVE2GROOVE, Archive, fetch
from musicgen.errors import UserError

SONGS = {f"data/midi/train/fixed/song{n}.X_a.mid": np.random.default_rng(n).bytes(5000) for n in range(4)}


def packed(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            item = tarfile.TarInfo(name)
            item.size = len(data)
            archive.addfile(item, io.BytesIO(data))
        for name, target in (links or {}).items():
            item = tarfile.TarInfo(name)
            item.type, item.linkname = tarfile.SYMTYPE, target
            archive.addfile(item)
    return content.getvalue()


class Server(ThreadingHTTPServer):
    """Serves one file; may break off after some bytes, and may know no parts."""

    content = b""
    breaks_after: int | None = None
    knows_parts = True
    raw: bytes | None = None
    """What is sent in the place of all else."""
    asked: list[str | None]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.server.raw is not None:
            self.wfile.write(self.server.raw)
            return
        first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.knows_parts else 0
        rest = self.server.content[first:]
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(rest)))
        if first:
            size = len(self.server.content)
            self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
        self.end_headers()
        self.wfile.write(rest[: self.server.breaks_after])

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.content = packed({**SONGS, "data/README": b"text"})
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def published(server: Server, **changes: str | int) -> Archive:
    content = server.content
    archive = Archive(
        f"http://127.0.0.1:{server.server_port}/x.tar.gz",
        "x.tar.gz",
        len(content),
        hashlib.sha256(content).hexdigest()[:8],
        hashlib.md5(content, usedforsecurity=False).hexdigest()[:8],
        "midi/train/fixed",
    )
    return archive._replace(**changes)  # type: ignore[arg-type]


def unpacked(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_archive_is_fetched_and_what_is_wanted_of_it_unpacked_once(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        folder = fetch(published(server), tmp_path / "new" / "folder")
        assert unpacked(folder) == SONGS
    assert server.asked == [None]
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["x", "x.tar.gz"]


@pytest.mark.parametrize("knows_parts", [True, False])
def test_a_fetch_that_was_cut_goes_on(server: Server, tmp_path: Path, knows_parts: bool) -> None:
    server.breaks_after, server.knows_parts = 7000, knows_parts
    with pytest.raises(UserError, match=r"7,000 of .* bytes were downloaded; run the same command again to resume"):
        fetch(published(server), tmp_path)
    assert not (tmp_path / "x.tar.gz").exists()
    server.breaks_after = None
    assert unpacked(fetch(published(server), tmp_path)) == SONGS
    assert server.asked == [None, "bytes=7000-"]
    assert (tmp_path / "x.tar.gz").read_bytes() == server.content


@pytest.mark.parametrize("changes", [{"sha256": "00000000"}, {"md5": "00000000"}, {"size": 1000}])
def test_another_file_than_was_published_is_thrown_away(
    server: Server, tmp_path: Path, changes: dict[str, str | int]
) -> None:
    with pytest.raises(UserError, match="not the archive that was published"):
        fetch(published(server, **changes), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlogin",
        b"HTTP/1.1 200 OK\r\n\r\nlogin",
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/5\r\nContent-Length: 5\r\n\r\nlogin",
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 7000-7004/7005\r\nContent-Length: 5\r\n\r\nlogin",
        b"HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\nlogin",
        b"what?\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"",
    ],
)
def test_an_answer_that_does_not_go_on_leaves_what_has_come(server: Server, tmp_path: Path, answer: bytes) -> None:
    partial = tmp_path / "x.tar.gz.partial"
    partial.write_bytes(server.content[:7000])
    server.raw = answer
    with pytest.raises(UserError, match=r"x\.tar\.gz"):
        fetch(published(server), tmp_path)
    assert partial.read_bytes() == server.content[:7000]
    server.raw = None
    assert unpacked(fetch(published(server), tmp_path)) == SONGS


@pytest.mark.parametrize(
    "answer", [b"what?\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab"]
)
def test_an_answer_that_is_none_is_one_sentence(server: Server, tmp_path: Path, answer: bytes) -> None:
    server.raw = answer
    with pytest.raises(UserError, match=r"x\.tar\.gz"):
        fetch(published(server), tmp_path)
    assert not (tmp_path / "x.tar.gz").exists()


def test_an_archive_that_is_there_is_checked_before_it_is_used(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(packed({"data/midi/train/fixed/other.mid": b"other"}))
    with pytest.raises(UserError, match=r"x\.tar\.gz: not the archive that was published .*; move it away"):
        fetch(published(server), tmp_path)
    (tmp_path / "x.tar.gz").write_bytes(server.content)
    assert unpacked(fetch(published(server), tmp_path)) == SONGS
    assert server.asked == []


def test_a_damaged_stream_and_a_full_disk_are_one_sentence(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = server.content
    packer = zlib.compressobj(wbits=31)
    sound = packer.compress(gzip.decompress(content)[:9000]) + packer.flush(zlib.Z_FULL_FLUSH)
    server.content = sound + b"\xff" * 5000
    with pytest.raises(UserError, match="not an archive that can be unpacked"):
        fetch(published(server), tmp_path / "damaged")
    server.content = content

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extractall", full)
    with pytest.raises(UserError, match=r"cannot be unpacked here \(No space left"):
        fetch(published(server), tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["x.tar.gz"]


def test_no_answer_is_one_sentence(server: Server, tmp_path: Path) -> None:
    archive = published(server, url="http://127.0.0.1:1/x.tar.gz")
    with pytest.raises(UserError, match="no answer"):
        fetch(archive, tmp_path)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("../../midi/train/fixed/evil.mid", None),
        ("data/midi/train/fixed/../../../../../../evil.mid", None),
        ("data/midi/train/fixed/link", "/etc"),
        ("data/midi/train/fixed/link", "../../../../../outside"),
    ],
)
def test_names_that_lead_out_of_the_archive_are_refused(
    server: Server, tmp_path: Path, name: str, target: str | None
) -> None:
    server.content = packed({**SONGS, name: b"evil"}) if target is None else packed(SONGS, {name: target})
    with pytest.raises(UserError, match="not an archive that can be unpacked"):
        fetch(published(server), tmp_path / "a" / "b")
    assert not list(tmp_path.rglob("*evil*"))
    assert not (tmp_path / "a" / "b" / "x").exists()


@pytest.mark.parametrize(
    "content",
    [b"no archive at all", packed({"data/README": b""}), packed(SONGS)[:9000]],
    ids=["no archive", "without the folder", "cut short"],
)
def test_what_cannot_be_unpacked_is_one_sentence(server: Server, tmp_path: Path, content: bytes) -> None:
    server.content = content
    with pytest.raises(UserError, match=r"x\.tar\.gz: "):
        fetch(published(server), tmp_path)
    assert not (tmp_path / "x").exists()


def test_the_data_set_of_the_paper_is_the_one_that_is_meant() -> None:
    assert "zenodo.org/records/3958000/" in GROOVE2GROOVE.url
    assert GROOVE2GROOVE.size == 236_114_569
