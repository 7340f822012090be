"""Grooves train as songs do: to the bit, in parts or not, to a bundle that says its language."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from runs import losses, train

from musicgen.cli.main import main
from musicgen.data.batches import IGNORED
from musicgen.data.prepare import compose_songs, gather
from musicgen.languages import Groove
from musicgen.languages.registry import load_tokenizer
from musicgen.model import load_bundle
from musicgen.training.config import DataConfig
from musicgen.training.loaders import FixedWindows, Parts, training_windows

GROOVES = ("data=synthetic_grooves", "data.songs=20", "data.bars=4", "optimizer.decay_steps=30")
CORPUS = gather(Groove(), compose_songs(Groove(), 30, 4, 0), 0, None, {})
DATA = DataConfig("synthetic_grooves", None, songs=30, bars=4, length=200, transpose=5, mix_drums=0.5)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("groove") / "run"
    assert train(folder, *GROOVES, "validation.sample_bars=1") == 0
    return folder


def test_a_run_leaves_losses_pieces_and_a_bundle_that_speaks_groove(unbroken: Path) -> None:
    rows = losses(unbroken)
    assert [row["step"] for row in rows if "train/loss" in row] == list(range(1, 9))
    assert [row["step"] for row in rows if "val/loss" in row] == [4, 8]
    assert load_bundle(unbroken / "bundle").config.vocab_size == 794
    assert isinstance(load_tokenizer(unbroken / "bundle"), Groove)
    assert "tokens: groove, 794" in (unbroken / "bundle" / "MODEL_CARD.md").read_text()
    assert (unbroken / "samples" / "step_000008.mid").is_file()


def test_an_export_carries_the_language(unbroken: Path, tmp_path: Path) -> None:
    assert main(["export", f"checkpoint={unbroken}", f"out={tmp_path}/model"]) == 0
    assert isinstance(load_tokenizer(tmp_path / "model"), Groove)


def test_a_prepared_corpus_is_the_composed_one_and_parts_give_the_same_losses(unbroken: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    gather(Groove(), compose_songs(Groove(), 20, 4, 0), 0, None, {}).write(tmp_path / "corpus")
    options = ("data=groove", f"data.folder={tmp_path}/corpus", "data.length=24", "data.transpose=5", "accumulate=2")
    assert train(tmp_path / "run", *GROOVES, *options) == 0
    for ours, theirs in zip(losses(tmp_path / "run"), losses(unbroken), strict=True):
        for name, value in theirs.items():
            assert ours[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def test_a_run_that_was_stopped_goes_on_to_the_bit(unbroken: Path, tmp_path: Path) -> None:
    options = ("validation.sample_bars=1",)
    assert train(tmp_path / "run", *GROOVES, *options, "trainer.max_steps=4") == 0
    assert train(tmp_path / "run", *GROOVES, *options, "resume=auto") == 0
    assert losses(tmp_path / "run") == losses(unbroken)


@pytest.mark.parametrize(("world", "accumulate"), [(1, 1), (2, 1), (1, 4), (2, 2)])
def test_parts_of_all_processes_are_the_batch(world: int, accumulate: int) -> None:
    windows = training_windows(CORPUS, DATA, 8, 3)
    for step in range(3):
        whole = windows[step]
        rows: dict[int, torch.Tensor] = {}
        for rank in range(world):
            parts = Parts(windows, 10, accumulate, rank, world)
            for number in range(accumulate):
                part = parts[step * accumulate + number]
                assert part.num_targets == (whole.targets != IGNORED).sum()
                rows |= {part.first_row + row: tokens for row, tokens in enumerate(part.inputs)}
        assert torch.equal(torch.stack([rows[row] for row in range(8)]), whole.inputs)


def test_every_groove_is_judged_once_from_its_beginning_and_nothing_is_drawn() -> None:
    begin = CORPUS.language.first
    first, second = (FixedWindows(CORPUS, "valid", 50, 4) for _ in range(2))
    assert first.songs == len(CORPUS.songs("valid"))
    for number in range(len(first)):
        assert torch.equal(first[number].inputs, second[number].inputs)
        assert (first[number].inputs[:, 0] == begin).all()
