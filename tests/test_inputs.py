"""Files and documents from outside: regular files of a limited size, and JSON of a known shape."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from musicgen.errors import UserError
from musicgen.inputs import conform, hash_file, is_document, parse_json, read_document, read_regular


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder", "link to a pipe", "nothing", "NUL"])
def test_only_regular_files_are_opened_and_nothing_waits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    if kind in ("pipe", "link to a pipe"):
        os.mkfifo(path)
    if kind == "link to a pipe":
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            monkeypatch.chdir(tmp_path)  # the name of a socket has at most 108 characters
            server.bind("x.json")
    if kind == "folder":
        path.mkdir()
    if kind in ("device", "NUL"):
        path = Path("/dev/zero" if kind == "device" else "a\0b")
    began = time.monotonic()
    for read in (read_regular, hash_file):
        with pytest.raises(OSError, match=r"\[Errno"):
            read(path)
    with pytest.raises(UserError):
        read_document(path, dict)
    assert not is_document(path, dict)
    assert time.monotonic() - began < 1


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for read in (read_regular, lambda path: hash_file(path, 1 << 20)):
        with pytest.raises(OSError, match="MB is too large"):
            read(path)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        '{"a":' * 50_000,
        "[" * 33 + "]" * 33,
        "1" + "0" * 400,
        "9" * 20,
        str(1 << 63),
        "{",
        "",
        "\ud800",
    ],
)
def test_json_that_would_harm_whoever_computes_with_it_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested|64 bits|Expect|utf-8|line 1"):
        parse_json(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("value", [[1, -(1 << 63), (1 << 63) - 1], {"a": [None, "ü", 1.5, True]}, "x", 3])
def test_other_json_is_what_it_says(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 0


def test_nesting_is_taken_up_to_the_limit() -> None:
    assert parse_json(json.dumps(nested(31))) == nested(31)


@pytest.mark.parametrize(
    ("value", "schema", "fault"),
    [
        (1, int, ""),
        (True, int, "it is not a whole number"),
        (1.5, int, "it is not a whole number"),
        (1, float, ""),
        (float("nan"), float, "it is not a finite number"),
        (float("inf"), float, "it is not a finite number"),
        (10**400, float, "it is not a finite number"),
        ("1", float, "it is not a finite number"),
        (None, (int, None), ""),
        ("x", (int, None), "it is 'x'"),
        ([1, "x"], [int], "[1] is not a whole number"),
        ({}, [int], "it is not a list"),
        ({"a": {"b": []}}, {"a": {"b": [str]}}, ""),
        ({"a": {"b": [3]}}, {"a": {"b": [str]}}, "a.b[0] is not a text"),
        ({"a": {}}, {"a": {"b": str}}, "a.b is missing"),
        ({"a": {}}, {"a": {"b?": str}}, ""),
        ([], {"a": str}, "it is not an object"),
        ({"format": True}, {"format": 1}, "format is True, not 1"),
        ({"format": 1, "more": 2}, {"format": 1}, ""),
    ],
)
def test_a_schema_says_what_fits_and_names_the_key_that_does_not(value: Any, schema: Any, fault: str) -> None:
    if not fault:
        conform(value, schema)
        return
    with pytest.raises(ValueError, match=f"^{re.escape(fault)}$"):
        conform(value, schema)


def test_a_document_that_cannot_be_used_gives_one_sentence_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(UserError, match=f"^{path}: the file is missing; get it again$"):
        read_document(path, dict, "get it again")
    path.write_text("[1")
    with pytest.raises(UserError, match=f"^{path}: not JSON that can be read"):
        read_document(path, dict)
    path.write_text('{"format": 2}')
    with pytest.raises(UserError, match=f"^{path}: not as musicgen writes it \\(format is 2, not 1\\)$"):
        read_document(path, {"format": 1})
    assert read_document(path, {"format": 2}) == {"format": 2}
