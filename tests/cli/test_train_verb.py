from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hydra
import pytest
import yaml  # type: ignore[import-untyped]
from forked import Forked, run_forked
from submitit.slurm.slurm import _make_sbatch_string

from musicgen.cli.config import compose, config_folder, groups
from musicgen.cli.main import main
from musicgen.cli.sweep import combinations, job_name
from musicgen.errors import UserError
from musicgen.model import load_bundle
from musicgen.options import build
from musicgen.sampling.music_model import load_music_model
from musicgen.training.config import TrainConfig
from musicgen.training.initial import model_size

QUICK = ["experiment=smoke", "debug=quick", "model.num_layers=1", "data.songs=6", "data.bars=4", "trainer.threads=1"]
EXPERIMENTS = list(groups("train")["experiment"])


def config(*overrides: str) -> TrainConfig:
    return build(TrainConfig, compose("train", list(overrides)))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_is_a_run(experiment: str) -> None:
    run = config(f"experiment={experiment}")
    model_size(run, 361, None)
    assert run.run_dir == Path("runs") / experiment


@pytest.mark.parametrize(
    ("pe", "rate", "decay", "reach"),
    [
        ("ape", 1e-4, 62880, None),
        ("sine", 2e-4, 55020, None),
        ("sine_ungated", 2e-4, 55020, None),
        ("conv", 2e-4, 55020, 128),
        ("conv_ungated", 2e-4, 55020, 512),
    ],
)
def test_pop_piano_has_the_papers_values(pe: str, rate: float, decay: int, reach: int | None) -> None:
    run = config(f"experiment=pop_piano/{pe}")
    model = model_size(run, 361, None)
    assert (model.num_layers, model.num_heads, model.d_model, model.d_ff, model.dropout) == (24, 8, 512, 2048, 0.1)
    assert (model.feature_map, model.num_features, model.num_realizations) == ("favor", 128, 64)
    assert (run.data.length, run.data.transpose, run.batch_size) == (2048, 6, 4)
    optimizer = run.optimizer
    assert (optimizer.learning_rate, optimizer.final_learning_rate, optimizer.warmup_steps) == (rate, 5e-6, 200)
    assert (optimizer.decay_steps, optimizer.gradient_clip, optimizer.feature_redraw) == (decay, 0.5, 0.05)
    assert run.trainer.max_steps == 200 * 393  # epochs of 1,572 songs, four to a step
    if reach is not None:
        assert model.kernel_size == reach
    if pe.startswith("sine"):
        assert model.num_sines == 5


@pytest.mark.parametrize("pe", ["ape", "sine", "conv"])
def test_groove_has_the_papers_values(pe: str) -> None:
    run = config(f"experiment=groove/{pe}")
    model = model_size(run, 794, None)
    assert (run.data.length, run.data.transpose, run.batch_size) == (512, 5, 10)
    assert (run.optimizer.learning_rate, run.optimizer.final_learning_rate) == (4e-4, 2e-5)
    assert (run.optimizer.warmup_steps, run.optimizer.feature_redraw) == (1000, 40)
    assert run.trainer.max_steps == 24 * 553  # epochs of 5,522 files, ten to a step
    assert (model.num_sines if pe == "sine" else 8, model.kernel_size) == (8, 128)


