from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import run_forked
from runs import TINY, command, losses, start, train, wait_for_step

from musicgen.errors import UserError
from musicgen.languages.registry import load_tokenizer
from musicgen.midi import read_midi
from musicgen.model import load_bundle
from musicgen.training import module as training_module
from musicgen.training import step as training_step
from musicgen.training.checkpoints import load_checkpoint
from musicgen.training.config import TrainConfig
from musicgen.training.folder import check_same_run


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    assert train(folder) == 0
    return folder


def test_a_run_leaves_its_config_its_losses_and_a_model(unbroken: Path) -> None:
    names = {path.relative_to(unbroken).as_posix() for path in unbroken.rglob("*") if path.is_file()}
    bundle = {f"bundle/{name}" for name in ("MODEL_CARD.md", "config.json", "model.safetensors", "tokenizer.json")}
    assert names == bundle | {
        "checkpoints/best.ckpt",
        "checkpoints/last.ckpt",
        "config.json",
        "curves.png",
        "metrics.csv",
    }
    record = json.loads((unbroken / "config.json").read_text())
    assert record["config"]["trainer"]["max_steps"] == 8
    model = load_bundle(unbroken / "bundle")
    assert model.config.vocab_size == len(load_tokenizer(unbroken / "bundle").vocabulary) == 361
    best = load_checkpoint(unbroken / "checkpoints" / "best.ckpt")
    weights = {name.removeprefix("model."): value for name, value in best["state_dict"].items()}
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    card = (unbroken / "bundle" / "MODEL_CARD.md").read_text()
    assert f"validation loss (nats per token): {best['musicgen']['metrics']['val/loss']:.4f}" in card


def test_a_piece_from_every_validation_changes_nothing_else(unbroken: Path, tmp_path: Path) -> None:
    assert train(tmp_path / "run", "validation.sample_bars=2") == 0
    samples = sorted(path.name for path in (tmp_path / "run" / "samples").iterdir())
    assert samples == [f"step_{step:06d}.{suffix}" for step in (4, 8) for suffix in ("mid", "png")]
    assert read_midi(tmp_path / "run" / "samples" / samples[0]).end == 2 * 1920
    assert losses(tmp_path / "run") == losses(unbroken)


def test_everything_is_logged(unbroken: Path) -> None:
    rows = losses(unbroken)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 4, 5, 6, 7, 8, 8]
    for row in rows:
        trained = {"step", "train/loss", "train/learning_rate", "train/gradient_norm"}
        judged = {
            "step",
            "val/loss",
            "val/loss_spread",
            "val/loss_extrapolated",
            "gate/mean",
            "gate/least",
            "gate/most",
        }
        assert set(row) in (trained, judged)


def test_the_loss_falls(tmp_path: Path) -> None:
    assert train(tmp_path / "run", "trainer.max_steps=60", "validation.every=30", "model.d_model=32") == 0
    rows = losses(tmp_path / "run")
    first, last = rows[0]["train/loss"], [row["train/loss"] for row in rows if "train/loss" in row][-1]
    assert last < first - 1
    judged = [row["val/loss"] for row in rows if "val/loss" in row]
    assert judged[-1] < judged[0] < first


@pytest.mark.parametrize(
    "overrides",
    [["accumulate=2"], ["accumulate=4"], ["trainer.checkpoint_activations=true"]],
    ids=["two parts", "four parts", "activations computed again"],
)
def test_how_a_step_is_computed_does_not_change_the_run(unbroken: Path, overrides: list[str], tmp_path: Path) -> None:
    assert train(tmp_path / "run", *overrides) == 0
    for ours, theirs in zip(losses(tmp_path / "run"), losses(unbroken), strict=True):
        assert ours == pytest.approx(theirs, abs=2e-5)


