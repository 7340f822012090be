"""`musicgen evaluate nll` and `musicgen evaluate realizations`: what they write, print and refuse."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from calls import Run, calling, check_refused

from musicgen.data.prepare import compose_songs, gather
from musicgen.languages import Groove, Remi
from musicgen.languages.registry import tokenizer_json
from musicgen.model import PerformerConfig, PerformerLM, save_bundle

NLL = ("nll", "model=sine", "data=corpus", "split=all", "songs=3", "length=80", "draws=2", "out=out")
REALIZATIONS = ("realizations", "model=sine", "data=corpus", "split=all", "songs=3", "realizations=4", "out=out")
MADE = {
    "nll": [
        "curve.csv", "index.html", "nll.json", "nll.png", "nll.svg", "spread.csv", "summary.csv", "types.csv",
        "types.png", "types.svg", "units.csv",
    ],
    "realizations": ["index.html", "loss.csv", "realizations.json", "realizations.png", "realizations.svg"],
}  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two corpora; models of each; one that has no noise, and one that does not say how it was trained."""
    folder = tmp_path_factory.mktemp("desk")
    for name in ("corpus", "grooves"):
        (folder / name).mkdir()
    gather(Remi(), compose_songs(Remi(), 4, 4, 0), 0, None, {"source": "synthetic"}).write(folder / "corpus")
    gather(Groove(), compose_songs(Groove(), 3, 8, 0), 0, None, {"source": "synthetic"}).write(folder / "grooves")
    sizes = {"num_layers": 1, "num_heads": 2, "d_model": 16, "d_ff": 32, "num_features": 8, "num_realizations": 8}
    for name, language, training, changes in (
        ("sine", Remi(), {"length": 30}, {}),
        ("wide", Remi(), {"length": 30}, {"num_realizations": 16}),
        ("ape", Remi(), {"length": 30}, {"pe": "ape"}),
        ("silent", Remi(), None, {}),
        ("groove", Groove(), {"length": 30}, {}),
    ):
        torch.manual_seed(0)
        model = PerformerLM(PerformerConfig(len(language.vocabulary), **{**sizes, **changes}))
        save_bundle(model, folder / name, files={"tokenizer.json": tokenizer_json(language)}, training=training)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in a folder that holds links to the desk: its status, what it printed and complained of."""
    for path in desk.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return calling(capsys, "evaluate")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("arguments", [NLL, REALIZATIONS], ids=["nll", "realizations"])
def test_the_same_command_writes_the_same_files_and_overwrites_when_told(
    arguments: tuple[str, ...], tmp_path: Path, run: Run
) -> None:
    status, printed, complaint = run(*arguments)
    assert (status, complaint) == (0, "")
    assert "3 songs" in printed
    before = contents(tmp_path / "out")
    assert list(before) == MADE[arguments[0]]
    status, _, complaint = run(*arguments)
    assert status == 2
    assert "overwrite=true" in complaint
    assert run(*arguments, "overwrite=true")[0] == 0
    assert contents(tmp_path / "out") == before


def test_several_models_are_compared_at_every_position(tmp_path: Path, run: Run) -> None:
    arguments = [f"model={tmp_path / 'sine'},ape" if part == "model=sine" else part for part in NLL]
    status, printed, _ = run(*arguments, "bin=20")
    assert status == 0
    assert "of the 2" in printed
    with (tmp_path / "out" / "curve.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["from"], row["to"]) for row in rows[4:7]] == [
        ("sine", "61", "80"),
        ("ape", "1", "20"),
        ("ape", "21", "30"),
    ]
    assert all(float(row["lower"]) <= float(row["loss"]) <= float(row["upper"]) for row in rows)
    assert (rows[0]["restarted"], rows[0]["tokens"], rows[0]["songs"]) == (rows[0]["loss"], "60", "3")
    report = json.loads((tmp_path / "out" / "nll.json").read_text("utf-8"))
    assert report["settings"]["bin"] == 20
    assert report["windows"]["ape"]["restarted"] > 0


def test_grooves_are_read_too(run: Run) -> None:
    status, printed, _ = run("nll", "model=groove", "data=grooves", "split=train", "length=70", "draws=1", "out=out")
    assert status == 0
    assert "NoteOn" in printed
    assert "one draw" in printed


def test_models_trained_with_different_numbers_of_realisations_are_a_map(tmp_path: Path, run: Run) -> None:
    arguments = ["model=wide,sine" if part == "model=sine" else part for part in REALIZATIONS]
    assert run(*arguments)[0] == 0
    with (tmp_path / "out" / "loss.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["trained with R"]) for row in rows] == [("sine", "8"), ("wide", "16")]
    assert [float(rows[0][f"R = {number}"]) > 0 for number in (4, 8, 16)] == [True] * 3


BAD = [
    (["nll"], "model is missing"),
    (["nll", "model=sine"], "data is missing"),
    (["nll", "model=sine", "data=corpus"], "out is missing"),
    ([*NLL, "model=nowhere"], "nowhere"),
    ([*NLL, "data=nowhere"], "nowhere"),
    ([*NLL, "data=grooves"], "data: the corpus holds groove tokens"),
    ([*NLL, "model=sine,groove"], "compare models of one kind"),
    ([*NLL, "model=silent"], "trained is missing: the bundle of silent"),
    ([*NLL, "split=itest"], "split=seen_style_test"),
    ([*NLL, "split=some"], "split=some"),
    ([*NLL, "length=0"], "length=0"),
    ([*NLL, "trained=0"], "trained=0"),
    ([*NLL, "bin=-1"], "bin=-1"),
    ([*NLL, "draws=0"], "draws=0"),
    ([*NLL, "songs=0"], "songs=0"),
    ([*NLL, "batch=0"], "batch=0"),
    ([*NLL, "seed=-1"], "seed=-1"),
    ([*NLL, "out=sine"], "out=sine: holds other things"),
    (["realizations", "model=sine", "data=corpus"], "out is missing"),
    ([*REALIZATIONS, "model=ape"], "model: ape encodes positions without noise (pe=ape)"),
    ([*REALIZATIONS, "model=silent"], "length is missing: the bundle of silent"),
    ([*REALIZATIONS, "data=grooves"], "data: the corpus holds groove tokens"),
    ([*REALIZATIONS, "realizations=0,4"], "realizations=0,4"),
    ([*REALIZATIONS, "realizations=many"], "realizations=many"),
    ([*REALIZATIONS, "realizations="], "realizations is missing"),
    ([*REALIZATIONS, "realizations=5000"], "realizations=5000"),
    ([*REALIZATIONS, "length=0"], "length=0"),
    ([*REALIZATIONS, "seed=-1"], "seed=-1"),
]


@pytest.mark.parametrize(("arguments", "naming"), BAD, ids=[f"{words[0]} {words[-1]}" for words, _ in BAD])
def test_bad_input_is_one_sentence_exit_status_2_and_nothing_written(
    arguments: list[str], naming: str, tmp_path: Path, run: Run
) -> None:
    check_refused(run, arguments, naming, tmp_path)
