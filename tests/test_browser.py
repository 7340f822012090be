"""The page without a server: what its scripts make of tokens is what Python makes of them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import musicgen
from musicgen.errors import UserError
from musicgen.languages.remi.extended import ExtendedRemi
from musicgen.languages.remi.language import Remi
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.model.graph.export import graph_files
from musicgen.sampling.choose import SamplingConfig, distribution

PAGE = Path(__file__).parents[1] / "docs" / "browser"
PACKAGE = Path(os.environ.get("ONNXRUNTIME_WEB", PAGE / "node_modules" / "onnxruntime-web"))
"""Where the npm package is; the variable names its folder."""
RUNTIME = PACKAGE / "dist" / "ort.wasm.min.mjs"
HEAD = """
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const [page, file] = process.argv.slice(2);
const { Place, allowed, clock, notes, seconds, tempos } = await import(pathToFileURL(`${page}/remi.js`));
const { Model, distribution, write } = await import(pathToFileURL(`${page}/model.js`));
const given = JSON.parse(readFileSync(file)), { table } = given;
let results;
"""
TAIL = """
process.stdout.write(JSON.stringify(results));
"""
READ = """
results = given.pieces.map((piece) => {
  const changes = tempos(table, piece), found = notes(table, piece);
  return { notes: found, tempos: changes, clock: clock(table, piece),
           seconds: found.map(({ start }) => seconds(changes, start)) };
});
"""
MASKS = """
const bits = (place) => allowed(place).map(Number).join("");
results = given.pieces.map((piece) => {
  const place = new Place(table);
  return [bits(place), ...piece.map((id) => (place.add(id), bits(place)))];
});
"""
CHANCES = """
results = given.rows.map(({ logits, mask }) => [...distribution(table, logits, mask)]);
"""
LOGITS = """
const ort = await import(pathToFileURL(given.runtime));
ort.env.wasm.numThreads = 1; // in node, this file cannot count processors
const session = await ort.InferenceSession.create(new Uint8Array(readFileSync(given.graph)));
const model = new Model(ort, session, given.about, table);
results = { logits: [], written: [] };
for (const token of given.tokens) results.logits.push([...await model.step(token)]);
for await (const token of write(ort, session, given.about, table, { bars: given.bars })) results.written.push(token);
"""
MODELS: dict[str, dict[str, Any]] = {
    "time that passes": {"positions": "time", "decay": "fixed", "decay_positions": "time"},
    "index, and time that passes": {"decay": "fixed", "decay_positions": "time"},
    "index": {"decay": "fixed"},
}


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make", PAGE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script: str, folder: Path, given: dict[str, Any]) -> Any:
    """What a script that knows the page gives for some data."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    (folder / "given.json").write_text(json.dumps(given))
    (folder / "script.mjs").write_text(HEAD + script + TAIL)
    words = [node, str(folder / "script.mjs"), str(PAGE), str(folder / "given.json")]
    done = subprocess.run(words, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()[-1000:]  # node shows the line, which may be a whole library
    return json.loads(done.stdout)


def ungapped(language: Remi, mask: Any) -> Any:
    """A mask without tokens of gaps."""
    return mask & ~language.vocabulary.is_of(("Gap", "Fill"))


def pieces_of(language: Remi, seed: int = 0, least: int = 300) -> list[list[int]]:
    """Complete pieces of the grammar without gaps, by a player to whom all families are alike."""
    generator, words = np.random.default_rng(seed), language.vocabulary
    pieces: list[list[int]] = []
    for _ in range(6):
        state, tokens = language.grammar.start(), list[int]()
        while not state.is_complete:
            mask = ungapped(language, state.mask())
            mask[language.end] &= len(tokens) >= least
            ids = np.flatnonzero(mask)
            own = generator.choice(np.unique(words.family[ids]))
            tokens.append(int(generator.choice(ids[words.family[ids] == own])))
            state.advance(tokens[-1])
        assert not language.grammar.errors(tokens)
        pieces.append(tokens)
    return pieces


def broken(language: Remi) -> list[int]:
    """Tokens without grammar and without gaps."""
    free = np.flatnonzero(ungapped(language, np.arange(len(language.vocabulary)) != language.end))
    return [int(token) for token in np.random.default_rng(1).choice(free, 3000)]


@pytest.mark.parametrize("language", [Remi(), ExtendedRemi()], ids=lambda language: language.name)
def test_the_page_reads_notes_tempos_and_times_as_python_does(make: ModuleType, language: Remi, tmp_path: Path) -> None:
    table, words = make.language_table(language), language.vocabulary
    pieces = [*pieces_of(language), broken(language)]  # and what breaks the grammar
    for piece, found in zip(pieces, run(READ, tmp_path, {"table": table, "pieces": pieces}), strict=True):
        score = language.decode(piece)
        own = [tuple(note[name] for name in ("start", "end", "pitch", "velocity")) for note in found["notes"]]
        expected = [tuple(int(note[name]) for name in ("start", "end", "pitch", "velocity")) for note in score.notes]
        assert sorted(own) == sorted(expected)
        assert np.array_equal(np.array(found["clock"]) / table["units"], language.clock(piece))
        if piece is not pieces[-1]:
            assert [(change["tick"], change["bpm"]) for change in found["tempos"]] == score.tempos.tolist()
            starts = np.array([note["start"] for note in found["notes"]])
            assert np.allclose(found["seconds"], score.seconds(starts), rtol=1e-9)
    assert all(len(language.decode(piece).notes) > 5 for piece in pieces[:-1])
    assert len(language.decode(pieces[-1]).notes)
    if language.tokens.has_metres:
        whole = [token for piece in pieces[:-1] for token in piece]
        said = {family: {words.value[token] for token in whole if token in words.ids[family]} for family in words.ids}
        assert len(said["Metre"]) == 13
        assert {beat % 12 for beat in said["Beat"]} >= {0, 3, 4, 8}  # sixteenths and triplets
        assert len(said["Tempo"]) > 20


@pytest.mark.parametrize("language", [Remi(), ExtendedRemi()], ids=lambda language: language.name)
def test_the_page_allows_what_the_grammar_allows_without_gaps(make: ModuleType, language: Remi, tmp_path: Path) -> None:
    pieces = pieces_of(language)
    read = run(MASKS, tmp_path, {"table": make.language_table(language), "pieces": pieces})
    for piece, masks in zip(pieces, read, strict=True):
        state = language.grammar.start()
        for token, mask in zip([*piece, None], masks, strict=True):
            assert mask == "".join("01"[int(allowed)] for allowed in ungapped(language, state.mask()))
            if token is not None:
                state.advance(token)


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingConfig(temperature=1.0, min_p=0.1, rhythm_temperature=1.1, rhythm_min_p=0.05),
        SamplingConfig(temperature=1.2, top_p=0.9, rhythm_top_p=0.5),
        SamplingConfig(temperature=0.8, top_k=7),
        SamplingConfig(temperature=0),
    ],
)
def test_the_page_chooses_with_the_same_chances(make: ModuleType, sampling: SamplingConfig, tmp_path: Path) -> None:
    language, generator = ExtendedRemi(), np.random.default_rng(0)
    logits = generator.normal(0, 3, (20, len(language.vocabulary)))
    masks = generator.random(logits.shape) < 0.3
    table = make.language_table(language) | make.model_table(PerformerConfig(vocab_size=707), sampling, language)
    rows = [{"logits": row, "mask": mask} for row, mask in zip(logits.tolist(), masks.tolist(), strict=True)]
    found = run(CHANCES, tmp_path, {"table": table, "rows": rows})
    expected = distribution(logits, masks, [sampling] * 20, language.vocabulary.is_of(language.rhythm))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_files_say_how_the_built_in_model_is_sampled(make: ModuleType) -> None:
    table, music = json.loads(make.page_files("pop-small")["table.json"]), musicgen.load("pop-small")
    assert table["size"] == len(music.language.vocabulary) == music.model.config.vocab_size
    assert SamplingConfig(**table["sampling"]) == music.sampling
    assert table["rhythm"]["sampling"]["temperature"] == music.sampling.rhythm_temperature
    assert table["rhythm"]["families"] == list(music.language.rhythm)
    families = {family for choices in table["rules"].values() for family in choices}
    assert not families & {"Gap", "Fill"}


