"""`musicgen generate`: what is in the folder after it, however it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
import torch

import musicgen
from musicgen.cli import main as command
from musicgen.cli.generate import GenerateConfig
from musicgen.errors import UserError
from musicgen.languages import Remi
from musicgen.languages.registry import tokenizer_json
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import read_midi, write_midi
from musicgen.model import PerformerConfig, PerformerLM, save_bundle
from musicgen.options import options
from musicgen.sampling.music_model import load_music_model

ROOT = Path(__file__).parents[2]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows nothing, on disk."""
    torch.manual_seed(0)
    config = PerformerConfig(vocab_size=361, num_layers=1, num_heads=2, d_model=32, d_ff=64, num_features=16)
    folder = tmp_path_factory.mktemp("models") / "nothing"
    save_bundle(PerformerLM(config), folder, files={"tokenizer.json": tokenizer_json(Remi())})
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], bundle: Path, tmp_path: Path) -> Run:
    """The command with that model: its exit status, what it printed, and what it complained of."""

    def call(*arguments: object) -> tuple[int, str, str]:
        given = [f"model={bundle}", f"out={tmp_path}/out", "threads=1", *map(str, arguments)]
        keys = [argument.partition("=")[0] for argument in given]
        given = [argument for place, argument in enumerate(given) if keys[place] not in keys[place + 1 :]]
        status = command.main(["generate", *given])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def linked(folder: Path) -> set[str]:
    """The files that the page of a folder points to."""
    page = (folder / "index.html").read_text("utf-8")
    return {unquote(name) for name in re.findall(r"(?:href|src)=\"([^\"#]+)\"", page)}


def test_a_call_writes_pieces_records_pictures_sound_and_a_page(run: Run, bundle: Path, tmp_path: Path) -> None:
    status, printed, complaint = run("n=2", "bars=2", "seed=5", "wav=true", "key=C")
    assert (status, complaint) == (0, "")
    assert f"open {tmp_path}/out/index.html" in printed
    names = [f"piece_{number}.{suffix}" for number in range(2) for suffix in ("json", "mid", "png", "wav")]
    files = contents(tmp_path / "out")
    assert sorted(files) == ["index.html", *names]
    assert linked(tmp_path / "out") == set(names)
    for number in range(2):
        record = json.loads(files[f"piece_{number}.json"])
        piece = musicgen.load(bundle).generate(bars=2, seed=5 + number, key="C")
        assert record["tokens"] == list(piece.tokens)
        assert record["seed"] == 5 + number
        assert record["config"]["key"] == "C"
        assert (record["config"]["temperature"], record["config"]["top_p"]) == (1.2, 0.9)  # as it was sampled
        assert record["bundle_sha256"] == json.loads((bundle / "config.json").read_text())["sha256"]
        assert len(record["log_likelihood"]) == len(record["mask_pressure"]) == record["bars"] == 2
        assert sum(record["tokens_of_bars"]) == len(piece.tokens)
        piece.save(tmp_path / "again.mid")
        assert files[f"piece_{number}.mid"] == (tmp_path / "again.mid").read_bytes()  # streamed as saved
        assert files[f"piece_{number}.png"].startswith(b"\x89PNG")
        assert files[f"piece_{number}.wav"].startswith(b"RIFF")


def test_a_call_without_sound_says_how_to_hear_it(run: Run, tmp_path: Path) -> None:
    _, printed, _ = run("n=1", "bars=1", "picture=false")
    assert "wav=true adds sound" in printed
    assert "wav=true adds sound" in (tmp_path / "out" / "index.html").read_text("utf-8")


def test_one_piece_is_not_asked_for_by_number(bundle: Path) -> None:
    with pytest.raises(UserError, match="generate_many"):
        musicgen.load(bundle).generate(n=2, bars=1)


def test_the_same_call_gives_the_same_bytes_and_overwrites_when_told(run: Run, tmp_path: Path) -> None:
    assert run("n=3", "bars=2", "picture=false")[0] == 0
    first = contents(tmp_path / "out")
    status, _, complaint = run("n=3", "bars=2", "picture=false")
    assert (status, complaint.count("\n")) == (2, 1)
    assert "overwrite=true" in complaint
    assert contents(tmp_path / "out") == first
    assert run("n=2", "bars=2", "picture=false", "batch=1", "overwrite=true")[0] == 0
    assert {name: data for name, data in contents(tmp_path / "out").items() if name.endswith(".mid")} == {
        name: first[name] for name in ("piece_0.mid", "piece_1.mid")
    }


@pytest.mark.parametrize(
    "path", ["thesis.docx", "piece_x.mid/precious.txt", "piece_0.mid/precious.txt", "piece_mine.mid", "index.html"]
)
def test_a_folder_with_other_things_is_not_thrown_away(path: str, run: Run, tmp_path: Path) -> None:
    treasure = tmp_path / "out" / path
    treasure.parent.mkdir(parents=True)
    treasure.write_text("years of work")
    status, _, complaint = run("overwrite=true", "n=1", "bars=1")
    assert (status, complaint.count("\n")) == (2, 1)
    assert path.partition("/")[0] in complaint
    assert treasure.read_text() == "years of work"


