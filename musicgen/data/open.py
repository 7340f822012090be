"""Opening a prepared corpus of either kind.

The hard choice: the kinds share no base class. Training asks a corpus for its `language`, its `fingerprint` and its
`pieces`, and both have these; all else that they hold differs, as tokens and notes do.
"""

from __future__ import annotations

from pathlib import Path

from musicgen.data.corpus import Corpus, read_manifest
from musicgen.data.groove_corpus import GrooveCorpus
from musicgen.tokens.groove import Groove
from musicgen.tokens.tokenizer import load_tokenizer

AnyCorpus = Corpus | GrooveCorpus


def open_corpus(folder: Path | str) -> AnyCorpus:
    """A prepared corpus, of the kind that its `tokenizer.json` says.

    Raises:
        UserError: It is not one, or not whole.
    """
    read_manifest(Path(folder))  # where there is none, this is what to say
    kind = GrooveCorpus if isinstance(load_tokenizer(Path(folder)), Groove) else Corpus
    return kind.open(folder)
