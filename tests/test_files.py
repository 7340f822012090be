"""A file, or a folder, is written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from musicgen.errors import UserError
from musicgen.files import atomic_folder, atomic_write, check_makeable, only_writer, tell_apart


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


def nothing_foreign(folder: Path) -> list[str]:
    """The folders in these tests hold nothing but `old` and `new`, which are ours."""
    return [path.name for path in folder.iterdir() if path.name not in ("old", "new")]


def tree(folder: Path) -> dict[str, bytes]:
    return {item.relative_to(folder).as_posix(): item.read_bytes() for item in folder.rglob("*") if item.is_file()}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A folder that is there already, beside another that is nobody's business."""
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "old").write_bytes(b"old")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_bytes(b"kept")
    return tmp_path / "corpus"


def test_a_folder_appears_whole_at_the_end_in_the_place_of_the_old(target: Path) -> None:
    with atomic_folder(target, nothing_foreign) as staging:
        (staging / "new").write_bytes(b"new")
        (staging / "deep").mkdir()
        (staging / "deep" / "er").write_bytes(b"too")
        assert tree(target) == {"old": b"old"}
        assert staging.parent == target.parent
    assert tree(target.parent) == {"corpus/new": b"new", "corpus/deep/er": b"too", "other/file": b"kept"}
    assert sorted(item.name for item in target.parent.iterdir()) == ["corpus", "other"]


def test_a_folder_in_folders_that_are_not_there_is_made(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "a" / "b" / "c") as staging:
        (staging / "new").write_bytes(b"new")
    assert tree(tmp_path) == {"a/b/c/new": b"new"}


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), UserError("bad input"), ValueError("a bug"), OSError(28, "full")]
)
def test_a_failure_while_a_folder_is_written_passes_and_leaves_the_old_one_and_nothing_else(
    error: BaseException, target: Path
) -> None:
    expected = UserError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected), atomic_folder(target, nothing_foreign) as staging:
        write_and_fail(staging, error)
    assert tree(target.parent) == {"corpus/old": b"old", "other/file": b"kept"}
    assert sorted(item.name for item in target.parent.iterdir()) == ["corpus", "other"]


