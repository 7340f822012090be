"""Input that was made to harm is one sentence with its name, and exit status 2; the rest of the input is used."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from calls import Run, calling
from runs import TINY
from safetensors.torch import load_file, save_file

from musicgen.cli.main import main
from musicgen.data.corpus import Corpus
from musicgen.inputs import hash_file
from musicgen.midi.score import fault_of
from soak.world import write_inputs


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small bundles, corpora, states, MIDI files and a run."""
    folder = tmp_path_factory.mktemp("world")
    write_inputs(folder)
    pieces = ["n=1", "bars=1", "picture=false", "states=last"]
    assert main(["generate", f"model={folder / 'pop_bundle'}", *pieces, f"out={folder / 'pieces'}"]) == 0
    assert main(["train", *TINY, f"run_dir={folder / 'run'}", "trainer.max_steps=2", "validation.every=1"]) == 0
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    capsys.readouterr()
    return calling(capsys)


def refused(run: Run, *arguments: object) -> str:
    """The one sentence of a command that refuses."""
    status, _, complaint = run(*arguments)
    assert status == 2, complaint
    assert complaint.startswith("musicgen: ")
    assert complaint.count("\n") == 1, complaint
    assert ".partial" not in complaint
    return complaint


# Files


def test_a_velocity_that_does_not_exist_leaves_out_its_file_and_no_other(run: Run, world: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    good = (world / "midi" / "synthetic_grooves_0.mid").read_bytes()
    place = next(place for place in range(len(good)) if good[place] & 0xF0 == 0x90 and good[place + 2] > 0)
    (tmp_path / "in" / "bad.mid").write_bytes(good[: place + 2] + b"\xf0" + good[place + 3 :])
    for number in range(3):
        shutil.copy(world / "midi" / f"synthetic_grooves_{number}.mid", tmp_path / "in")
    asked = ("source=groove", f"input={tmp_path / 'in'}", f"out={tmp_path / 'out'}", "workers=1")
    assert run("prepare", *asked)[0] == 0
    corpus = Corpus.open(tmp_path / "out")
    (bad,) = [song for song in corpus.index if song.path == "bad.mid"]
    assert "malformed" in str(bad.dropped)
    assert len(corpus.songs()) == 3
    assert all(not fault_of(corpus.score(song)) for song in corpus.songs())


def test_whatever_is_called_like_a_midi_file_has_its_line(run: Run, world: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, name in enumerate(("a.kar", "b.midi", "c.MID")):
        shutil.copy(world / "midi" / f"synthetic_{number}.mid", folder / name)
    os.mkfifo(folder / "pipe.mid")
    (folder / "dangling.mid").symlink_to("nowhere")
    (folder / "folder.mid").mkdir()
    (folder / "device.mid").symlink_to("/dev/zero")
    with (folder / "huge.mid").open("wb") as file:
        file.truncate(1 << 40)  # hashing it would take an hour
    began = time.monotonic()
    assert run("prepare", f"input={folder}", f"out={tmp_path / 'out'}", "workers=1")[0] == 0
    assert time.monotonic() - began < 60
    index = {song.path: song for song in Corpus.open(tmp_path / "out").index}
    assert sorted(index) == sorted(path.name for path in folder.iterdir())
    assert {path for path, song in index.items() if song.split} == {"a.kar", "b.midi", "c.MID"}
    assert index["huge.mid"].sha256 is None
    assert "too large" in str(index["huge.mid"].dropped)
    assert run("prepare", f"verify={tmp_path / 'out'}", f"input={folder}", "workers=1")[0] == 0


# Bundles


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "deep"])
def test_a_bundle_with_a_file_that_is_none(kind: str, name: str, run: Run, world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "pop_bundle", tmp_path / "bundle")
    path = tmp_path / "bundle" / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("[" * 100_000)
    assert name in refused(run, "generate", f"model={tmp_path / 'bundle'}", "bars=1", f"out={tmp_path / 'out'}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", [10**400, float("inf"), -1, "x", float("nan"), [1], True])
@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "min_p", "rhythm_temperature", "rhythm_top_p"])
def test_a_bundle_with_impossible_sampling(name: str, value: object, run: Run, world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "pop_bundle", tmp_path / "bundle")
    edit_json(tmp_path / "bundle" / "config.json", lambda config: config.update(sampling={name: value}))
    asked = ("generate", f"model={tmp_path / 'bundle'}", "n=1", "tokens=5", "picture=false", f"out={tmp_path / 'out'}")
    assert "config.json" in refused(run, *asked)


