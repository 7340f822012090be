"""A file is written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from musicgen.errors import UserError
from musicgen.files import atomic_write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "piece.mid"
    path.write_bytes(b"old")
    return path


def fail_with(error: BaseException) -> Any:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


def test_a_new_file_is_made_and_an_old_one_replaced(path: Path) -> None:
    atomic_write(path, b"new")
    atomic_write(path.with_name("other.mid"), b"")
    assert {item.name: item.read_bytes() for item in path.parent.iterdir()} == {"piece.mid": b"new", "other.mid": b""}


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("old", [True, False], ids=["with an old file", "without"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    step: str, old: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not old:
        path.unlink()
    monkeypatch.setattr(os, step, fail_with(OSError(28, "No space left on device")))
    with pytest.raises(UserError, match=f"^{path}: cannot be written \\(No space left on device\\)$"):
        atomic_write(path, b"new")
    assert [item.read_bytes() for item in path.parent.iterdir()] == [b"old"] * old


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupt_passes_and_leaves_the_old_file_and_nothing_else(
    step: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, step, fail_with(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        atomic_write(path, b"new")
    assert [item.read_bytes() for item in path.parent.iterdir()] == [b"old"]


def test_the_bytes_are_on_the_disk_before_they_replace_the_old(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(file: int) -> None:
        steps.append("fsync")
        assert path.read_bytes() == b"old"
        fsync(file)

    def watched_replace(source: Path, target: Path) -> None:
        steps.append("replace")
        assert source.read_bytes() == b"new"
        assert source.parent == target.parent
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    atomic_write(path, b"new")
    assert steps == ["fsync", "replace"]


def test_a_folder_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "piece.mid"
    with pytest.raises(UserError, match=f"^{path}: there is no folder {path.parent}; make it first$"):
        atomic_write(path, b"new")
    assert not list(tmp_path.iterdir())


def test_what_is_not_a_file_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(tmp_path / "pipe")
    for path in (folder, tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(UserError, match=f"^{path}: exists and is not a file"):
            atomic_write(path, b"new")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["folder", "pipe"]
    assert not list(folder.iterdir())


def test_a_write_protected_file_is_not_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write what is protected
    with pytest.raises(UserError, match=f"^{path}: the file is write-protected"):
        atomic_write(path, b"new")
    assert [item.read_bytes() for item in path.parent.iterdir()] == [b"old"]


def test_a_folder_that_cannot_be_written_to_is_a_user_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", fail_with(PermissionError(13, "Permission denied")))  # root is denied nothing
    with pytest.raises(UserError, match=f"^{path}: cannot be written \\(Permission denied\\)$"):
        atomic_write(path, b"new")


def test_the_longest_name_can_be_written_and_a_longer_one_is_a_user_error(tmp_path: Path) -> None:
    atomic_write(tmp_path / ("a" * 255), b"new")
    with pytest.raises(UserError, match="cannot be written"):
        atomic_write(tmp_path / ("a" * 256), b"new")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_stays_a_link(path: Path) -> None:
    link = path.with_name("link.mid")
    link.symlink_to(path)
    atomic_write(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"


def test_a_file_has_the_permissions_that_others_have(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    atomic_write(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode
