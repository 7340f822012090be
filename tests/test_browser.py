"""The page without a server: what its scripts make of tokens is what Python makes of them."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from musicgen.languages.remi.language import Remi

PAGE = Path(__file__).parents[1] / "docs" / "browser"
SCRIPT = """
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const [folder, file] = process.argv.slice(2);
const { notes, allowed } = await import(pathToFileURL(`${folder}/remi.js`));
const { table, pieces } = JSON.parse(readFileSync(file));
const masks = [null, ...Array(table.size).keys()].map((last) => allowed(table, last).map(Number));
process.stdout.write(JSON.stringify({ notes: pieces.map((piece) => notes(table, piece)), masks }));
"""


def test_the_page_reads_the_notes_of_tokens_as_python_does(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    spec = importlib.util.spec_from_file_location("make", PAGE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    language, table, generator = Remi(), make.grammar_table(), np.random.default_rng(0)
    pieces: list[list[int]] = []
    for _ in range(6):  # pieces of the grammar, by a player who likes notes
        state, tokens = language.grammar.start(), []
        while not state.is_complete and len(tokens) < 400:
            token = int(generator.choice(np.flatnonzero(state.mask())))
            state.advance(token)
            tokens.append(token)
        pieces.append(tokens)
    pieces.append(generator.integers(1, table["size"], 3000).tolist())  # and what breaks it
    (tmp_path / "pieces.json").write_text(json.dumps({"table": table, "pieces": pieces}))
    (tmp_path / "read.mjs").write_text(SCRIPT)
    words = [node, str(tmp_path / "read.mjs"), str(PAGE), str(tmp_path / "pieces.json")]
    read = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout)
    for piece, found in zip(pieces, read["notes"], strict=True):
        expected = language.decode(piece).notes
        own = sorted(tuple(note[name] for name in ("start", "end", "pitch", "velocity")) for note in found)
        assert own == sorted(
            tuple(int(note[name]) for name in ("start", "end", "pitch", "velocity")) for note in expected
        )
    assert any(read["notes"])
    for last, mask in zip([None, *range(table["size"])], read["masks"], strict=True):
        state = table["start"] if last is None else table["after"][language.grammar.meaning[last][0]]
        families = language.grammar.table[state]
        assert mask == [int(family in families) for family, _ in language.grammar.meaning]
