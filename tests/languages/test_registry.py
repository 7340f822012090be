from __future__ import annotations

import json
from pathlib import Path

import pytest
from pieces import REMI
from trios import GROOVE

from musicgen.errors import UserError
from musicgen.languages import Language
from musicgen.languages.registry import FILE, load_tokenizer, save_tokenizer


@pytest.mark.parametrize("language", [REMI, GROOVE], ids=lambda language: language.name)
def test_a_language_is_loaded_by_its_file(language: Language, tmp_path: Path) -> None:
    save_tokenizer(language, tmp_path)
    assert type(load_tokenizer(tmp_path)) is type(language)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "format is 2, not 1"),
        ({"language": "abc"}, "unknown token language 'abc'"),
        ({"language": None}, "language is not a text"),
        ({"tokens": ["PAD"]}, "not those"),
    ],
)
def test_other_languages_are_refused(change: dict[str, object], reason: str, tmp_path: Path) -> None:
    save_tokenizer(REMI, tmp_path)
    record = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**record, **change}))
    with pytest.raises(UserError, match=reason):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "\ud800"])
def test_what_is_no_tokenizer_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(UserError, match=FILE):
        load_tokenizer(tmp_path)


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the file is missing"):
        load_tokenizer(tmp_path)
