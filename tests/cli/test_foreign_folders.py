"""No command deletes or changes what it did not make, even with overwrite=true."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from runs import TINY

from musicgen.cli.main import main
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.write import write_midi


def tree(folder: Path) -> dict[str, str]:
    """Every file and folder, with the hash of its content."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "/"
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of each kind, as its command makes it."""
    root = tmp_path_factory.mktemp("made")
    (root / "songs").mkdir()
    for number in range(3):
        write_midi(compose(number, 4), root / "songs" / f"{number}.mid")
    assert main(["train", *TINY, f"run_dir={root / 'run'}", "trainer.max_steps=2", "validation.every=1"]) == 0
    assert main(["export", f"checkpoint={root / 'run'}", f"out={root / 'bundle'}"]) == 0
    for verb, arguments in COMMANDS.items():
        if verb not in ("train", "export"):
            assert main([*(word.format(root=root) for word in arguments), f"out={root / verb}"]) == 0, verb
    return root


COMMANDS = {
    "train": ["train", *TINY, "trainer.max_steps=2", "validation.every=1"],
    "export": ["export", "checkpoint={root}/run"],
    "prepare": ["prepare", "input={root}/songs", "workers=1"],
    "generate": ["generate", "model={root}/bundle", "n=1", "bars=1", "picture=false", "states=last"],
    "evaluate": ["evaluate", "music", "generated={root}/songs", "reference={root}/songs"],
    "grooves": ["prepare", "source=synthetic_grooves", "songs=20", "bars=4"],
    "continue": [
        "continue",
        "data={root}/grooves",
        "split=train",
        "styles=1",
        "continuations=1",
        "prompt_bars=1",
        "bars=2",
    ],
}
PLACES = {"train": "run", "export": "bundle"}


def run(verb: str, root: Path, out: Path, *more: str) -> int:
    key = "run_dir" if verb == "train" else "out"
    return main([*(word.format(root=root) for word in COMMANDS[verb]), f"{key}={out}", *more])


def overwrite(verb: str) -> list[str]:
    return [] if verb == "export" else ["overwrite=true"]  # a bundle replaces a bundle


@pytest.mark.parametrize("verb", COMMANDS)
def test_what_a_command_made_is_replaced_if_asked(verb: str, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(made / PLACES.get(verb, verb), out)
    assert run(verb, made, out, *overwrite(verb)) == 0
    assert set(tree(out)) == set(tree(made / PLACES.get(verb, verb)))


@pytest.mark.parametrize("place", [".", "deepest"])
@pytest.mark.parametrize("verb", COMMANDS)
def test_a_file_of_the_user_in_such_a_folder_is_kept_and_everything_else_too(
    verb: str, place: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(made / PLACES.get(verb, verb), out)
    folders = [out, *sorted(path for path in out.rglob("*") if path.is_dir())]
    (folders[0 if place == "." else -1] / "thesis.txt").write_text("mine")
    before = tree(tmp_path)
    assert run(verb, made, out, *overwrite(verb)) == 2
    assert tree(tmp_path) == before
    assert "thesis.txt" in capsys.readouterr().err


FOREIGN = {
    "a config of another program": {"config.json": '{"model_type": "gpt2"}', "thesis.txt": "mine"},
    "only such a config": {"config.json": '{"format": 1}'},
    "a model of another program": {"config.json": "{}", "model.safetensors": "x", "tokenizer.json": "{}"},
    "an index of another program": {"corpus.json": "{}", "index.jsonl": "", "notes.npy": "mine"},
    "music of another program": {"piece_0.mid": "mine", "index.html": "<p>"},
    "references of another program": {"references/a.mid": "mine", "prompts/a.mid": "mine"},
    "results of another program": {"report.json": "{}", "nll/table.csv": "mine"},
}


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_folder_of_another_program_is_never_touched(
    verb: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, files in FOREIGN.items():
        for name, content in files.items():
            (tmp_path / kind / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / kind / name).write_text(content)
        before = tree(tmp_path)
        assert run(verb, made, tmp_path / kind, *overwrite(verb)) == 2, kind
        assert tree(tmp_path) == before, kind
        assert "choose another folder" in capsys.readouterr().err


def test_training_does_not_take_a_bundle_for_a_run(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "bundle", tmp_path / "bundle")
    before = tree(tmp_path)
    for more in ([], ["resume=auto"], ["overwrite=true"]):
        assert run("train", made, tmp_path / "bundle", *more) == 2
    assert tree(tmp_path) == before


def test_a_run_keeps_the_notes_that_are_in_its_folder_when_it_is_resumed(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "run", tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert run("train", made, tmp_path / "run", "resume=auto") == 0
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_a_report_does_not_replace_the_file_of_another_program(made: Path, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"mine": 1}))
    before = tree(tmp_path)
    asked = ["report", f"model={made / 'bundle'}", f"data={made / 'prepare'}", f"out={tmp_path}", "sections=pe"]
    assert main(asked) == main([*asked, "overwrite=true"]) == 2
    assert tree(tmp_path) == before
