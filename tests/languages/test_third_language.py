"""A third language goes through the whole program, and nobody outside its folder asks which language it is."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from corpora import put
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import BEGIN, END, PITCHES, Letters

import musicgen
from musicgen.cli.main import main
from musicgen.data.corpus import Corpus
from musicgen.languages.registry import LANGUAGES
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import read_midi
from musicgen.midi.score import Score, make_notes

PACKAGE = Path(musicgen.__file__).parent
SMALL = [
    "debug=quick", "model=tiny", "data=pop_piano", "data.length=64", "batch_size=2", "trainer.threads=1",
    "validation.sample_bars=1",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    LANGUAGES[Letters.name] = Letters()
    yield
    del LANGUAGES[Letters.name]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with melodies, a corpus of them and a trained model."""
    desk = tmp_path_factory.mktemp("letters")
    for number in range(10):
        put(compose(number, 12), desk / "midi" / f"{number}.mid")
    (desk / "midi" / "broken.mid").write_bytes(b"MThd")
    assert main(["prepare", "source=letters", f"input={desk / 'midi'}", f"output={desk / 'corpus'}", "workers=1"]) == 0
    assert main(["train", *SMALL, f"data.folder={desk / 'corpus'}", f"run_dir={desk / 'run'}"]) == 0
    return desk


def test_its_corpus_is_prepared_opened_and_verified(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = Corpus.open(desk / "corpus")
    assert corpus.language is LANGUAGES["letters"]
    assert len(corpus.songs()) == 10
    assert [song.path for song in corpus.index if song.dropped] == ["broken.mid"]
    assert {len(corpus.songs(split)) for split in ("valid", "test")} == {1}
    assert main(["prepare", f"verify={desk / 'corpus'}", f"input={desk / 'midi'}", "workers=1"]) == 0
    assert "10 songs" in capsys.readouterr().out


def test_it_is_trained_and_writes_bars_as_asked(desk: Path) -> None:
    music = musicgen.load(desk / "run")
    assert music.language.name == "letters"
    piece = music.generate(bars=3, seed=1)
    assert piece.bars == 3
    assert piece.errors == 0
    assert len(piece.tokens) == 2 + 3 * 16


def test_it_goes_on_from_a_prompt_forks_and_goes_on_from_a_state(desk: Path, tmp_path: Path) -> None:
    run, prompt = f"model={desk / 'run'}", f"prompt={desk / 'midi' / '3.mid'}"
    asked = ["generate", run, prompt, "prompt_bars=2", "bars=5", "fork_at=3", "variations=2", "n=1", "states=last"]
    assert main([*asked, "picture=false", f"out={tmp_path / 'a'}"]) == 0
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "a").glob("*.json"))]
    assert [record["bars"] for record in records] == [5, 5]
    first, second = (record["tokens"] for record in records)
    assert first[: 1 + 3 * 16] == second[: 1 + 3 * 16]
    given = Letters().read_prompt(desk / "midi" / "3.mid", 2).tokens
    assert first[: len(given)] == list(given)
    state = next((tmp_path / "a").glob("*_variation_1_bar_*.state"))
    assert main(["generate", run, f"from_state={state}", "bars=7", "n=1", f"out={tmp_path / 'b'}"]) == 0
    longer = json.loads((tmp_path / "b" / "piece_0.json").read_text())
    kept = int(state.stem[-4:]) * 16
    assert longer["bars"] == 7
    assert longer["tokens"][:kept] == second[:kept]
    assert len(read_midi(tmp_path / "b" / "piece_0.mid").notes) == longer["notes"]


def test_its_songs_are_continued(desk: Path, tmp_path: Path) -> None:
    asked = ["continue", f"model={desk / 'run'}", f"data={desk / 'corpus'}", "split=train", "styles=2", "bars=4"]
    assert main([*asked, "continuations=1", "picture=false", f"out={tmp_path / 'out'}"]) == 0
    assert len(list((tmp_path / "out" / "continuations").rglob("*.mid"))) == 2


def test_its_models_and_music_are_evaluated(desk: Path, tmp_path: Path) -> None:
    run, corpus, out = f"model={desk / 'run'}", desk / "corpus", tmp_path
    asked = [run, f"data={corpus}", "split=train", "songs=2", "draws=1", f"out={out / 'n'}"]
    assert main(["evaluate", "nll", *asked]) == 0
    assert main(["generate", run, "n=3", "bars=4", "picture=false", f"out={out / 'pieces'}"]) == 0
    asked = [f"generated={out / 'pieces'}", f"reference={corpus}", "split=train", f"out={out / 'm'}"]
    assert main(["evaluate", "music", *asked]) == 0
    asked = [f"generated={out / 'pieces'}", f"training={corpus}", f"out={out / 'v'}"]
    assert main(["evaluate", "novelty", *asked]) == 0
    assert all((out / kind / "index.html").is_file() for kind in "nmv")


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 63), st.sampled_from(PITCHES)), min_size=1, max_size=40))
def test_the_toy_is_a_language(steps: list[tuple[int, int]]) -> None:
    start = np.array([step for step, _ in steps]) * 120
    score = Score(480, make_notes(start, start + 120, np.array([pitch for _, pitch in steps]), 64))
    language = Letters()
    tokens = language.encode(score).tokens
    assert language.grammar.errors(tokens) == []
    assert np.array_equal(language.encode(language.decode(tokens)).tokens, tokens)
    clock = language.start_clock()
    assert [clock.advance(token) for token in tokens.tolist()] == language.clock(tokens).tolist()
    assert (tokens[0], tokens[-1]) == (BEGIN, END)


OWN = {"remi", "groove"}
NAMES = {name for language in LANGUAGES.values() for name in (language.name, type(language).__name__)} - {"letters"}


def outside() -> list[Path]:
    """Every module but those of the languages and the registry."""
    languages = PACKAGE / "languages"
    inside = {languages / "registry.py", languages / "__init__.py"}
    return [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in inside and not any((languages / name) in path.parents for name in OWN)
    ]


@pytest.mark.parametrize("path", outside(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nobody_else_names_a_language(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")
            assert module[:2] != ["musicgen", "languages"] or not set(module) & OWN, f"line {node.lineno}"
            assert not {alias.name for alias in node.names} & NAMES, f"line {node.lineno}"
        elif isinstance(node, ast.Constant):
            assert node.value not in NAMES, f"line {node.lineno}"
        elif isinstance(node, ast.Name):
            assert node.id not in NAMES, f"line {node.lineno}"
