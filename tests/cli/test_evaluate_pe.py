"""`musicgen evaluate pe`: what it writes, prints and refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from calls import Run, calling, check_refused

from musicgen.languages import Remi
from musicgen.languages.registry import tokenizer_json
from musicgen.model import PerformerConfig, PerformerLM, save_bundle


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in a folder with a sine and an ape model: its status, what it printed and complained of."""
    for name in ("sine", "ape"):
        config = PerformerConfig(
            vocab_size=361, num_layers=1, num_heads=2, d_model=16, d_ff=16, num_features=8, num_realizations=8, pe=name
        )
        training = {"length": 64} if name == "sine" else None
        files = {"tokenizer.json": tokenizer_json(Remi())}
        torch.manual_seed(0)
        save_bundle(PerformerLM(config), tmp_path / name, files=files, training=training)
    monkeypatch.chdir(tmp_path)
    return calling(capsys, "evaluate", "pe")


def test_models_become_tables_a_figure_and_a_page_the_same_each_time(tmp_path: Path, run: Run) -> None:
    arguments = ("model=sine,ape", "trained=64", "tokens=3", "draws=2", "out=out")
    status, printed, complaint = run(*arguments)
    assert (status, complaint) == (0, "")
    assert "worse beyond its 64 trained tokens than within" in printed
    assert "64–79 <32" in printed
    files = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert set(files) == {"pe.csv", "pe_heads.csv", "pe.json", "pe.png", "pe.svg", "index.html"}
    settings = json.loads(files["pe.json"])["settings"]
    assert settings["model"] == "sine,ape"
    assert settings["draws"] == 2
    rows = list(csv.DictReader(files["pe_heads.csv"].decode().splitlines()))
    assert len(rows) == (2 + 1) * 2 * 9  # draws of each model, heads, cells
    assert run(*arguments)[0] == 2
    assert run(*arguments, "overwrite=true")[0] == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == files


def test_where_to_look_can_be_said(tmp_path: Path, run: Run) -> None:
    assert run("model=ape", "positions=0-8,20-30", "offsets=3,5", "tokens=1", "out=out")[0] == 0
    header = (tmp_path / "out" / "pe.csv").read_text("utf-8").splitlines()[0].split(",")
    cells = [name for name in header[2:] if not name.endswith("(deviation)")]
    assert cells == ["0–7 <3", "0–7 <5", "20–29 <3", "20–29 <5"]


@pytest.mark.parametrize(
    ("arguments", "naming"),
    [
        (["out=out"], "model is missing"),
        (["model=sine"], "out is missing"),
        (["model=nowhere", "out=out"], "model=nowhere"),
        (["model=ape", "out=out"], "trained=NUMBER"),
        (["model=ape", "out=out", "trained=16"], "16 tokens"),
        (["model=ape", "out=out", "trained=0"], "trained=0"),
        (["model=sine", "out=out", "draws=0"], "draws=0"),
        (["model=sine", "out=out", "tokens=0"], "tokens=0"),
        (["model=sine", "out=out", "seed=-1"], "seed=-1"),
        (["model=sine", "out=out", "positions=5"], "positions=5"),
        (["model=sine", "out=out", "positions=8-8"], "positions=8-8"),
        (["model=sine", "out=out", "positions=0-4,x-9"], "positions=0-4,x-9"),
        (["model=sine", "out=out", "offsets=1"], "offsets=1"),
        (["model=sine", "out=out", "positions=0-10", "offsets=999999"], "offsets=999999: no query has this many keys"),
        (["model=sine", "out=out", "offsets=4,five"], "offsets=4,five"),
        (["model=sine", "out=out", "positions=0-100000000"], "100,000,000"),
        (["model=ape", "out=out", "positions=0-30000", "offsets=30000"], "30,000 queries"),
        (["model=sine", "out=sine", "overwrite=true"], "out=sine"),
        (["model=sine", "out=out", "ofsets=3"], "'offsets'"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_exit_status_2_and_nothing_written(
    arguments: list[str], naming: str, tmp_path: Path, run: Run
) -> None:
    check_refused(run, arguments, naming, tmp_path)