def test_what_is_read_is_not_thrown_away(run: Run, tmp_path: Path) -> None:
    assert run("n=1", "bars=1", "picture=false")[0] == 0
    status, _, complaint = run(f"prompt={tmp_path}/out/piece_0.mid", "bars=4", "overwrite=true")
    assert status == 2
    assert "is in the folder that would be overwritten" in complaint
    assert (tmp_path / "out" / "piece_0.mid").exists()


def test_a_folder_may_be_a_link_or_where_we_are(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "real")
    for out, more in (("link", []), (".", ["overwrite=true"])):
        folder = out if out == "." else tmp_path / out
        assert run(f"out={folder}", "n=1", "bars=1", "picture=false", *more)[0] == 0
        assert sorted(contents(tmp_path / "real")) == ["index.html", "piece_0.json", "piece_0.mid"]


def test_a_continuation_has_its_prompt_and_marks_where_it_ends(run: Run, tmp_path: Path) -> None:
    prompt = tmp_path / "a prompt, with=signs.mid"
    write_midi(compose(3, 4), prompt)
    status, printed, _ = run(f"prompt={prompt}", "prompt_bars=2", "bars=4", "n=2")
    assert status == 0
    assert "2 of 4 bars taken" in printed
    assert "2 of 4 bars taken" in (tmp_path / "out" / "index.html").read_text("utf-8")
    whole, given = read_midi(tmp_path / "out" / "piece_1.mid"), read_midi(prompt)
    before = whole.notes[whole.notes["start"] < 2 * 1920]
    assert (before["start"] == given.notes["start"][: len(before)]).all()
    assert (before["pitch"] == given.notes["pitch"][: len(before)]).all()
    assert b"Continuation" in (tmp_path / "out" / "piece_1.mid").read_bytes()
    assert whole.end == 4 * 1920


def test_variations_and_states_have_names_that_say_what_they_are(run: Run, tmp_path: Path) -> None:
    assert run("n=1", "bars=3", "fork_at=2", "variations=2", "picture=false", "states=bars")[0] == 0
    names = sorted(path.name for path in (tmp_path / "out").glob("*"))
    assert [name for name in names if name.endswith(".mid")] == ["piece_0_variation_0.mid", "piece_0_variation_1.mid"]
    states = [name for name in names if name.endswith(".state")]
    assert states == [
        *(f"piece_0_variation_0_bar_000{bar}.state" for bar in (1, 2, 3)),
        *(f"piece_0_variation_1_bar_000{bar}.state" for bar in (2, 3)),
    ]
    for variation, state in ((0, states[0]), (1, states[3])):
        whole = json.loads((tmp_path / "out" / f"piece_0_variation_{variation}.json").read_text())
        arguments = ("n=1", "bars=3", f"from_state={tmp_path / 'out' / state}", f"out={tmp_path / str(variation)}")
        assert run(*arguments, "picture=false")[0] == 0
        assert json.loads((tmp_path / str(variation) / "piece_0.json").read_text())["tokens"] == whole["tokens"]


def test_a_fork_that_is_never_reached_is_said(run: Run, tmp_path: Path) -> None:
    status, printed, complaint = run("n=1", "tokens=30", "fork_at=50", "variations=3", "picture=false")
    assert status == 0
    assert "1 of 3 pieces" in printed
    assert "ended before fork_at=50" in complaint
    assert "ended before fork_at=50" in (tmp_path / "out" / "index.html").read_text("utf-8")


