"""`musicgen evaluate attention`: what it writes, prints and refuses."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from calls import Run, calling, check_refused

from musicgen.languages import Groove, Remi
from musicgen.languages.registry import tokenizer_json
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import write_midi
from musicgen.model import PerformerConfig, PerformerLM, save_bundle


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in a folder with two models and a song: its status, what it printed and complained of."""
    config = PerformerConfig(
        vocab_size=361, num_layers=1, num_heads=2, d_model=16, d_ff=16, num_features=8, num_realizations=8
    )
    torch.manual_seed(0)
    files = {"tokenizer.json": tokenizer_json(Remi())}
    save_bundle(PerformerLM(config), tmp_path / "sine", files=files, training={"length": 32})
    config = dataclasses.replace(config, vocab_size=794)
    save_bundle(PerformerLM(config), tmp_path / "groove", files={"tokenizer.json": tokenizer_json(Groove())})
    write_midi(compose(0, 4), tmp_path / "song, 1.mid")
    (tmp_path / "text.mid").write_text("not music")
    monkeypatch.chdir(tmp_path)
    return calling(capsys, "evaluate", "attention")


def test_a_model_becomes_a_page_with_maps_the_same_each_time(tmp_path: Path, run: Run) -> None:
    arguments = ("model=sine", "templates=2", "draws=2", "out=out")
    status, printed, complaint = run(*arguments)
    assert (status, complaint) == (0, "")
    assert "tokens that it wrote itself" in printed
    files = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    pictures = {f"{name}.{kind}" for name in ("templates", "matrices", "gates", "maps") for kind in ("png", "svg")}
    tables = {f"{name}.csv" for name in ("looks", "looks_heads", "templates", "gates")}
    assert set(files) == pictures | tables | {"explore_1_1.png", "explore_1_2.png", "attention.json", "index.html"}
    assert json.loads(files["attention.json"])["settings"]["templates"] == 2
    assert run(*arguments)[0] == 2
    assert run(*arguments, "overwrite=true")[0] == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == files


def test_a_file_is_read_and_layers_and_heads_chosen(tmp_path: Path, run: Run) -> None:
    choices = ("layers=1", "heads=2", "features=1,4", "kind=features", "tokens=40")
    status, printed, _ = run("model=sine", "midi=song, 1.mid", "out=out", *choices)
    assert status == 0
    assert "40 tokens that it was given (song, 1.mid)" in printed
    report = json.loads((tmp_path / "out" / "attention.json").read_text("utf-8"))
    assert [explorer["maps"] for explorer in report["explorers"]] == [[["1", "2"]]]
    (kernels,) = [table for table in report["tables"] if table["name"] == "templates"]
    assert [row[1:3] for row in kernels["rows"]] == [[2, 1], [2, 4]]


@pytest.mark.parametrize(
    ("arguments", "naming"),
    [
        (["out=out"], "model is missing"),
        (["model=sine"], "out is missing"),
        (["model=nowhere", "out=out"], "model=nowhere"),
        (["model=groove", "out=out"], "trained=NUMBER"),
        (["model=sine,groove", "out=out", "trained=32"], "models of one kind"),
        (["model=sine", "out=out", "midi=nowhere.mid"], "nowhere.mid"),
        (["model=sine", "out=out", "midi=text.mid"], "text.mid: not a MIDI file"),
        (["model=sine", "out=out", "layers=2"], "layers=2: sine has 1"),
        (["model=sine", "out=out", "heads=1,3"], "heads=3: sine has 2"),
        (["model=sine", "out=out", "heads=0"], "heads=0"),
        (["model=sine", "out=out", "features=x"], "features=x"),
        (["model=sine", "out=out", "tokens=100000"], "tokens="),
        (["model=sine", "out=out", "tokens=1"], "tokens=1"),
        (["model=sine", "out=out", "templates=0"], "templates=0"),
        (["model=sine", "out=out", "kind=both"], "kind=both"),
        (["model=sine", "out=sine", "overwrite=true"], "out=sine"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_exit_status_2_and_nothing_written(
    arguments: list[str], naming: str, tmp_path: Path, run: Run
) -> None:
    check_refused(run, arguments, naming, tmp_path)
