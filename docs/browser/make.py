"""Write what the page needs of a model of pop piano: step.onnx, step.json and table.json.

    python docs/browser/make.py
    cd docs/browser && npm install onnxruntime-web && python -m http.server

Then open http://localhost:8000. The files are not part of the repository. `make.py FOLDER MODEL` writes to another
folder, and takes another model.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import musicgen
from musicgen.errors import UserError
from musicgen.languages.language import Language
from musicgen.languages.remi import gap_grammar, grammar
from musicgen.languages.remi.language import Remi
from musicgen.languages.remi.tokens import PITCHES
from musicgen.model import PerformerConfig
from musicgen.model.graph.export import DESCRIPTION, graph_files
from musicgen.sampling.choose import SamplingConfig

CONDITIONS = {
    "": "always",
    grammar.LATER: "later",
    grammar.FREE: "free",
    grammar.SOUNDED: "sounded",
    grammar.OTHER_METRE: "other metre",
    grammar.OTHER_TEMPO: "other tempo",
    grammar.OTHER_CHORD: "other chord",
    grammar.CLOSING: "closing",
    gap_grammar.IN_TIME: "always",  # without gaps
}
"""What remi.js calls the conditions of the grammar."""
OF_GAPS = ("Gap", "Fill")
"""Families that the page never writes."""


def language_table(language: Language) -> dict[str, Any]:
    """The vocabulary, the grammar without gaps, and what tokens stand for, as plain data.

    Raises:
        UserError: The language is not one of pop piano that the page knows.
    """
    if not isinstance(language, Remi):
        raise UserError(f"the page plays pop piano only, and this model writes {language.title}")
    rules, known, words = language.grammar, language.tokens, language.vocabulary
    unknown = {name for choices in rules.table.values() for name in _kept(choices).values()} - set(CONDITIONS)
    if unknown:
        raise UserError(f"remi.js does not know these conditions of the grammar: {', '.join(sorted(unknown))}")
    return {
        "size": len(words),
        "families": [{"name": name, "first": own.start, "count": len(own)} for name, own in words.ids.items()],
        "start": next(iter(rules.table)),
        "rules": {
            state: {family: CONDITIONS[name] for family, name in _kept(choices).items()}
            for state, choices in rules.table.items()
        },
        "after": dict(rules.after),
        "first": int(language.first),
        "end": int(language.end),
        "units": known.units,
        "ticks": known.unit_ticks,
        "step": known.step,
        "bars": list(known.bar_lengths),
        "common": known.common,
        "metre": -1 if known.has_metres else known.common,
        "durations": list(known.durations),
        "lowest": PITCHES[0],
        "pitches": len(PITCHES),
        "velocities": list(known.velocities),
        "tempos": list(known.tempos),
    }


def model_table(config: PerformerConfig, sampling: SamplingConfig, language: Language) -> dict[str, Any]:
    """Where the model's tokens are, and how they are chosen, as plain data."""
    own = sampling.rhythm
    return {
        "in_time": config.positions == "time",
        "resolution": config.time_resolution,
        "sampling": asdict(sampling),
        "rhythm": None if own is None else {"families": list(language.rhythm), "sampling": asdict(own)},
    }


def page_files(name: str) -> dict[str, bytes]:
    """The files for a model by name.

    Raises:
        UserError: The page cannot play the model.
    """
    music = musicgen.load(name)
    config = music.model.config
    table = language_table(music.language) | model_table(config, music.sampling, music.language)
    files = graph_files(music.model)
    if json.loads(files[DESCRIPTION])["by_host"]:
        raise UserError(f"the page cannot compute the codes of pe={config.pe}")
    return {**files, "table.json": json.dumps(table).encode()}


def _kept(choices: Any) -> dict[str, str]:
    """The families that may follow without gaps, and their conditions."""
    return {family: name for family, name in choices.items() if family not in OF_GAPS}


def main(folder: Path, name: str) -> None:
    """Write the files to a folder."""
    for file, data in page_files(name).items():
        (folder / file).write_bytes(data)


if __name__ == "__main__":
    given = [*sys.argv[1:], *(str(Path(__file__).parent), "pop-small")[len(sys.argv) - 1 :]]
    try:
        main(Path(given[0]), given[1])
    except UserError as error:
        sys.exit(str(error))