def test_two_processes_train_the_run_of_one(unbroken: Path, tmp_path: Path) -> None:
    machine = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"]
    limits = [override for override in TINY if override.startswith("trainer.")]  # choosing a trainer sets them anew
    done = subprocess.run(
        command(tmp_path / "run", *machine, *limits), capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    for ours, theirs in zip(losses(tmp_path / "run"), losses(unbroken), strict=True):
        assert ours == pytest.approx(theirs, abs=2e-5)


def test_a_run_that_is_killed_again_and_again_is_the_unbroken_run_bit_for_bit(unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for step in (2, 5):
        process = start(folder, "resume=auto")
        wait_for_step(process, step)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert train(folder, "resume=auto") == 0
    assert losses(folder) == losses(unbroken)
    ours, theirs = (load_checkpoint(path / "checkpoints" / "last.ckpt") for path in (folder, unbroken))
    assert all(torch.equal(value, theirs["state_dict"][name]) for name, value in ours["state_dict"].items())
    moments = [checkpoint["optimizer_states"][0]["state"] for checkpoint in (ours, theirs)]
    assert all(
        torch.equal(moments[0][key][name], moments[1][key][name]) for key in moments[0] for name in moments[0][key]
    )


def test_a_run_killed_while_it_writes_a_checkpoint_goes_on_from_the_one_before(unbroken: Path, tmp_path: Path) -> None:
    """The process stops in the middle of its second checkpoint, with half of it on the disk."""
    folder = tmp_path / "run"
    program = (
        "import os, sys, torch\n"
        "from musicgen.cli.main import main\n"
        "from musicgen.training import checkpoints\n"
        "save, calls = torch.save, []\n"
        "def dying(content, file):\n"
        "    calls.append(1)\n"
        "    if len(calls) == 3:\n"  # last at step 3, best at step 4, last at step 6
        "        file.write(b'PK half'); file.flush(); os.kill(os.getpid(), 9)\n"
        "    save(content, file)\n"
        "checkpoints.torch.save = dying\n"
        "main(sys.argv[1:])\n"
    )
    done = run_forked(*command(folder)[3:], program=program)
    assert done.returncode == -signal.SIGKILL
    assert load_checkpoint(folder / "checkpoints" / "last.ckpt")["musicgen"]["step"] == 3
    assert train(folder, "resume=auto") == 0
    assert losses(folder) == losses(unbroken)


def test_a_request_to_stop_saves_and_exits_cleanly(tmp_path: Path) -> None:
    rarely = ["validation.every=100000", "trainer.checkpoint_every=100000"]
    process = start(tmp_path / "run", "trainer.max_steps=100000", *rarely)
    wait_for_step(process, 5)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "resume=auto continues" in output
    step = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.ckpt")["musicgen"]["step"]
    assert step >= 5
    assert max(row["step"] for row in losses(tmp_path / "run")) == step


def test_a_run_of_a_version_without_a_key_goes_on_if_the_key_is_off(
    unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(unbroken, tmp_path / "run")
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    checkpoint = load_checkpoint(last)
    del checkpoint["musicgen"]["config"]["data"]["mix_drums"]
    torch.save(checkpoint, last)
    assert train(tmp_path / "run", "resume=auto", "data.mix_drums=0.5") == 2
    assert "data.mix_drums=0.5: the run in" in capsys.readouterr().err
    assert train(tmp_path / "run", "resume=auto") == 0


def test_a_run_that_is_complete_has_nothing_left_to_do(unbroken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = losses(unbroken)
    assert train(unbroken, "resume=auto") == 0
    assert "resuming from step 8" in capsys.readouterr().out
    assert losses(unbroken) == before


def test_a_run_on_a_corpus_that_changed_is_not_resumed(unbroken: Path) -> None:
    record = json.loads((unbroken / "config.json").read_text("utf-8"))
    check_same_run(record, record, TrainConfig(), lambda *_: [])
    with pytest.raises(UserError, match="the run was trained on another corpus; choose another run_dir"):
        check_same_run({**record, "corpus": "other"}, record, TrainConfig(), lambda *_: [])


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ([], "already holds a run; resume=auto continues it"),
        (["resume=auto", "optimizer.learning_rate=1e-3"], "optimizer.learning_rate=0.001: the run in"),
        (["resume=auto", "trainer.max_steps=9"], "trainer.max_steps=9: the run in"),
        (["resume=auto", "pe=ape", "pe.num_realizations=8"], "num_realizations"),
        (["resume=auto", "data.bars=7"], "data.bars=7: the run in"),
        (["resume=auto", "seed=1"], "seed=1: the run in"),
    ],
)
def test_another_run_in_the_same_folder_is_refused_and_nothing_is_touched(
    unbroken: Path, overrides: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()}
    assert train(unbroken, *overrides) == 2
    assert sentence in capsys.readouterr().err
    assert {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()} == before


def test_what_does_not_make_the_run_may_change(unbroken: Path) -> None:
    assert train(unbroken, "resume=auto", "trainer.log_every=2", "trainer.checkpoint_every=1") == 0


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    for overrides in ([], ["overwrite=true"], ["resume=auto"]):
        assert train(tmp_path, *overrides) == 2
        assert "holds other things than a run" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_damaged_checkpoint_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert train(folder, "trainer.max_steps=3", "optimizer.decay_steps=30") == 0
    path = folder / "checkpoints" / "last.ckpt"
    path.write_bytes(path.read_bytes()[:-500])
    assert train(folder, "trainer.max_steps=4", "optimizer.decay_steps=30", "resume=auto") == 2
    assert "last.ckpt: not a checkpoint that can be read" in capsys.readouterr().err


def test_a_run_is_made_longer_where_its_rate_does_not_depend_on_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    longer = ["optimizer.decay_steps=30", "optimizer.warmup_steps=2"]
    assert train(folder, "trainer.max_steps=5", *longer) == 0
    assert train(folder, "trainer.max_steps=8", *longer, "resume=auto") == 0
    assert train(tmp_path / "at once", "trainer.max_steps=8", *longer) == 0
    trained = [[row for row in losses(path) if "train/loss" in row] for path in (folder, tmp_path / "at once")]
    assert trained[0] == trained[1]


def test_failure_is_noticed_with_step_draw_and_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = training_module.F.cross_entropy
    calls: list[int] = []

    def failing(*arguments: object, **options: object) -> torch.Tensor:
        calls.append(1)
        loss: torch.Tensor = original(*arguments, **options)  # type: ignore[arg-type]
        return loss * float("nan") if len(calls) == 5 else loss

    monkeypatch.setattr(training_module.F, "cross_entropy", failing)
    assert train(tmp_path / "run", "validation.every=100") == 2
    message = capsys.readouterr().err
    assert "training has failed at step 5" in message
    assert "draw " in message
    assert f"{tmp_path}/run/checkpoints/last.ckpt is from step 3" in message
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.ckpt")
    assert all(torch.isfinite(value).all() for value in checkpoint["state_dict"].values())


def test_failure_after_going_on_names_the_checkpoint_it_went_on_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["optimizer.decay_steps=100", "validation.every=100", "trainer.checkpoint_every=100"]
    assert train(tmp_path / "run", *options, "trainer.max_steps=2") == 0
    monkeypatch.setattr(training_step, "EXPLODED", 0.01)
    assert train(tmp_path / "run", *options, "trainer.max_steps=5", "resume=auto") == 2
    message = capsys.readouterr().err
    assert "training has failed at step 3" in message
    assert "last.ckpt is from step 2" in message


def test_a_config_that_cannot_be_trained_throws_nothing_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path / "run", "trainer.max_steps=2") == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    for mistake in ("model.num_heads=3", "trainer=gpu", "seed=99999999999999999999999", "pe.num_sines=0"):
        assert train(tmp_path / "run", "overwrite=true", mistake) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    assert train(tmp_path / "new", "model.num_heads=3") == 2
    assert not (tmp_path / "new").exists()


def test_a_best_model_without_a_last_one_is_not_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert train(folder, "trainer.checkpoint_every=100", "validation.every=2", "trainer.max_steps=4") == 0
    (folder / "checkpoints" / "last.ckpt").unlink()
    assert train(folder, "resume=auto", "model.d_model=32", "validation.every=100", "trainer.max_steps=2") == 0
    assert load_bundle(folder / "bundle").config.d_model == 32


def test_a_damaged_best_model_leaves_the_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert train(folder) == 0
    (folder / "checkpoints" / "best.ckpt").write_bytes(b"damage")
    assert train(folder, "resume=auto") == 0
    assert "best.ckpt: not a checkpoint that can be read" in capsys.readouterr().out
    assert "steps: 8" in (folder / "bundle" / "MODEL_CARD.md").read_text()


def test_an_interrupt_is_130_and_no_traceback(tmp_path: Path) -> None:
    process = start(tmp_path / "run", "trainer.max_steps=100000", "validation.every=100000")
    wait_for_step(process, 5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.strip()) == (130, "musicgen: interrupted")


def test_a_full_disk_in_the_log_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Path.open

    def failing(path: Path, mode: str = "r", **options: Any) -> Any:
        if mode == "a" and path.name == "metrics.csv":
            raise OSError(28, os.strerror(28))
        return original(path, mode, **options)

    monkeypatch.setattr(Path, "open", failing)
    assert train(tmp_path / "run") == 2
    assert "metrics.csv: cannot be written (No space left on device)" in capsys.readouterr().err


def test_an_explosion_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "run", "model.weight_std=3.0", "model.embedding_std=3.0") == 2
    assert "training has failed at step 1" in capsys.readouterr().err


