"""`tokenizer.json`: which token language a corpus or a model speaks.

The hard choice: the file lists every token, and loading compares the list with the program's own. A model whose ids
mean something else than ours do is refused, where it would otherwise play wrong notes.
"""

from __future__ import annotations

import json
from pathlib import Path

from musicgen.errors import UserError
from musicgen.files import atomic_write
from musicgen.tokens.groove import Groove
from musicgen.tokens.language import Language
from musicgen.tokens.remi import Remi

FORMAT = 1
FILE = "tokenizer.json"
LANGUAGES: dict[str, type[Language]] = {Remi.name: Remi, Groove.name: Groove}
"""Token languages by name."""


def tokenizer_json(language: Language) -> bytes:
    """What `tokenizer.json` holds for a language."""
    record = {"format": FORMAT, "language": language.name, "tokens": language.vocabulary.names}
    return (json.dumps(record, indent=1) + "\n").encode()


def save_tokenizer(language: Language, folder: Path) -> None:
    """Write `tokenizer.json`."""
    atomic_write(folder / FILE, tokenizer_json(language))


def load_tokenizer(folder: Path) -> Language:
    """The language that a `tokenizer.json` names.

    Raises:
        UserError: There is none, or it is not a language of this version of the program.
    """
    path = folder / FILE
    try:
        record = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{path}: not JSON") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise UserError(f"{path}: not a tokenizer of format {FORMAT}")
    language = LANGUAGES.get(str(record.get("language")))
    if language is None:
        raise UserError(f"{path}: unknown token language {record.get('language')!r} (known: {', '.join(LANGUAGES)})")
    if record.get("tokens") != list(language.vocabulary.names):
        raise UserError(f"{path}: its tokens are not those that this version of musicgen calls {language.name!r}")
    return language()
