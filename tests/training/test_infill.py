"""Training on examples with gaps: a share of the batch, to the bit, with a loss of its own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gapped import EXTENDED
from runs import TINY, losses

import musicgen
from musicgen.cli.main import main
from musicgen.data.batches import IGNORED, Batches
from musicgen.data.prepare import compose_songs, gather
from musicgen.languages import Groove
from musicgen.training.loaders import GapWindows, Part
from musicgen.training.module import loss_apart

CORPUS = gather(Groove(), compose_songs(Groove(), 24, 8, 0), 0, None, {})
FILL = EXTENDED.infill.fill
GAPS = ["data=synthetic_grooves", "data.tokens=extended", "data.infill=0.5"]
SIZE = [word for word in TINY if not word.startswith("pe.")]
TIME = ["pe=rope_time", "data.songs=20", "data.length=256", "optimizer.decay_steps=30"]


def batches(share: float, length: int = 256) -> Batches:
    corpus = CORPUS.in_tokens("extended")
    return Batches(corpus, length=length, batch_size=8, seed=3, transpose=5, mix_drums=0.5, infill=share)


def train(folder: Path, *overrides: str) -> int:
    return main(["train", *SIZE, *GAPS, *TIME, f"run_dir={folder}", *overrides])


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("infill") / "run"
    assert train(folder) == 0
    return folder


def test_a_share_of_the_examples_has_gaps_and_the_others_are_what_they_were() -> None:
    plain, half, later = batches(0.0), batches(0.5), batches(0.5)
    gapped = 0
    for number in range(80):
        tokens = half.window(number)
        assert len(tokens) <= 257
        if FILL in tokens:
            gapped += 1
            assert EXTENDED.grammar.errors(tokens) == []
        else:
            assert np.array_equal(tokens, plain.window(number))
    assert 25 <= gapped <= 55
    assert np.array_equal(later.window(79), half.window(79))  # whatever was drawn before


def test_times_of_a_batch_go_back_where_gaps_are_filled() -> None:
    inputs, _, times = batches(1.0)[0]
    goes_back = times.diff(dim=1) < 0
    assert goes_back.any()
    assert (inputs[:, 1:][goes_back] == FILL).all()


def test_losses_are_told_apart() -> None:
    inputs = torch.tensor([[1, 2, 3, 4], [1, FILL, 3, 4], [5, 6, FILL, EXTENDED.end]])
    targets = torch.tensor([[2, 3, 4, 5], [FILL, 3, 4, 5], [6, FILL, 9, IGNORED]])
    part = Part(inputs, targets, inputs.double(), 0, 0, 11)
    values = torch.tensor([[1.0, 1.0, 1.0, 1.0], [9.0, 2.0, 2.0, 2.0], [9.0, 9.0, 4.0, 0.0]])
    assert loss_apart(values, part, FILL).tolist() == [[4.0, 10.0], [4.0, 4.0]]


def test_a_run_logs_both_losses_and_its_bundle_fills(unbroken: Path) -> None:
    rows = losses(unbroken)
    apart = [row for row in rows if "train/plain_loss" in row or "train/infill_loss" in row]
    assert len(apart) == 8
    for row in rows:
        if "val/loss" in row:
            assert math.isfinite(row["val/infill_loss"])
            assert row["val/infill_loss"] != row["val/loss"]
    music = musicgen.load(unbroken)
    assert music.language.name == EXTENDED.name
    assert len(music.generate(bars=2, seed=1).score.notes) > 0
    tokens = music.generate(tokens=100, seed=1, grammar=False).tokens
    assert max(tokens) < len(Groove().vocabulary)


def test_a_run_that_was_stopped_goes_on_to_the_bit(unbroken: Path, tmp_path: Path) -> None:
    assert train(tmp_path / "run", "trainer.max_steps=4") == 0
    assert train(tmp_path / "run", "resume=auto") == 0
    assert losses(tmp_path / "run") == losses(unbroken)


def test_validation_takes_out_the_same_bars_every_time() -> None:
    corpus = CORPUS.in_tokens("extended")
    first, second = (GapWindows(corpus, "valid", 200, 4) for _ in range(2))
    assert all(torch.equal(first[0].inputs, second[0].inputs) for _ in range(2))
    assert ((first[0].inputs == FILL).sum(1) >= 1).all()


def test_gaps_need_their_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *SIZE, "data=synthetic_grooves", "data.infill=0.5", f"run_dir={tmp_path}/a"]) == 2
    assert "data.infill=0.5: the tokens have none for gaps; add data.tokens=extended" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_a_corpus_is_extended_without_a_change_to_its_songs() -> None:
    extended = CORPUS.in_tokens("extended")
    assert extended.fingerprint == CORPUS.fingerprint
    assert extended == replace(CORPUS, language=extended.language)
    assert all(np.array_equal(extended.tokens(song), CORPUS.tokens(song)) for song in CORPUS.songs())