def test_free_sampling_reports_its_mistakes(run: Run, tmp_path: Path) -> None:
    assert run("n=1", "tokens=60", "grammar=false", "picture=false")[0] == 0
    assert json.loads((tmp_path / "out" / "piece_0.json").read_text())["grammar_errors"] > 5
    assert "grammar errors" in (tmp_path / "out" / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model=null"], "model is missing: write model=NAME or DIR"),
        (["model=nowhere"], "model=nowhere: no such folder"),
        (["bars=4", "seconds=3"], "bars=4 and seconds=3"),
        (["key=H"], "key=H"),
        (["key=C", "chords=C E"], "not in the key"),
        (["chords=C#m7b5 Bb(9)"], "'Bb(9)' is not a chord"),
        (["temperature=-1"], "temperature=-1"),
        (["temperature=hot"], "temperature=hot: takes a number"),
        (["n=0"], "n=0: takes a whole number (1 or more)"),
        (["threads=3000000000"], "threads=3000000000: takes a whole number (1 to 1,024)"),
        (["prompt=nowhere.mid"], "nowhere.mid"),
        (["from_state=nowhere.state"], "nowhere.state"),
        (["promt=x.mid"], "did you mean 'prompt'?"),
        (["wav=true", "soundfont=nowhere.sf2"], "nowhere.sf2"),
        (["soundfont=grand.sf2"], "soundfont=grand.sf2: is for sound; add wav=true"),
        (["states=all"], "states=all: takes one of none, last, bars"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    arguments: list[str], words: str, run: Run, tmp_path: Path
) -> None:
    status, printed, complaint = run(*arguments)
    assert (status, printed, complaint.count("\n")) == (2, "", 1)
    assert words in complaint
    assert not (tmp_path / "out").exists()


def test_a_bundle_without_tokens_or_with_other_tokens_is_refused(run: Run, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = PerformerConfig(vocab_size=50, num_layers=1, num_heads=2, d_model=32, d_ff=64, num_features=16)
    save_bundle(PerformerLM(config), tmp_path / "mute")
    save_bundle(PerformerLM(config), tmp_path / "other", files={"tokenizer.json": tokenizer_json(Remi())})
    for name, words in (("mute", "tokenizer.json"), ("other", "a model of 50 tokens does not speak remi")):
        status, _, complaint = run(f"model={tmp_path / name}")
        assert (status, complaint.count("\n")) == (2, 1)
        assert words in complaint


def test_a_bundle_says_how_it_is_best_sampled_and_a_request_has_the_last_word(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = PerformerConfig(vocab_size=361, num_layers=1, num_heads=2, d_model=32, d_ff=64, num_features=16)
    model, files = PerformerLM(config), {"tokenizer.json": tokenizer_json(Remi())}
    save_bundle(model, tmp_path / "plain", files=files)
    save_bundle(model, tmp_path / "cool", files=files, sampling={"temperature": 0.3})
    pieces = {name: load_music_model(tmp_path / name) for name in ("plain", "cool")}
    cool, plain = (pieces[name].generate(bars=2, seed=3).tokens for name in ("cool", "plain"))
    assert cool != plain
    assert cool == pieces["plain"].generate(bars=2, seed=3, temperature=0.3, top_p=1.0).tokens
    assert plain == pieces["cool"].generate(bars=2, seed=3, temperature=1.2, top_p=0.9).tokens
    save_bundle(model, tmp_path / "odd", files=files, sampling={"heat": 1.0})
    with pytest.raises(UserError, match=r"odd/config\.json: sampling is not valid"):
        load_music_model(tmp_path / "odd")


def start(bundle: Path, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "musicgen", "generate", f"model={bundle}", "threads=1", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_stops_it_what_is_there_is_complete(how: signal.Signals, bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(bundle, f"out={out}", "n=1000", "bars=6", "batch=1", "picture=false", "states=last")
    limit = time.monotonic() + 60
    while not (out / "piece_002.mid").exists():
        assert time.monotonic() < limit
        time.sleep(0.005)
    process.send_signal(how)
    printed, complaint = process.communicate(timeout=60)
    pieces = sorted(path.stem for path in out.glob("*.mid"))
    assert 3 <= len(pieces) < 900
    for name in pieces:
        read_midi(out / f"{name}.mid")
        assert json.loads((out / f"{name}.json").read_text())["bars"] == 6
    assert not list(out.glob(".*"))
    if how != signal.SIGKILL:
        assert process.returncode == 128 + how
        word = "interrupted" if how == signal.SIGINT else "stopped"
        assert complaint.decode().endswith(f"musicgen: {word}\n")
        assert f"{len(pieces)} of 1000 pieces" in printed.decode()
        assert {name.removesuffix(".mid") for name in linked(out) if name.endswith(".mid")} == set(pieces)
        assert len(list(out.glob("*.json"))) == len(pieces)


def test_a_terminal_sees_how_far_it_is(bundle: Path, tmp_path: Path) -> None:
    parent, child = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "musicgen", "generate", f"model={bundle}", f"out={tmp_path}/out", "n=4", "bars=30",
         "threads=1", "picture=false"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "150"},
        stdout=subprocess.DEVNULL,
        stderr=child,
    )  # fmt: skip
    os.close(child)
    shown = b""
    try:
        while data := os.read(parent, 4096):
            shown += data
    except OSError:  # the terminal is gone with the process
        pass
    os.close(parent)
    assert process.wait() == 0
    assert b"120/120" in shown
    assert b"tokens/s" in shown


def test_help_names_every_key(run: Run) -> None:
    status, printed, _ = run("--help")
    assert status == 0
    for key in options(GenerateConfig):
        assert re.search(rf"\b{key}=", printed), key


def test_the_python_way_is_the_same_music(bundle: Path, tmp_path: Path) -> None:
    musicgen.load(str(bundle)).generate(bars=2, seed=1).save(tmp_path / "x.mid")
    assert read_midi(tmp_path / "x.mid").end == 2 * 1920
