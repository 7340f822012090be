from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from runs import losses, train

from musicgen.model import load_bundle

BARELY = ("optimizer.learning_rate=1e-12", "optimizer.final_learning_rate=1e-12")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "first"
    assert train(folder, "model.d_model=24", "model.num_heads=2") == 0
    return folder


def test_a_run_starts_with_the_weights_and_the_size_of_a_model(first: Path, tmp_path: Path) -> None:
    assert train(tmp_path / "run", f"init_from={first}", "model.dropout=0.0", "trainer.max_steps=4", *BARELY) == 0
    theirs, ours = (load_bundle(folder / "bundle") for folder in (first, tmp_path / "run"))
    assert ours.config.d_model == 24
    assert ours.config.dropout == 0.0
    for name, weights in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], weights, atol=1e-8, rtol=0)
    record = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (record["model"]["d_model"], record["model"]["dropout"], record["init_from"]) == (24, 0.0, str(first))


def test_a_run_that_started_from_a_model_resumes_exactly(first: Path, tmp_path: Path) -> None:
    start = (f"init_from={first}", "optimizer.decay_steps=12", "optimizer.warmup_steps=1")
    assert train(tmp_path / "unbroken", *start) == 0
    assert train(tmp_path / "broken", *start, "trainer.max_steps=4") == 0
    assert train(tmp_path / "broken", *start, "resume=auto") == 0
    assert losses(tmp_path / "broken") == losses(tmp_path / "unbroken")


def test_a_model_of_other_tokens_is_refused(first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "run", f"init_from={first}", "data.tokens=extended") == 2
    assert "init_from=" in (error := capsys.readouterr().err)
    assert "has remi tokens, and the corpus has remi-extended tokens" in error
    assert train(tmp_path / "run", "init_from=nowhere") == 2
    assert "init_from=nowhere: no such folder with a model bundle" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