def test_training_stops_when_validation_no_longer_improves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["validation.every=1", "validation.patience=2", "trainer.max_steps=200", "data.transpose=0"]
    assert train(tmp_path / "run", *options, "optimizer.learning_rate=1e-2", "optimizer.warmup_steps=0") == 0
    assert "has not fallen for 2 validations" in capsys.readouterr().out
    judged = [row["val/loss"] for row in losses(tmp_path / "run") if "val/loss" in row]
    assert len(judged) < 200
    assert min(judged) == judged[-3]
    before = losses(tmp_path / "run")
    again = [*options, "optimizer.learning_rate=1e-2", "optimizer.warmup_steps=0", "resume=auto"]
    assert train(tmp_path / "run", *again) == 0  # it does not train beyond where it stopped
    assert losses(tmp_path / "run") == before


@pytest.mark.parametrize(("name", "leaves"), [("tensorboard", "tensorboard"), ("wandb", "wandb")])
def test_other_loggers_need_no_account(name: str, leaves: str, tmp_path: Path) -> None:
    assert train(tmp_path / "run", f"logger={name}", "trainer.max_steps=2") == 0
    assert any((tmp_path / "run" / leaves).iterdir())


def test_bfloat16_is_used_only_where_it_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from musicgen.runtime import bfloat16_works

    status = train(tmp_path / "run", "trainer=cpu", "trainer.precision=bf16", "trainer.max_steps=2")
    if bfloat16_works("cpu"):
        assert status == 0
    else:
        assert status == 2
        assert "trainer.precision=bf16: this machine cannot" in capsys.readouterr().err


