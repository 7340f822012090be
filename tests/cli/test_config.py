from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml  # type: ignore[import-untyped]

from musicgen.cli import config as module
from musicgen.cli.config import compose, config_folder, groups, performer_config
from musicgen.cli.describe import DescribeConfig
from musicgen.errors import UserError
from musicgen.model import PerformerConfig
from musicgen.options import Option, options
from musicgen.training.config import TrainConfig


def sentence(*overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        compose("describe", list(overrides))
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_values_are_plain_and_overrides_win() -> None:
    config = compose("describe", ["pe=conv", "model=tiny", "pe.kernel_size=7", "vocab_size=${model.d_ff}"])
    assert (type(config), type(config["model"])) == (dict, dict)
    assert type(config["model"]["decay_exponents"]) is list
    assert (config["pe"]["kernel_size"], config["vocab_size"]) == (7, 128)


def test_composing_leaves_nothing_behind() -> None:
    assert compose("describe", ["model=tiny"]) != compose("describe", [])
    assert compose("describe", []) == compose("describe", [])


@pytest.mark.parametrize(
    ("override", "advice"),
    [
        ("model.layerz=3", "did you mean 'model.num_layers'?"),
        ("layerz=3", "did you mean 'model.num_layers'?"),
        ("modle=tiny", "did you mean 'model'?"),
        ("vocabsize=3", "did you mean 'vocab_size'?"),
        ("zzz=3", "(known: model, pe, vocab_size)"),
        ("pe.kernel_size=3", "(known: pe.name, pe.num_realizations, pe.num_sines,"),
    ],
)
def test_an_unknown_key_is_named_with_the_closest_or_all_known_ones(override: str, advice: str) -> None:
    text = sentence(override)
    assert f"unknown key {override.partition('=')[0]!r}" in text
    assert advice in text


def test_known_keys_are_those_of_the_chosen_options() -> None:
    assert "did you mean 'pe.kernel_size'?" in sentence("pe.kernl_size=3", "pe=conv")
    assert "did you mean" not in sentence("pe.num_sines=3", "pe=conv")


@pytest.mark.parametrize("option", ["huge", "", "null", "tiny,small", "[tiny,small]", "{a:1}", "../pe/sine"])
def test_an_unknown_option_is_named_with_the_known_ones(option: str) -> None:
    text = sentence(f"model={option}")
    assert text.startswith(f"model={option}: ")
    assert "choose from base, mini, paper_24l, small, tiny" in text


@pytest.mark.parametrize(
    "override", ["model.num_layers", "a b", "", "=3", "vocab_size=[1", "+foo=3", "++foo=3", "~model", "--foo"]
)
def test_what_is_not_key_and_value_is_quoted(override: str) -> None:
    text = sentence(override)
    assert repr(override) in text
    assert "write key=value" in text


@pytest.mark.parametrize("value", ["${nothing}", "${oc.env:NOT_SET}", "${vocab_size}", "${odd:1}", "???", "1,2"])
def test_a_value_that_cannot_be_resolved_names_its_key(value: str) -> None:
    assert "vocab_size" in sentence(f"vocab_size={value}")


@pytest.mark.parametrize("override", ["hydra.nothing=1", "hydra/launcher=nothing", "model@here=tiny"])
def test_what_hydra_alone_refuses_is_one_sentence_too(override: str) -> None:
    assert override.partition("=")[0] in sentence(override).replace("/nothing", "")


def test_a_config_file_that_is_not_yaml_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "conf"
    shutil.copytree(config_folder(), folder)
    (folder / "model" / "mine.yaml").write_text("# mine\nnum_layers: [1\n")
    monkeypatch.setattr(module, "config_folder", lambda: folder)
    assert "mine.yaml, line" in sentence("model=mine")


def test_a_config_file_without_keys_is_a_sentence_that_names_its_group() -> None:
    with pytest.raises(UserError, match=r"^model: "):
        performer_config({**compose("describe", []), "model": [1]})


@pytest.mark.parametrize("model", sorted(groups("describe")["model"]))
@pytest.mark.parametrize("pe", sorted(groups("describe")["pe"]))
def test_every_option_is_a_valid_model(model: str, pe: str) -> None:
    config = performer_config(compose("describe", [f"model={model}", f"pe={pe}"]))
    assert config.pe == pe.removesuffix("_ungated").removesuffix("_time")
    assert config.positions == ("time" if pe.endswith("_time") else "token")
    assert config.gated == (not pe.endswith("_ungated"))


@pytest.mark.parametrize("pe", ["ape", "sine", "sine_ungated", "conv", "conv_ungated"])
def test_the_papers_models_are_those_of_the_code(pe: str) -> None:
    name, _, ungated = pe.partition("_")
    paper = PerformerConfig.paper(name, not ungated)  # type: ignore[arg-type]
    config = performer_config(compose("describe", ["model=paper_24l", f"pe={pe}"]))
    if name != "conv":  # the only one that reads it
        config = dataclasses.replace(config, kernel_size=paper.kernel_size)
    assert config.rotated_share == paper.rotated_share
    assert dataclasses.replace(config, rotated=paper.rotated) == paper


def test_every_config_file_has_a_title_and_says_no_key_twice() -> None:
    for file in config_folder().rglob("*.yaml"):
        lines = file.read_text("utf-8").splitlines()
        title = lines[1] if lines[0] == "# @package _global_" else lines[0]
        assert title.startswith("# "), f"{file}: a comment on top is its title"
        if "hydra" not in file.parts:  # keys of ours are explained where they are declared
            assert not [line for line in lines[2:] if "#" in line], file


def sections(kind: Any, prefix: str = "") -> Iterator[tuple[str, Option, Any]]:
    for name, about in options(kind).items():
        hint = get_type_hints(kind)[name]
        if dataclasses.is_dataclass(hint):
            yield from sections(hint, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", about, hint


def test_every_key_is_explained_where_it_is_declared() -> None:
    for kind in (TrainConfig, DescribeConfig):
        for name, about, hint in sections(kind):
            assert about.help or name in ("model", "pe"), name
            assert hint is not None


@pytest.mark.parametrize("group", ["data", "trainer", "logger"])
def test_options_of_a_group_set_keys_of_its_section(group: str) -> None:
    known = {name for name, _, _ in sections(TrainConfig)}
    for option in groups("train")[group]:
        keys = yaml.safe_load((config_folder() / group / f"{option}.yaml").read_text("utf-8"))
        assert {f"{group}.{key}" for key in keys} <= known


def test_what_experiments_share_is_no_experiment() -> None:
    assert not [name for name in groups("train")["experiment"] if "_base" in name]
    with pytest.raises(UserError, match="no such option"):
        compose("train", ["experiment=small/_base"])


def test_out_is_the_folder_of_a_run_too() -> None:
    assert compose("train", ["out=a, [b]"]) == compose("train", ["run_dir=a, [b]"])
    assert compose("train", ["out=a, [b]"])["run_dir"] == "a, [b]"