def write_and_fail(staging: Path, error: BaseException) -> NoReturn:
    (staging / "new").write_bytes(b"new")
    raise error


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("error", [OSError(16, "Device or resource busy"), KeyboardInterrupt()])
def test_a_failure_to_put_a_folder_in_its_place_leaves_the_old_one_and_nothing_else(
    error: BaseException, number: int, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, calls = Path.rename, list[Path]()

    def failing(self: Path, to: Path) -> Path:
        calls.append(self)
        if len(calls) == number:
            raise error
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", failing)
    expected = UserError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught, atomic_folder(target, nothing_foreign) as staging:
        (staging / "new").write_bytes(b"new")
    if expected is UserError:
        assert str(caught.value) == f"{target}: cannot be written (Device or resource busy)"
    assert tree(target.parent) == {"corpus/old": b"old", "other/file": b"kept"}
    assert sorted(item.name for item in target.parent.iterdir()) == ["corpus", "other"]


def test_what_a_dead_process_left_is_removed_and_what_others_write_is_not(target: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for name in (f".corpus.{dead.pid}.partial", f".corpus.{dead.pid}.old.partial", ".corpus.1.partial"):
        (target.parent / name).mkdir()
        (target.parent / name / "part").write_bytes(b"part")
    for name in (f".other.{dead.pid}.partial", ".corpus.partial", "corpus.2.partial", ".corpusx.3.partial"):
        (target.parent / name).mkdir()
    with atomic_folder(target, nothing_foreign) as staging:
        (staging / "new").write_bytes(b"new")
    assert sorted(item.name for item in target.parent.iterdir()) == [
        ".corpus.1.partial",  # the first process of all is always there
        ".corpus.partial",
        ".corpusx.3.partial",
        f".other.{dead.pid}.partial",
        "corpus",
        "corpus.2.partial",
        "other",
    ]


@pytest.mark.parametrize("foreign", [None, nothing_foreign], ids=["new", "overwritten"])
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_appears_while_a_folder_is_written_stays(
    kind: str, foreign: Callable[[Path], list[str]] | None, tmp_path: Path
) -> None:
    target = tmp_path / "corpus"
    with pytest.raises(UserError, match=f"^{target}: (appeared while|holds something else|cannot be written)"):
        write_while(target, kind, foreign)
    assert tree(tmp_path) == ({"corpus": b"mine"} if kind == "file" else {"corpus/thesis": b"mine"})
    assert [item.name for item in tmp_path.iterdir()] == ["corpus"]


def write_while(target: Path, kind: str, foreign: Callable[[Path], list[str]] | None) -> None:
    with atomic_folder(target, foreign) as staging:
        (staging / "new").write_bytes(b"new")
        if kind == "folder":
            target.mkdir()
        (target / "thesis" if kind == "folder" else target).write_bytes(b"mine")


def test_what_is_added_to_a_folder_while_its_successor_is_written_stays(target: Path) -> None:
    with pytest.raises(UserError, match="holds something else by now \\(thesis\\), which stays"):
        write_while_added(target)
    assert tree(target.parent) == {"corpus/old": b"old", "corpus/thesis": b"mine", "other/file": b"kept"}


def write_while_added(target: Path) -> None:
    with atomic_folder(target, nothing_foreign) as staging:
        (staging / "new").write_bytes(b"new")
        (target / "thesis").write_bytes(b"mine")


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    with atomic_folder(tmp_path / "corpus") as staging:
        (staging / "new").write_bytes(b"new")
    assert tree(tmp_path) == {"corpus/new": b"new"}


def test_messages_have_no_temporary_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", fail_with(OSError(28, "No space left on device")))
    path = tmp_path / "corpus"
    with pytest.raises(UserError) as caught, atomic_folder(path) as staging:
        atomic_write(staging / "new", b"new")
    assert str(caught.value) == f"{path / 'new'}: cannot be written (No space left on device)"
    assert not list(tmp_path.iterdir())


def test_two_commands_do_not_write_to_one_folder_at_a_time(tmp_path: Path) -> None:
    sentence = f"^out={tmp_path}: another command writes there now"
    with only_writer(tmp_path, "out"), pytest.raises(UserError, match=sentence), only_writer(tmp_path, "out"):
        pytest.fail("there are two")
    with only_writer(tmp_path, "out"):
        pass


@pytest.mark.parametrize("name", ["[a-z]*", "a.1234", "ü b", "*"])
def test_the_name_of_a_folder_is_no_pattern(name: str, tmp_path: Path) -> None:
    others = [tmp_path / f".{other}.99999999.partial" for other in ("b", "abc", "a")]
    for other in others:
        other.mkdir()
    with atomic_folder(tmp_path / name) as staging:
        (staging / "new").write_bytes(b"new")
    assert tree(tmp_path) == {f"{name}/new": b"new"}
    assert all(other.exists() for other in others)


def test_a_folder_where_none_can_be_made_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file" / "corpus", Path("/proc/corpus"), tmp_path / ("x" * 250)):
        with pytest.raises(UserError, match="cannot be written"), atomic_folder(path):
            pytest.fail("there is nowhere to write to")
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_a_link_to_a_folder_stays_a_link(target: Path) -> None:
    link = target.with_name("link")
    link.symlink_to(target)
    with atomic_folder(link, nothing_foreign) as staging:
        (staging / "new").write_bytes(b"new")
    assert link.is_symlink()
    assert tree(target) == {"new": b"new"}


def test_that_a_folder_cannot_be_made_is_known_before_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_makeable(tmp_path / "new" / "folder", "out")
    for place in (tmp_path / "file" / "folder", Path("/proc/folder")):
        with pytest.raises(UserError, match=f"^out={place}: cannot be made there .*; choose another folder$"):
            check_makeable(place, "out")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/ape", "runs/sine"], ["ape", "sine"]),
        (["one"], ["one"]),
        (["made/ape/continuations", "made/sine/continuations"], ["ape", "sine"]),
        (["a/ape/x", "b/ape/y", "b/ape/x"], ["a/ape/x", "b/ape/y", "b/ape/x"]),
        (["a/sine", "b/ape", "c/ape"], ["a/sine", "b/ape", "c/ape"]),
        (["runs/ape/bundle", "runs/sine"], ["ape", "sine"]),
    ],
)
def test_paths_are_called_by_what_tells_them_apart(paths: list[str], names: list[str]) -> None:
    assert tell_apart(paths, "model", "bundle") == names


def test_a_path_is_not_told_apart_from_itself() -> None:
    with pytest.raises(UserError, match="lists the same entry twice"):
        tell_apart(["runs/ape", "runs/../runs/ape"], "model")