def test_a_bundle_of_many_thousand_layers_is_refused_before_anything_is_built(
    run: Run, world: Path, tmp_path: Path
) -> None:
    shutil.copytree(world / "pop_bundle", tmp_path / "bundle")
    weights = tmp_path / "bundle" / "model.safetensors"
    for layers, words in ((20_000, "num_layers must be"), (1000, "where the config needs")):
        save_file({f"layers.{number}.x": torch.zeros(1) for number in range(layers)}, weights)
        edit_json(tmp_path / "bundle" / "config.json", lambda config, n=layers: config["model"].update(num_layers=n))
        began = time.monotonic()
        assert words in refused(run, "generate", f"model={tmp_path / 'bundle'}", f"out={tmp_path / 'out'}")
        assert time.monotonic() - began < 10


# States


def change_state(path: Path, tensors: dict[str, Any] | None = None, **texts: Any) -> None:
    from safetensors import safe_open

    held = load_file(path)
    with safe_open(path, "pt") as file:
        about = dict(file.metadata())
    for name, change in (tensors or {}).items():
        held[name] = change(held[name])
    for name, change in texts.items():
        about[name] = change if isinstance(change, str) else json.dumps({**json.loads(about[name]), **change})
    save_file(held, path, about)


STATES: dict[str, Callable[[Path], object]] = {
    "F64 positions": lambda path: change_state(path, {"positions": torch.Tensor.double}),
    "negative positions": lambda path: change_state(path, {"positions": torch.neg}),
    "NaN scales": lambda path: change_state(path, {"log_scale": lambda scale: scale * float("nan")}),
    "infinite memory": lambda path: change_state(path, {"memory": lambda memory: memory + float("inf")}),
    "F64 memory": lambda path: change_state(path, {"memory": torch.Tensor.double}),
    "swapped dimensions": lambda path: change_state(path, {"memory": lambda m: m.transpose(3, 4).contiguous()}),
    "swapped layers": lambda path: change_state(path, {"memory": lambda m: m.transpose(0, 1).contiguous()}),
    "float tokens": lambda path: change_state(path, {"tokens": torch.Tensor.float}),
    "a draw of another size": lambda path: change_state(path, draw={"num_realizations": 10**6}),
    "a draw of 10^400": lambda path: change_state(path, draw={"seed": 10**400}),
    "a draw that is a list": lambda path: change_state(path, draw="[1]"),
    "deep nesting": lambda path: change_state(path, piece="[" * 100_000),
    "Infinity": lambda path: change_state(path, piece={"likelihood": [float("inf")]}),
    "10^400": lambda path: change_state(path, piece={"prompt_bars": 10**400}),
    "texts": lambda path: change_state(path, piece={"ends": ["x"], "variation": "1"}),
    "a setting that is none": lambda path: change_state(path, piece={"setting": {"earlier_tempos": 3}}),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_damaged_state(kind: str, run: Run, world: Path, tmp_path: Path) -> None:
    (source,) = (world / "pieces").glob("*.state")
    shutil.copy(source, tmp_path / "x.state")
    STATES[kind](tmp_path / "x.state")
    asked = ("generate", f"model={world / 'pop_bundle'}", f"from_state={tmp_path / 'x.state'}", "bars=3")
    assert "x.state" in refused(run, *asked, f"out={tmp_path / 'out'}")


# Corpora


def damage_shape(folder: Path) -> None:
    data = (folder / "tokens.npy").read_bytes()
    start = data.index(b"'shape': (") + len(b"'shape': (")
    (folder / "tokens.npy").write_bytes(data[:start] + b"10" * 10 + data[start + 20 :])


def damage_tokens(folder: Path, token: int) -> None:
    tokens = np.load(folder / "tokens.npy")
    tokens[7] = token
    np.save(folder / "tokens.npy", tokens)


def damage_paths(folder: Path, path: str) -> None:
    first, *rest = (folder / "index.jsonl").read_text().splitlines()
    (folder / "index.jsonl").write_text("\n".join([json.dumps({**json.loads(first), "path": path}), *rest]))


CORPORA: dict[str, Callable[[Path], None]] = {
    "a shape of 10^20": damage_shape,
    "a token that does not exist": lambda folder: damage_tokens(folder, 65535),
    "a path that leads out": lambda folder: damage_paths(folder, "../x"),
    "a device": lambda folder: damage_paths(folder, "/dev/zero"),
    "a NUL": lambda folder: damage_paths(folder, "a\0b"),
}


@pytest.mark.parametrize("kind", CORPORA)
def test_a_damaged_corpus(kind: str, run: Run, world: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "corpus", f"out={tmp_path / 'out'}"
    shutil.copytree(world / "pop_corpus", folder)
    CORPORA[kind](folder)
    assert str(folder) in refused(run, "evaluate", "nll", f"model={world / 'pop_bundle'}", f"data={folder}", out)
    assert str(folder) in refused(run, "prepare", f"verify={folder}", f"input={tmp_path}")
    data = ("data.source=corpus", f"data.folder={folder}", f"run_dir={tmp_path / 'out'}")
    assert str(folder) in refused(run, "train", *TINY, *data)


# Checkpoints


def without(*keys: str) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        *parents, last = keys
        for key in parents:
            content = content[key]
        del content[last]

    return change


CHECKPOINTS: dict[str, Callable[[Any], object]] = {
    "no language": without("musicgen", "language"),
    "no weights": without("state_dict"),
    "no step": without("musicgen", "step"),
    "no metrics": without("musicgen", "metrics"),
    "no config": without("musicgen", "config"),
    "no length": without("musicgen", "config", "data", "length"),
    "no trainer": without("musicgen", "config", "trainer"),
    "another language": lambda content: content["musicgen"].update(language="abc"),
    "a step that is a text": lambda content: content["musicgen"].update(step="1"),
    "a record that is a list": lambda content: content.update(musicgen=[1]),
    "keys that are numbers": lambda content: content["state_dict"].update({7: torch.zeros(1)}),
    "a weight that is none": lambda content: content["state_dict"].update({"model.output.bias": None}),
    "a width of 2^20": lambda content: content["musicgen"]["config"]["model"].update(d_model=1 << 20),
    "NaN weights": lambda content: content["state_dict"]["model.output.bias"].fill_(float("nan")),
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_a_damaged_checkpoint_is_not_exported(kind: str, run: Run, world: Path, tmp_path: Path) -> None:
    content = torch.load(world / "run" / "checkpoints" / "last.ckpt", weights_only=True)
    CHECKPOINTS[kind](content)
    torch.save(content, tmp_path / "x.ckpt")
    assert "x.ckpt" in refused(run, "export", f"checkpoint={tmp_path / 'x.ckpt'}", f"out={tmp_path / 'out'}")
    assert not (tmp_path / "out").exists()


METRICS = {
    "metrics that are no text": b"step\n\xff\n",
    "metrics with another column": b"step,\x7frain/loss\n1,2.0\n",
    "metrics at no step": b"step,train/loss\n-inf,2.0\n",
}


@pytest.mark.parametrize("kind", ["no step", "no optimizer", "no loops", *METRICS])
def test_a_damaged_run_is_not_resumed_and_not_changed(kind: str, run: Run, world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "run", tmp_path / "run")
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    content = torch.load(last, weights_only=True)
    damages = {
        "no step": CHECKPOINTS["no step"],
        "no optimizer": without("optimizer_states"),
        "no loops": without("loops"),
    }
    if kind in damages:
        damages[kind](content)
        torch.save(content, last)
    else:
        (tmp_path / "run" / "metrics.csv").write_bytes(METRICS[kind])
    before = hash_file(last)
    more = ("trainer.max_steps=2", "validation.every=1", "resume=auto")
    refused(run, "train", *TINY, f"run_dir={tmp_path / 'run'}", *more)
    assert hash_file(last) == before


# Where commands run


def test_a_working_folder_that_was_deleted(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    line = f'cd "{tmp_path}/here" && rmdir "{tmp_path}/here" && exec "$0" -m musicgen "$@"'
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, "describe", "pe=sine"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "musicgen: the working folder was deleted; change to another folder\n"


def test_a_command_that_is_asked_to_end_does_so_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    words = ["prepare", "source=synthetic", "songs=100000", f"out={tmp_path / 'out'}"]
    process = subprocess.Popen([sys.executable, "-m", "musicgen", *words], stderr=subprocess.PIPE)
    limit = time.monotonic() + 60
    while not list(tmp_path.iterdir()):
        assert time.monotonic() < limit
        time.sleep(0.05)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, complaint = process.communicate(timeout=30)
    assert (process.returncode, complaint) == (143, b"musicgen: stopped\n")
    assert time.monotonic() - began < 5
    assert not list(tmp_path.iterdir())
