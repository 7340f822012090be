from __future__ import annotations

import pytest

from musicgen.cli.config import groups
from musicgen.cli.main import main

PARAMETERS = {
    "listops/ape": 19_982_858,
    "listops/sine": 20_078_090,
    "listops/conv": 20_117_002,
    "text/ape": 3_486_722,
    "text/sine": 3_518_466,
    "text/conv": 3_553_282,
    "retrieval/ape": 1_087_618,
    "retrieval/sine": 1_103_490,
    "retrieval/conv": 1_120_898,
    "image/ape": 248_458,
    "image/sine": 119_242,
    "image/conv": 133_706,
}


def test_the_papers_twelve_models_have_its_numbers_of_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arena", "describe"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {words[0].removeprefix("paper="): int(words[1].replace(",", "")) for words in lines} == PARAMETERS
    assert set(groups("arena")["paper"]) == set(PARAMETERS)


def test_a_changed_model_is_described_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["paper=image/ape", "model.attention=relu", "model.learnt_positions=false", "pe=none"]
    assert main(["arena", "describe", *words]) == 0
    assert f"{248_458 - 1025 * 128:,} parameters: 1 layer, 128 wide (64 in attention)" in capsys.readouterr().out
    assert main(["arena", "describe", "paper=image/ape", "pe=sine"]) == 2
    assert "model.learnt_positions=true: is for pe=ape" in capsys.readouterr().err
