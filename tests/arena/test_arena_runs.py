from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from arena_files import write_cifar, write_citations, write_reviews
from runs import losses

from musicgen.arena.scoring import interval
from musicgen.arena.yardsticks import yardsticks
from musicgen.cli.main import main
from musicgen.training.checkpoints import load_checkpoint

SMALL = (
    "model.num_layers=1",
    "model.num_heads=2",
    "model.d_model=16",
    "model.d_ff=16",
    "model.num_features=8",
    "batch_size=4",
    "trainer.threads=1",
    "trainer.max_steps=6",
    "trainer.checkpoint_every=2",
    "trainer.log_every=1",
    "validation.every=3",
    "validation.examples=10",
    "validation.draws=2",
)
LISTOPS = ("task=listops_tiny", "task.train=60", "task.valid=12", "task.test=30", "pe=sine", "pe.num_realizations=8")


def train(folder: Path, *overrides: str) -> int:
    return main(["arena", "train", *SMALL, f"run_dir={folder}", *overrides])


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arena") / "unbroken"
    assert train(folder, *LISTOPS) == 0
    return folder


def test_a_run_leaves_its_config_its_losses_and_checkpoints(unbroken: Path) -> None:
    names = {path.relative_to(unbroken).as_posix() for path in unbroken.rglob("*") if path.is_file()}
    assert names == {"checkpoints/best.ckpt", "checkpoints/last.ckpt", "config.json", "curves.png", "metrics.csv"}
    rows = losses(unbroken)
    assert [row["step"] for row in rows] == [1, 2, 3, 3, 4, 5, 6, 6]
    assert {"val/loss", "val/accuracy", "gate/mean"} <= set(rows[3])


def test_a_run_that_was_stopped_ends_as_the_unbroken_run_bit_for_bit(
    unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from musicgen.arena.training import ArenaModule

    original = ArenaModule.loss

    def interrupted(self: ArenaModule, part: object, draw: object) -> torch.Tensor:
        if part.step == 5:  # type: ignore[attr-defined]
            raise KeyboardInterrupt
        return original(self, part, draw)  # type: ignore[arg-type]

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(ArenaModule, "loss", interrupted)
        assert train(folder, *LISTOPS) == 130
    assert load_checkpoint(folder / "checkpoints" / "last.ckpt")["musicgen"]["step"] == 4
    assert train(folder, *LISTOPS, "resume=auto") == 0
    assert losses(folder) == losses(unbroken)
    ours, theirs = (load_checkpoint(path / "checkpoints" / "last.ckpt") for path in (folder, unbroken))
    assert all(torch.equal(value, theirs["state_dict"][name]) for name, value in ours["state_dict"].items())


def test_how_a_batch_is_divided_does_not_change_the_run(unbroken: Path, tmp_path: Path) -> None:
    assert train(tmp_path / "run", *LISTOPS, "accumulate=2") == 0
    for ours, theirs in zip(losses(tmp_path / "run"), losses(unbroken), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=2e-5)


def test_runs_are_measured_beside_simple_rules(
    unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["arena", "evaluate", f"runs={unbroken}", "batch=7", f"out={tmp_path / 'table.csv'}"]
    assert main(words) == 0
    output = capsys.readouterr().out
    with (tmp_path / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [
        "majority",
        "root operator",
        "root operator and its digits",
        str(unbroken),
    ]
    assert rows[-1]["encoding"] == "sine"
    accuracy = float(rows[-1]["accuracy"])
    assert accuracy == pytest.approx(round(30 * accuracy) / 30, abs=1e-4)
    assert f"{accuracy:.1%}" in output
    assert main([*words[:3], "batch=30"]) == 0  # the same, however examples are grouped
    assert f"{accuracy:.1%}" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("task", "overrides"),
    [
        ("text", ["pe=conv", "pe.kernel_size=8", "task.length=100", "model.pooling=mean", "model.attention=relu"]),
        ("retrieval", ["pe=rope", "task.length=100"]),
        ("image16", ["pe=conv", "pe.kernel_size=3", "model.axes=2", "model.attention=softmax"]),
    ],
)
def test_a_miniature_of_each_task_is_prepared_trained_and_measured(
    task: str, overrides: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if task == "text":
        write_reviews(tmp_path / "files", 60)
    elif task == "retrieval":
        write_citations(tmp_path / "files", 60)
    else:
        write_cifar(tmp_path / "files", "python", 10)
    data = tmp_path / "data"
    assert main(["arena", "prepare", f"task={task}", f"input={tmp_path / 'files'}", f"out={data}"]) == 0
    options = ["trainer.max_steps=2", "validation.every=1", "pe.num_realizations=8", *overrides]
    options = [word for word in options if not (word.startswith("pe.num_r") and "pe=rope" in overrides)]
    assert train(tmp_path / "run", f"task={task}", f"task.folder={data}", *options) == 0
    capsys.readouterr()
    assert main(["arena", "evaluate", f"runs={tmp_path / 'run'}", "draws=1"]) == 0
    best = float(capsys.readouterr().out.splitlines()[2].split("%")[0].split()[-1])
    assert best > {"text": 90, "retrieval": 80, "image16": 90}[task]  # the yardstick solves what was made so


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "task=text", "task.folder=null"], "task.folder is missing"),
        (["train", "task=text"], "data/arena/text/task.json: the file is missing"),
        (["train", "pe=rope_time"], "classifiers count tokens"),
        (["train", "trainer.compile=true"], "trainer.compile=true: is for `musicgen train`"),
        (["train", "task=lisstops"], "there is no such option; choose from image, image16, listops"),
        (["train", "model.num_head=2"], "unknown key 'model.num_head': did you mean 'model.num_heads'?"),
        (["evaluate", "runs=nowhere"], "nowhere: there is no checkpoint in it"),
        (["evaluate"], "runs is missing"),
        (["prepare", "task=image", "out=x"], "task=image: needs files"),
        (["prepare", "task=image", "out=x", "input=nowhere"], "nowhere: there is no such folder"),
        (["prepare", "task=chess", "out=x"], "task=chess: takes one of listops_tiny"),
        (["trian"], "did you mean 'train'?"),
    ],
)
def test_mistakes_are_a_sentence_and_leave_nothing(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["arena", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_a_classifier_is_no_model_of_music(
    unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", f"checkpoint={unbroken / 'checkpoints' / 'best.ckpt'}", f"out={tmp_path / 'bundle'}"]
    assert main(words) == 2
    assert "not a checkpoint of `musicgen train`" in capsys.readouterr().err


def test_the_interval_of_a_share_holds_it_and_narrows() -> None:
    for right in (0.0, 0.3, 1.0):
        few, many = interval(right, 20), interval(right, 2000)
        assert 0 <= few[0] <= right <= few[1] <= 1 + 1e-12
        assert few[1] - few[0] > many[1] - many[0]
    assert interval(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)


def test_yardsticks_know_only_what_the_classifier_reads() -> None:
    from musicgen.arena.dataset import About, Dataset

    sequences = [f"{'x' * 20} {'good' if number % 2 else 'bad'} {number}".encode() for number in range(40)]
    numbered = [((number,), number % 2) for number in range(40)]
    dataset = Dataset.gather(
        About("text", 256, 2, None, ""),
        sequences,
        {"train": numbered[:20], "valid": numbered[20:30], "test": numbered[30:]},
    )
    assert yardsticks(dataset, 100)["bag of words"] == 1.0
    assert yardsticks(dataset, 20)["bag of words"] == 0.5
