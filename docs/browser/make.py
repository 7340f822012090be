"""Write what the page needs of the built-in model: step.onnx, step.json and table.json.

    python docs/browser/make.py
    cd docs/browser && npm install onnxruntime-web && python -m http.server

Then open http://localhost:8000. The files are not part of the repository.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import musicgen
from musicgen.languages.remi.language import Remi
from musicgen.model.graph.export import graph_files

NUMBERS = ("Pitch", "Velocity")
"""Families whose names are numbers in even steps."""


def grammar_table() -> dict[str, Any]:
    """The vocabulary and the table of the grammar, as plain data."""
    language = Remi()
    grammar, words = language.grammar, language.vocabulary
    pitches, velocities = ([int(words.names[id_].split("_")[1]) for id_ in words.ids[name]] for name in NUMBERS)
    return {
        "size": len(words),
        "families": [{"name": name, "first": own.start, "count": len(own)} for name, own in words.ids.items()],
        "start": next(iter(grammar.table)),
        "rules": {state: list(choices) for state, choices in grammar.table.items()},
        "after": dict(grammar.after),
        "first": int(language.first),
        "end": int(language.end),
        "lowest": pitches[0],
        "softest": velocities[0],
        "louder": velocities[1] - velocities[0],
    }


def main(folder: Path) -> None:
    """Write the files to a folder."""
    files = graph_files(musicgen.load("pop-small").model)
    for name, data in {**files, "table.json": json.dumps(grammar_table()).encode()}.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
