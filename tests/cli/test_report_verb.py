"""`musicgen report`: every part on one page, parts that are there taken as they are, and the wrong thing refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from calls import Run, calling, check_refused

from musicgen.cli import main as command
from musicgen.cli import report
from musicgen.languages import Groove, Remi
from musicgen.languages.registry import tokenizer_json
from musicgen.model import PerformerConfig, PerformerLM, load_bundle, save_bundle
from musicgen.options import options

SMALL = ("pieces=2", "bars=2", "draws=1", "songs=2")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models of piano music and one of grooves, all of which know nothing, and a corpus of each."""
    folder = tmp_path_factory.mktemp("desk")
    for seed, (name, language, pe) in enumerate(
        [("sine", Remi(), "sine"), ("ape", Remi(), "ape"), ("groove", Groove(), "sine")]
    ):
        torch.manual_seed(seed)
        config = PerformerConfig(
            vocab_size=len(language.vocabulary), num_layers=1, num_heads=2, d_model=16, d_ff=32, num_features=8,
            num_realizations=8, pe=pe,  # type: ignore[arg-type]
        )  # fmt: skip
        files = {"tokenizer.json": tokenizer_json(language)}
        save_bundle(PerformerLM(config), folder / name, files=files, training={"length": 32, "batch_size": 2})
    for source, output, seed in (
        ("synthetic", "songs", 0), ("synthetic", "other_songs", 1), ("synthetic_grooves", "grooves", 0)
    ):  # fmt: skip
        made = [f"source={source}", "songs=24", "bars=8", f"out={folder}/{output}", "workers=1", f"seed={seed}"]
        made += ["tokens=paper"] if source == "synthetic" else []
        assert command.main(["prepare", *made]) == 0
    (folder / "home").mkdir()
    (folder / "home" / "index.html").write_text("my home page")
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], desk: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in that folder: its exit status, what it printed, and what it complained of."""
    monkeypatch.chdir(desk)
    return calling(capsys, "report")


def test_everything_is_on_one_page_and_what_is_there_is_not_made_again(
    tmp_path: Path, desk: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report"
    asked = ("model=sine,ape", "data=songs", f"out={out}", *SMALL)
    status, printed, complaint = run(*asked)
    assert (status, complaint) == (0, "")
    made = [name for name in report.SECTIONS if name != "style"]
    assert sorted(path.name for path in out.iterdir()) == sorted([*made, "index.html", "pieces", "report.json"])
    assert "musicgen evaluate realizations model=sine " in printed  # the other has no noise
    page = (out / "index.html").read_text("utf-8")
    for name in made:
        assert f'<section id="{name}">' in page
        assert f"musicgen evaluate {name} " in printed
    assert "style: not in this report" in page
    beside = re.findall(r"(?:src|href)=\"(?!data:|#)([^\"]*)", page)
    assert beside == ["pieces/sine/index.html", "pieces/ape/index.html"]
    assert all((out / path).is_file() for path in beside)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.csv")}
    status, printed, complaint = run(*asked)
    assert (status, complaint) == (0, "")
    assert f"nll: taken from {out / 'nll'}" in printed
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.csv")} == before
    assert (out / "index.html").read_text("utf-8") == page
    for other, naming in (
        (["model=sine", *asked[1:]], "another models"),
        ([*asked, "seed=1"], "another seed"),
        ([*asked, "split=test", "pieces=3"], "another split and pieces"),
        ([*asked, "data=other_songs"], "another corpus"),
    ):
        check_refused(run, other, naming, tmp_path)
    torch.manual_seed(9)
    model = PerformerLM(load_bundle("sine").config)
    shutil.copytree("sine", tmp_path / "sine")
    monkeypatch.chdir(tmp_path)  # the same names, other weights
    shutil.copytree(desk / "ape", tmp_path / "ape")
    save_bundle(model, tmp_path / "sine", files={"tokenizer.json": tokenizer_json(Remi())}, training={"length": 32})
    status, _, complaint = run("model=sine,ape", f"data={desk}/songs", *asked[2:])
    assert status == 2
    assert "another models" in complaint


def test_grooves_have_a_style_and_a_part_made_by_hand_is_kept(tmp_path: Path, run: Run) -> None:
    out = tmp_path / "report"
    by_hand = ["nll", "model=groove", "data=grooves", "draws=2", f"out={out}/nll"]
    assert command.main(["evaluate", *by_hand]) == 0
    (out / "style").mkdir()  # an empty folder is no part
    asked = ("model=groove", "data=grooves", f"out={out}", "sections=style,nll,realizations", *SMALL)
    status, printed, complaint = run(*asked)
    assert (status, complaint) == (0, "")
    assert f"nll: taken from {out / 'nll'}" in printed
    page = (out / "index.html").read_text("utf-8")
    assert re.findall(r'<section id="(\w+)">', page) == ["nll", "realizations", "style"]
    settings = json.loads((out / "nll" / "nll.json").read_text("utf-8"))["settings"]
    assert settings["draws"] == 2
    status, _, complaint = run(*asked, "overwrite=true")
    assert (status, complaint) == (0, "")
    settings = json.loads((out / "nll" / "nll.json").read_text("utf-8"))["settings"]
    assert settings["draws"] == 1


@pytest.mark.parametrize(
    ("arguments", "naming"),
    [
        (["data=songs", "out=new"], "model is missing"),
        (["model=sine", "out=new"], "data is missing"),
        (["model=sine", "data=songs"], "out is missing"),
        (["model=nothing", "data=songs", "out=new"], "model=nothing"),
        (["model=sine,groove", "data=songs", "out=new"], "models of one kind"),
        (["model=sine", "data=grooves", "out=new"], "data: the corpus holds groove tokens"),
        (["model=sine", "data=sine", "out=new"], "sine"),
        (["model=sine", "data=songs", "out=songs"], "out=songs: holds other things than a report"),
        (["model=sine", "data=songs", "out=songs/corpus.json"], "not a folder"),
        (["model=sine", "data=songs", "out=home"], "out=home: holds other things than a report"),
        (["model=sine", "data=songs", "out=a,b"], "out=a,b: has a comma"),
        (["model=sine,, ape,", "data=songs", "out=new", "sections=style"], "no part of the report could be made"),
        (["model=sine", "data=songs", "out=new", "sections=nll,magic"], "sections=magic"),
        (["model=sine", "data=songs", "out=new", "sections=,"], "sections is empty"),
        (["model=sine", "data=songs", "out=songs/corpus.json/sub"], "out=songs/corpus.json/sub: cannot be made there"),
        (["model=sine", "data=songs", "out=new", "sections=style"], "no part of the report could be made: style"),
        (["model=sine", "data=songs", "out=new", "split=train"], "split=train"),
        (["model=sine", "data=songs", "out=new", "draws=0"], "draws=0"),
        (["modle=sine"], "'model'"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_exit_status_2_and_nothing_written(
    arguments: list[str], naming: str, desk: Path, run: Run
) -> None:
    check_refused(run, arguments, naming, desk)


def test_help_names_every_key(run: Run) -> None:
    status, printed, _ = run("--help")
    assert status == 0
    for key in options(report.ReportConfig):
        assert re.search(rf"\b{key}=", printed), key