def test_compiled_layers_train_the_same_run(unbroken: Path, tmp_path: Path) -> None:
    process = start(tmp_path / "run", "trainer.compile=true", "validation.every=100")
    _, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors
    ours, theirs = ([row for row in losses(path) if "train/loss" in row] for path in (tmp_path / "run", unbroken))
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, abs=2e-5)


def test_a_run_of_a_version_without_newer_options_resumes(tmp_path: Path) -> None:
    assert train(tmp_path / "run", "trainer.max_steps=4", "optimizer.decay_steps=30") == 0
    path = tmp_path / "run" / "checkpoints" / "last.ckpt"
    checkpoint = torch.load(path, weights_only=True)
    config = checkpoint["musicgen"]["config"]
    for name in ("decay_positions", "short_conv", "norm", "gated_ff", "head_norm", "output_gate"):
        del config["model"][name]
    for name in ("positions", "time_resolution", "rotated", "shortest_beats", "longest_bars", "learn_frequencies"):
        config["pe"].pop(name, None)
    torch.save(checkpoint, path)
    assert train(tmp_path / "run", "optimizer.decay_steps=30", "resume=auto", "pe.rotated=0.5") == 2
    assert train(tmp_path / "run", "optimizer.decay_steps=30", "resume=auto", "model.norm=pre") == 2
    assert train(tmp_path / "run", "optimizer.decay_steps=30", "resume=auto") == 0
    assert losses(tmp_path / "run")[-1]["step"] == 8