def test_a_decay_joins_any_encoding() -> None:
    for option in groups("train")["pe"]:
        assert model_size(config(f"pe={option}", "model.decay=fixed"), 361, None).decay == "fixed"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trainer.max_step=3"], "did you mean 'trainer.max_steps'?"),
        (["trainer.max_steps=many"], "trainer.max_steps=many: takes a whole number"),
        (["trainer.max_steps=0"], "trainer.max_steps=0: takes a whole number (1 or more)"),
        (["optimizer.learning_rate=fast"], "optimizer.learning_rate=fast: takes a number"),
        (["optimizer.learning_rate=1e-9"], "optimizer.final_learning_rate=5e-06: takes"),
        (["optimizer.feature_redraw=1.5"], "optimizer.feature_redraw=1.5: takes a probability"),
        (["trainer.precision=fp8"], "trainer.precision=fp8: takes one of float32, bf16"),
        (["trainer.devices=none"], "trainer.devices=none: takes a whole number (1 or more) or auto"),
        (["batch_size=6", "accumulate=4"], "accumulate=4: takes a number that divides batch_size=6"),
        (["resume=yes"], "resume="),
        (["data=pop_piano", "data.folder=/nowhere"], "data.folder=/nowhere: no such folder; `musicgen prepare"),
        (["data=pop_piano", "data.folder="], "data.folder is missing"),
        (["pe=sinus"], "choose from ape"),
        (["experiment=none"], "choose from"),
        (["model.num_heads=7"], "d_model"),
        (["logger=neptune"], "choose from csv"),
        (["trainer=gpu"], "torch finds no GPU"),
        (["trainer=fsdp", "trainer.accelerator=cpu", "trainer.precision=float32"], "needs GPUs"),
        (["batch_size=3", "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"], "cannot be divided"),
        (["optimizer=adam"], "optimizer: takes several keys"),
        (["data.songs=2"], "data.songs=2: takes a whole number (3 or more)"),
        (["optimizer.decay_steps=0"], "optimizer.decay_steps=0: takes more than warmup_steps=200"),
        (["optimizer.learning_rate=-1"], "optimizer.learning_rate=-1: takes a number (above 0)"),
        (["trainer.num_nodes=2"], "trainer.strategy=single: is for one process"),
        (["trainer.devices=2"], "trainer.strategy=single: is for one process"),
        (["seed=99999999999999999999999"], "seed="),
        (["data.length=1e9"], "data.length="),
        (["data.folder=somewhere"], "data.folder=somewhere: is for a prepared corpus; choose data=pop_piano"),
        (["overwrite=true", "resume=auto"], "choose one"),
        (["hydra.run.dir=x"], "is for sweeps (-m)"),
        (["optimzer.learning_rate=1"], "did you mean 'optimizer'?"),
        (["modle=tiny"], "did you mean 'model'?"),
        (
            ["trainer.max_steps=1,2"],
            "trainer.max_steps=1,2: takes one value; with -m, one model",
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_names_its_key(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *arguments, f"run_dir={tmp_path}/run"]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert len(message.strip().splitlines()) == 1
    assert not any((tmp_path / "run").rglob("*.ckpt"))


def test_help_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(experiment in text for experiment in EXPERIMENTS)
    assert main(["train", "--cfg", "job", "experiment=smoke"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == compose("train", ["experiment=smoke"])


def test_export_takes_a_run_or_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(["train", *QUICK, f"run_dir={run}"]) == 0
    assert main(["export", f"checkpoint={run}", f"out={tmp_path}/a"]) == 0
    assert main(["export", f"checkpoint={run}/checkpoints/last.ckpt", f"out={tmp_path}/b"]) == 0
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (run / "bundle" / "model.safetensors").read_bytes()
    assert load_bundle(tmp_path / "b").config == load_bundle(tmp_path / "a").config
    assert (
        main(
            [
                "export",
                f"checkpoint={run}",
                f"out={tmp_path}/d",
                "half=true",
                "top_p=0.8",
                "rhythm_temperature=0.7",
                "onnx=true",
            ]
        )
        == 0
    )
    sampling = load_music_model(tmp_path / "d").sampling
    assert (sampling.top_p, sampling.rhythm_temperature) == (0.8, 0.7)
    assert {path.name for path in (tmp_path / "d").iterdir()} - {path.name for path in (tmp_path / "a").iterdir()} == {
        "step.onnx",
        "step.json",
    }
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in "ad"]
    assert sizes[1] < 0.6 * sizes[0]
    capsys.readouterr()
    for arguments, sentence in [
        ([], "checkpoint is missing"),
        ([f"checkpoint={run}"], "out is missing"),
        ([f"checkpoint={tmp_path}/none", f"out={tmp_path}/c"], "no such checkpoint"),
        ([f"checkpoint={tmp_path}", f"out={tmp_path}/c"], "not the folder of a run"),
        ([f"checkpoint={run}", f"out={run}"], "holds other things than a model bundle"),
        ([f"checkpoint={run}", f"out={tmp_path}/c", "temperature=-1"], "temperature=-1"),
    ]:
        assert main(["export", *arguments]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("name", ["x" * 300, "file", "file/below"])
def test_a_folder_that_cannot_be_is_one_sentence(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["train", *QUICK, f"run_dir={tmp_path}/{name}"]) == 2
    complaint = capsys.readouterr().err
    assert f"{tmp_path}/{name}" in complaint
    assert complaint.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_a_link_to_a_run_may_be_overwritten(tmp_path: Path) -> None:
    assert main(["train", *QUICK, f"run_dir={tmp_path}/run"]) == 0
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert main(["train", *QUICK, f"run_dir={tmp_path}/link", "overwrite=true", "seed=3"]) == 0


def test_no_experiment_and_no_debug_can_be_said() -> None:
    assert compose("train", ["experiment=null", "debug=null"]) == compose("train", [])


class TestSweep:
    def test_every_combination_is_a_job(self) -> None:
        jobs = combinations(["pe=ape,sine", "seed=1,2,3", "batch_size=4", "hydra/launcher=slurm"])
        assert len(jobs) == 6
        assert jobs[0] == ["pe=ape", "seed=1", "batch_size=4"]

    def test_a_sweep_trains_a_model_for_each(self, tmp_path: Path) -> None:
        done = run_forked("train", "-m", "pe=ape,none", *QUICK, "run_dir=run", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [load_bundle(tmp_path / "run" / pe / "bundle").config.pe for pe in ("ape", "none")] == ["ape", "none"]

    @pytest.mark.parametrize(
        ("arguments", "name"),
        [
            (["experiment=small/ape", "seed=0", "batch_size=4"], "small.ape_s0"),
            (["pe=sine", "model.decay=fixed", "seed=12"], "sine_model.decay=fixed_s12"),
            (["batch_size=4"], "run"),
        ],
    )
    def test_a_job_is_named_by_what_makes_it_different(self, arguments: list[str], name: str) -> None:
        assert job_name(arguments, ["batch_size"], "train") == name

    @pytest.mark.parametrize("arguments", [["pe=ape,sinus"], ["seed=1,x"], ["seed=1,", "pe=[", "x"]])
    def test_a_mistake_in_one_job_is_found_before_the_first(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["train", "-m", *arguments]) == 2
        assert capsys.readouterr().err.startswith("musicgen: ")

    def test_a_model_that_cannot_be_is_found_before_the_first(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["train", "-m", *QUICK, "model.num_heads=1,3", f"run_dir={tmp_path}/run"]) == 2
        assert "num_heads" in capsys.readouterr().err
        assert not (tmp_path / "run").exists()

    def test_help_is_there_in_a_sweep_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["train", "-m", "--help"]) == 0
        assert "usage: musicgen train" in capsys.readouterr().out

    def test_a_job_whose_folder_is_taken_is_named_and_the_others_train_in_any_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "it's, a=b [c]"
        words = ["train", "-m", *QUICK, f"run_dir={folder}"]
        first = run_forked(*words, "seed=1", cwd=tmp_path)
        (folder / "s1").mkdir()
        (folder / "s1" / "thesis").write_text("mine")
        second = run_forked(*words, "seed=1,2", cwd=tmp_path)
        assert (first.returncode, second.returncode) == (0, 2)
        assert "seed=1" in second.stderr
        assert "holds other things than a run" in second.stderr
        assert (folder / "run" / "bundle").is_dir()
        assert (folder / "s2" / "bundle").is_dir()

    def test_a_request_to_stop_ends_the_whole_sweep_and_its_log_can_be_followed(self, tmp_path: Path) -> None:
        long = ["trainer.max_steps=100000", "trainer.log_every=1", "validation.every=100000"]
        process = Forked("train", "-m", "pe=ape,none", *QUICK, *long, "run_dir=run", cwd=tmp_path)
        try:
            assert any(line.startswith("step 5:") for line in process.stdout)  # while it is training
            process.terminate()
            output, _ = process.communicate(timeout=100)
        finally:
            process.kill()
        assert process.returncode == 0
        assert "not trained: the sweep was asked to stop" in output
        assert [folder.name for folder in (tmp_path / "run").iterdir()] == ["ape"]

    def test_a_job_may_have_several_processes(self, tmp_path: Path) -> None:
        machine = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2", "trainer.threads=1"]
        words = [
            sys.executable,
            "-m",
            "musicgen",
            "train",
            "-m",
            *QUICK,
            *machine,
            "trainer.max_steps=2",
            "run_dir=run",
        ]
        done = subprocess.run(
            [*words, "seed=4"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200
        )
        assert done.returncode == 0, done.stderr
        assert list((tmp_path / "run").rglob("model.safetensors"))

    def test_a_cluster_gets_a_job_script(self, tmp_path: Path) -> None:
        with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
            composed = hydra.compose("train", ["hydra/launcher=slurm"], return_hydra_config=True)
        launcher = composed.hydra.launcher
        assert launcher._target_.endswith("SlurmLauncher")
        script = _make_sbatch_string(
            "python -m musicgen train",
            folder=tmp_path,
            time=launcher.timeout_min,
            nodes=launcher.nodes,
            ntasks_per_node=launcher.tasks_per_node,
            gpus_per_node=launcher.gpus_per_node,
            cpus_per_task=launcher.cpus_per_task,
            mem=f"{launcher.mem_gb}GB",
        )
        assert "#SBATCH --gpus-per-node=1" in script
        assert "#SBATCH --time=2880" in script

    def test_submitit_runs_a_job_here(self, tmp_path: Path) -> None:
        words = ["-m", "musicgen", "train", "-m", *QUICK, "run_dir=run", "seed=5", "hydra/launcher=submitit_local"]
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200
        )
        assert done.returncode == 0, done.stderr
        assert list((tmp_path / "run").rglob("model.safetensors"))


class TestTyped:
    def test_a_missing_and_an_unknown_key_are_named(self) -> None:
        values = compose("train", [])
        del values["trainer"]["threads"]
        with pytest.raises(UserError, match=r"the key trainer.threads is missing"):
            build(TrainConfig, values)
        values["trainer"] |= {"threads": None, "colour": "red"}
        with pytest.raises(UserError, match=r"unknown key trainer.colour"):
            build(TrainConfig, values)
