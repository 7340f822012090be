"""The token languages by name, and `tokenizer.json`, which names the language of a corpus or a model.

`tokenizer.json` lists every token, and loading compares the list with the program's own. A model whose ids have
other meanings is refused; otherwise it would play wrong notes.
"""

from __future__ import annotations

import json
from pathlib import Path

from musicgen.errors import UserError
from musicgen.files import atomic_write
from musicgen.inputs import read_document
from musicgen.languages.groove.extended import GrooveExtended
from musicgen.languages.groove.language import Groove
from musicgen.languages.language import Language
from musicgen.languages.remi.extended import ExtendedRemi
from musicgen.languages.remi.language import Remi

FORMAT = 1
FILE = "tokenizer.json"
LANGUAGES: dict[str, Language] = {
    language.name: language for language in (Groove(), GrooveExtended(), ExtendedRemi(), Remi())
}
"""Token languages by name. Those that recognise their own folders come before those that take any folder."""

USUAL = ExtendedRemi.name
"""The language of music that nobody has named a language for."""


def tokenizer_json(language: Language) -> bytes:
    """The contents of `tokenizer.json` for a language."""
    record = {"format": FORMAT, "language": language.name, "tokens": language.vocabulary.names}
    return (json.dumps(record, indent=1) + "\n").encode()


def save_tokenizer(language: Language, folder: Path) -> None:
    """Write `tokenizer.json`."""
    atomic_write(folder / FILE, tokenizer_json(language))


def load_tokenizer(folder: Path) -> Language:
    """The language that a `tokenizer.json` names.

    Raises:
        UserError: There is no such file, or no such language in this version of the program.
    """
    path = folder / FILE
    record = read_document(path, {"format": FORMAT, "language": str, "tokens": [str]})
    language = LANGUAGES.get(record["language"])
    if language is None:
        raise UserError(f"{path}: unknown token language {record['language']!r} (known: {', '.join(LANGUAGES)})")
    if record["tokens"] != list(language.vocabulary.names):
        raise UserError(f"{path}: its tokens are not those that this version of musicgen calls {language.name!r}")
    return language
