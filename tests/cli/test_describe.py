from __future__ import annotations

import pytest
import yaml  # type: ignore[import-untyped]

from musicgen.cli.config import compose, groups, performer_config
from musicgen.cli.describe import describe_encoding
from musicgen.cli.main import main
from musicgen.model import PerformerLM
from musicgen.model.size import count_parameters, state_bytes

PAPER_APE = 75_998_541  # parameters of the paper's baseline


@pytest.mark.parametrize(
    ("pe", "more"),
    [("ape", 0), ("sine", 19_968), ("sine_ungated", 7_680), ("conv", 143_360), ("conv_ungated", 524_288)],
)
def test_the_papers_models_have_their_published_parameters(
    pe: str, more: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", "model=paper_24l", f"pe={pe}", "vocab_size=333"]) == 0
    rows = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines()[:5])
    assert rows["parameters"] == f"{PAPER_APE + more:,}"
    assert rows["  positional encoding"] == f"{more:,}"


@pytest.mark.parametrize("overrides", [[], ["pe=conv", "model.decay=learnt"], ["pe=sine", "pe.shared=false"]])
def test_parts_add_up_to_the_real_model(overrides: list[str]) -> None:
    config = performer_config(compose("describe", ["model=tiny", *overrides]))
    assert sum(count_parameters(config).values()) == PerformerLM(config).num_parameters()


@pytest.mark.parametrize("feature_map", ["favor", "relu"])
@pytest.mark.parametrize("pe", ["none", "sine", "conv", "rope"])
def test_the_state_is_as_large_as_the_real_one(pe: str, feature_map: str) -> None:
    config = performer_config(compose("describe", ["model=tiny", f"pe={pe}", f"model.feature_map={feature_map}"]))
    model = PerformerLM(config)
    assert state_bytes(config) == model.init_state(model.draw(0)).nbytes


def test_every_encoding_has_words_of_its_own() -> None:
    options = groups("describe")["pe"]
    words = {describe_encoding(performer_config(compose("describe", [f"pe={option}"]))) for option in options}
    assert len(words) == len(options)


def test_help_shows_an_example_and_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "--help"]) == 0
    text = capsys.readouterr().out
    assert "example: musicgen describe" in text
    for group, options in groups("describe").items():
        assert f"{group}=" in text
        assert all(option in text and title in text for option, title in options.items())


@pytest.mark.parametrize("flag", [["--cfg"], ["--cfg", "job"]])
def test_cfg_prints_the_composed_config_as_yaml(flag: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", *flag, "model=tiny", "pe=rope"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == compose("describe", ["model=tiny", "pe=rope"])


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["model.layerz=3"], "model.layerz"),
        (["model=huge"], "model=huge"),
        (["+model.layerz=3"], "model.layerz"),
        (["vocab_size=many"], "vocab_size"),
        (["vocab_size=null"], "vocab_size"),
        (["vocab_size={a:1}"], "vocab_size"),
        (["model.num_layers=0"], "num_layers"),
        (["model.num_heads=3"], "num_heads"),
        (["model.dropout=1.5"], "dropout"),
        (["model.feature_map=cosine"], "feature_map"),
        (["model.decay=slow"], "decay"),
        (["model.decay_exponents=[5]"], "decay_exponents"),
        (["pe.name=sin"], "pe"),
        (["pe.gated=perhaps"], "gated"),
        (["pe.noise=exact"], "noise=exact"),
        (["pe=conv", "pe.kernel_size=-1"], "kernel_size"),
    ],
)
def test_a_wrong_key_or_value_is_one_line_that_names_it(
    overrides: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", *overrides]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("musicgen: ")
    assert output.err.count("\n") == 1
    assert named in output.err
