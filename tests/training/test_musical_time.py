"""A model that works in musical time trains, resumes, writes and is evaluated like any other, in both languages."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from runs import TINY, losses

import musicgen
from musicgen.cli.main import main
from musicgen.data.batches import times_of
from musicgen.midi import write_midi

SIZE = [word for word in TINY if not word.startswith("pe.")]
TIME = [
    "pe=rope_time", "pe.rotated=0.5", "model.short_conv=4", "model.decay=fixed", "model.decay_positions=time",
    "optimizer.decay_steps=30",
]  # fmt: skip
DATA = {"remi": ["data=synthetic"], "groove": ["data=synthetic_grooves"]}
SONGS = ["data.songs=20", "data.bars=6", "data.length=24"]


def train(folder: Path, language: str, *overrides: str) -> int:
    return main(["train", *SIZE, *DATA[language], *SONGS, *TIME, f"run_dir={folder}", *overrides])


@pytest.fixture(scope="module", params=list(DATA))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("time") / "run"
    assert train(folder, request.param) == 0
    return request.param, folder


def test_a_run_that_was_stopped_is_the_unbroken_run(run: tuple[str, Path], tmp_path: Path) -> None:
    language, unbroken = run
    assert train(tmp_path / "run", language, "trainer.max_steps=5") == 0
    assert train(tmp_path / "run", language, "resume=auto") == 0
    resumed = [row for row in losses(tmp_path / "run") if row["step"] != 5 or "val/loss" not in row]
    assert resumed == losses(unbroken)  # the stopped run also validated at its end


def test_a_piece_has_the_likelihood_that_the_parallel_model_gives_it(run: tuple[str, Path], tmp_path: Path) -> None:
    music = musicgen.load(run[1])
    write_midi(music.generate(bars=3, seed=5).score, tmp_path / "prompt.mid")
    piece = music.generate(bars=5, seed=1, prompt=tmp_path / "prompt.mid", prompt_bars=2)
    tokens = np.array([piece.tokens], np.int64)
    with torch.no_grad():
        times = times_of(music.language, tokens[:, :-1])
        logits = music.model(torch.from_numpy(tokens[:, :-1]), music.model.draw(0), times=times)
    nats = torch.log_softmax(logits[0].double(), -1)[torch.arange(tokens.shape[1] - 1), torch.from_numpy(tokens[0, 1:])]
    assert piece.bars == 5
    assert sum(piece.likelihood[2:]) == pytest.approx(float(nats[sum(piece.sizes[:2]) - 1 :].sum()), abs=1e-2)


def test_evaluation_agrees_with_validation(run: tuple[str, Path], tmp_path: Path) -> None:
    language, folder = run
    source = DATA[language][0].removeprefix("data=")
    paper = ["tokens=paper"] if language == "remi" else []
    assert main(["prepare", f"source={source}", "songs=20", "bars=6", *paper, f"out={tmp_path / 'corpus'}"]) == 0
    asked = [f"model={folder}", f"data={tmp_path / 'corpus'}", "trained=24", "length=36", f"out={tmp_path / 'nll'}"]
    assert main(["evaluate", "nll", *asked]) == 0
    with (tmp_path / "nll" / "summary.csv").open() as file:
        (row,) = csv.DictReader(file)
    best = min(losses(folder), key=lambda found: found.get("val/loss", math.inf))
    assert float(row["trained"]) == pytest.approx(best["val/loss"], abs=1e-4)
    assert float(row["beyond"]) == pytest.approx(best["val/loss_extrapolated"], abs=1e-4)