def test_no_files_are_made_of_a_model_that_writes_no_pop_piano(make: ModuleType) -> None:
    with pytest.raises(UserError, match="the page plays pop piano only, and this model writes"):
        make.page_files("groove-small")


@pytest.mark.parametrize("name", ["pop-small", *MODELS])
def test_the_page_runs_a_model_as_python_does(make: ModuleType, name: str, tmp_path: Path) -> None:
    if not RUNTIME.is_file():
        pytest.skip(f"the npm package onnxruntime-web is not in {PACKAGE}; ONNXRUNTIME_WEB may name its folder")
    language = ExtendedRemi()
    if name in MODELS:
        torch.manual_seed(0)
        sizes: dict[str, Any] = {
            "vocab_size": 707,
            "num_layers": 2,
            "num_heads": 2,
            "d_model": 32,
            "d_ff": 64,
            "weight_std": 0.3,
        }
        model = PerformerLM(PerformerConfig(**sizes, pe="rope", **MODELS[name])).eval()
    else:
        model = musicgen.load(name).model
    files = graph_files(model)
    (tmp_path / "step.onnx").write_bytes(files["step.onnx"])
    tokens = pieces_of(language, seed=2)[-1][:150]
    given = {
        "table": make.language_table(language) | make.model_table(model.config, SamplingConfig(), language),
        "about": json.loads(files["step.json"]),
        "graph": str(tmp_path / "step.onnx"),
        "runtime": str(RUNTIME),
        "tokens": tokens,
        "bars": 0 if name in MODELS else 2,  # without training, bars are long
    }
    found = run(LOGITS, tmp_path, given)
    state, times, expected = model.init_state(model.draw(0)), language.clock(tokens), []
    for token, time in zip(tokens, times, strict=True):
        with torch.inference_mode():
            logits, state = model.step(torch.tensor([token]), state, torch.tensor([time], dtype=torch.float64))
        expected.append(logits[0].numpy())
    np.testing.assert_allclose(found["logits"], np.array(expected), rtol=1e-4, atol=1e-4)
    assert not language.grammar.errors(found["written"], complete=False)
    assert found["written"].count(language.first) == given["bars"] + 1 or found["written"][-1] == language.end
