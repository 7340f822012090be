"""A bundle comes back bit for bit, and a bad one is refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from musicgen.errors import UserError
from musicgen.model import PerformerConfig, PerformerLM, load_bundle, save_bundle
from musicgen.model.bundle import read_bundle

SMALL = {"vocab_size": 11, "num_layers": 2, "num_heads": 2, "d_model": 8, "d_ff": 12, "num_features": 6}


@pytest.fixture
def model() -> PerformerLM:
    return PerformerLM(PerformerConfig(**SMALL, num_realizations=4, pe="conv", kernel_size=5, decay="learnt"))


@pytest.fixture
def bundle(model: PerformerLM, tmp_path: Path) -> Path:
    save_bundle(model, tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.mark.parametrize("pe", ["none", "ape", "sine", "conv", "rope"])
@pytest.mark.parametrize("decay", ["none", "fixed", "learnt"])
def test_a_round_trip_is_bit_exact(pe: str, decay: str, tmp_path: Path) -> None:
    config = PerformerConfig(**SMALL, num_realizations=4, pe=pe, decay=decay, decay_exponents=(2, 4))  # type: ignore[arg-type]
    model = PerformerLM(config).eval()
    save_bundle(model, tmp_path / "bundle", card="# Mine\n")
    loaded = load_bundle(tmp_path / "bundle")
    assert loaded.config == config
    tokens = torch.randint(11, (2, 40))
    with torch.no_grad():
        assert torch.equal(model(tokens, model.draw(3)), loaded(tokens, loaded.draw(3)))
    assert (tmp_path / "bundle" / "MODEL_CARD.md").read_text() == "# Mine\n"
    loaded.train()(tokens, loaded.draw(0)).sum().backward()  # and it can be trained on


def test_a_bundle_is_four_plain_files_and_replaces_only_a_bundle(model: PerformerLM, bundle: Path) -> None:
    assert sorted(path.name for path in bundle.iterdir()) == [
        "MODEL_CARD.md",
        "config.json",
        "model.safetensors",
    ]
    save_bundle(model, bundle)
    (bundle / "diary.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds other things than a model bundle \(diary.txt\)"):
        save_bundle(model, bundle)
    assert (bundle / "diary.txt").read_text() == "mine"
    assert [path.name for path in bundle.parent.iterdir()] == ["bundle"]


@pytest.mark.parametrize("pe", ["sine", "conv", "ape"])
def test_matrices_can_be_rounded_to_half_their_size_but_codes_and_gates_are_kept(pe: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = PerformerConfig(vocab_size=50, num_layers=2, num_heads=2, d_model=64, d_ff=256, pe=pe)  # type: ignore[arg-type]
    model = PerformerLM(config).eval()
    for name, half in (("whole", False), ("half", True)):
        save_bundle(model, tmp_path / name, training={"length": 7}, half=half)
    loaded = load_bundle(tmp_path / "half")
    for (name, ours), theirs in zip(model.state_dict().items(), loaded.state_dict().values(), strict=True):
        assert theirs.dtype == torch.float32
        rounded = ours.dim() > 1 and not name.startswith("encoding.")
        assert torch.equal(theirs, ours.half().float() if rounded else ours), name
    whole, half_size = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half"))
    assert 0.45 < half_size / whole < 0.6
    assert read_bundle(tmp_path / "half").training == {"length": 7}
    assert read_bundle(tmp_path / "whole").training == {"length": 7}


def test_a_bundle_need_not_say_how_it_was_trained(bundle: Path) -> None:
    assert read_bundle(bundle).training == {}
    edit_config(lambda d: d.update(training=["long"]))(bundle)
    assert read_bundle(bundle).training == {}


def edit_config(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    def edit(bundle: Path) -> None:
        description = json.loads((bundle / "config.json").read_text())
        change(description)
        (bundle / "config.json").write_text(json.dumps(description))

    return edit


def tamper(bundle: Path) -> None:
    weights = load_file(bundle / "model.safetensors")
    weights["output.bias"] += 1
    save_file(weights, bundle / "model.safetensors")


def round_codes(bundle: Path) -> None:
    weights = load_file(bundle / "model.safetensors")
    save_file({name: tensor.half() for name, tensor in weights.items()}, bundle / "model.safetensors")


def truncate(bundle: Path) -> None:
    content = (bundle / "model.safetensors").read_bytes()
    (bundle / "model.safetensors").write_bytes(content[:-100])


def other_weights(bundle: Path) -> None:
    save_file({"layers.0.x": torch.zeros(2), "layers.1.x": torch.zeros(2)}, bundle / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (tamper, "not what config.json says"),
        (truncate, "damaged"),
        (round_codes, "where the config needs"),
        (other_weights, "where the config needs"),
        (lambda bundle: (bundle / "model.safetensors").unlink(), "missing"),
        (lambda bundle: (bundle / "config.json").unlink(), "missing"),
        (lambda bundle: (bundle / "config.json").write_text("{"), "JSON"),
        (lambda bundle: (bundle / "config.json").write_text("[" * 100_000), "JSON"),
        (lambda bundle: (bundle / "config.json").write_bytes(b"\xff\xfe\x00"), "JSON"),
        (lambda bundle: (bundle / "config.json").write_text("[]"), "it is not an object"),
        (edit_config(lambda d: d.update(format=99)), "format"),
        (edit_config(lambda d: d.update(model=None)), "model is not an object"),
        (edit_config(lambda d: d["model"].update(_target_="os.system")), "unknown key '_target_'"),  # type: ignore[attr-defined]
        (edit_config(lambda d: d["model"].pop("vocab_size")), "vocab_size"),  # type: ignore[attr-defined]
        (edit_config(lambda d: d["model"].update(num_layers=1000)), "holds 2 layers"),  # type: ignore[attr-defined]
        (edit_config(lambda d: d["model"].update(d_ff=1_000_000)), "where the config needs"),  # type: ignore[attr-defined]
        (edit_config(lambda d: d["model"].update(pe="magic")), "pe must be one of"),  # type: ignore[attr-defined]
        (edit_config(lambda d: d["model"].update(dropout="lots")), "dropout"),  # type: ignore[attr-defined]
    ],
)
def test_a_bad_bundle_gives_one_sentence(bundle: Path, damage: Callable[[Path], object], sentence: str) -> None:
    damage(bundle)
    with pytest.raises(UserError, match=sentence) as error:
        load_bundle(bundle)
    assert str(bundle) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_model_saves_itself(model: PerformerLM, tmp_path: Path) -> None:
    model.save_bundle(tmp_path / "mine")
    assert load_bundle(tmp_path / "mine").config == model.config


def test_a_missing_bundle_gives_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such model bundle"):
        load_bundle(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"not a model \(config.json is missing\); give a run or a bundle"):
        load_bundle(tmp_path)
