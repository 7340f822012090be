from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from arena_files import write_cifar, write_citations, write_reviews
from forked import run_forked

from musicgen.cli.main import main
from musicgen.languages import Groove, Remi
from musicgen.languages.groove.synthetic import compose_groove, style_name
from musicgen.languages.registry import tokenizer_json
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import write_midi
from musicgen.model import PerformerConfig, PerformerLM, save_bundle

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def fenced(language: str) -> list[Any]:
    """Blocks of code in a language, with the page and the number of each for a name."""
    blocks = []
    for page in PAGES:
        found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        blocks += [pytest.param(text, id=f"{page.stem}-{number}") for number, text in enumerate(found, 1)]
    return blocks


README = PAGES[0].read_text("utf-8")
TARGETS = sorted(set(re.findall(r"(?:^ *|`)make ([a-z-]+)", README, re.MULTILINE)))
LINKS = sorted(
    {(page, link) for page in PAGES for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text("utf-8"))}
)


SHORT = ["validation.sample_bars=1", "trainer.threads=1"]
"""A second thread would wait for the cores that other tests have, and a model that knows nothing writes long bars."""
TINY = [
    "debug=quick", "model.num_layers=1", "model.num_heads=2", "model.d_model=32", "model.d_ff=64", "batch_size=2",
    "data.length=64", *SHORT,
]  # fmt: skip
"""What makes hours of training seconds."""

FEW = ["train=40", "valid=8", "test=8"]
ARENA = [
    *(f"task.{word}" for word in FEW), "model.num_layers=1", "model.num_heads=2", "model.d_model=16", "model.d_ff=16",
    "model.num_features=8", "batch_size=2", "trainer.max_steps=2", "trainer.threads=1", "validation.every=1",
]  # fmt: skip


def shortened(words: list[str]) -> list[str]:
    """A command that takes seconds."""
    if words[1] == "train":
        return [*words, *(TINY if any(word.startswith("experiment=") for word in words) else SHORT)]
    if words[1:3] == ["arena", "train"]:
        reads_files = any(word.startswith(("task=image", "task=text", "task=retrieval")) for word in words)
        return [*words, *(ARENA[len(FEW) :] if reads_files else ARENA)]
    if words[1:3] == ["arena", "prepare"] and any(word.startswith("task=listops") for word in words):
        return [*words, *FEW]
    return words


def environment() -> dict[str, str]:
    """Variables of processes: other tests have the other cores, and a `make` that started us is none of theirs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | {"OMP_NUM_THREADS": "1"}


def check(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr


def run(*command: str, cwd: Path) -> None:
    check(subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=240, check=False))


@pytest.fixture
def desk(furnished: Path, tmp_path: Path) -> Path:
    """A folder as a reader of the pages has it."""
    return Path(shutil.copytree(furnished, tmp_path, dirs_exist_ok=True))


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some MIDI of one's own, stand-ins for data sets, and two models; each test has a copy."""
    folder = tmp_path_factory.mktemp("furnished")
    for name in ("my_midi", "pop909"):
        (folder / name).mkdir()
        for seed in range(4):
            write_midi(compose(seed, 8), folder / name / f"song {seed}.mid")
    for style in range(12):
        path = folder / "grooves" / f"{style_name(style)}.a.mid"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_midi(compose_groove(style, style, 8), path)
    write_reviews(folder / "aclImdb", 20)
    write_citations(folder / "aan", 40)
    write_cifar(folder / "cifar", "binary", 5)
    torch.manual_seed(0)
    config = PerformerConfig(vocab_size=361, num_layers=1, num_heads=2, d_model=32, d_ff=64, num_features=16)
    for name, language in (("mine", Remi()), ("groove", Groove())):
        model = PerformerLM(dataclasses.replace(config, vocab_size=len(language.vocabulary)))
        files = {"tokenizer.json": tokenizer_json(language)}
        save_bundle(model, folder / "models" / name, files=files, training={"length": 64, "batch_size": 1})
    return folder


def test_there_is_something_of_each_kind() -> None:
    assert fenced("python")
    assert fenced("sh")
    assert {"demo", "test"} <= set(TARGETS)


@pytest.mark.parametrize("code", fenced("python"))
def test_python_runs(code: str, desk: Path) -> None:
    check(run_forked(program=code, strict=True, cwd=desk, environment=environment()))


@pytest.mark.parametrize("block", fenced("sh"))
def test_commands_run_one_after_the_other(
    block: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["musicgen"]:  # in this process, which has imported all that a new one would have to
            words = shortened(words)
            if "-m" in words:  # Hydra sets up logging for a whole process
                check(run_forked(*map(shorter, words[1:]), cwd=desk, environment=environment()))
            else:
                assert main(words[1:]) == 0, capsys.readouterr().err
        elif words[:1] == ["python"]:
            run(sys.executable, str(ROOT / words[1]), *words[2:], cwd=desk)
        else:
            assert words[:1] in ([], ["make"]), f"not run by a test: {line}"


def shorter(word: str) -> str:
    """The first and the last value of a sweep: two jobs show that it works as well as eighteen."""
    key, equals, values = word.partition("=")
    several = values.split(",")
    return f"{key}={several[0]},{several[-1]}" if equals and len(several) > 2 else word


@pytest.mark.parametrize("target", TARGETS)
def test_make_targets_exist(target: str) -> None:
    run("make", "-n", target, cwd=ROOT)


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_links_lead_somewhere(page: Path, link: str) -> None:
    assert (page.parent / link).exists()


NAMES = sorted({name for page in PAGES for name in re.findall(r"`(musicgen(?:\.\w+)+)`", page.read_text("utf-8"))})


@pytest.mark.parametrize("name", NAMES)
def test_names_in_the_pages_exist(name: str) -> None:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return
    pytest.fail(f"nothing is called {name}")


def tool(name: str) -> Any:
    """A script of `tools`, as a module."""
    found = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_page_on_tokens_shows_the_grammar_as_it_is() -> None:
    module = tool("document_tokens")
    text = module.PAGE.read_text("utf-8")
    assert module.page(text) == text, "run python tools/document_tokens.py"


def test_the_table_of_imports_is_the_one_that_is_checked() -> None:
    module = tool("document_layout")
    text = module.PAGE.read_text("utf-8")
    assert "| `musicgen/spe` |" in text
    assert module.page(text) == text, "run python tools/document_layout.py"


def test_tables_of_results_are_what_was_measured() -> None:
    module = tool("document_results")
    for path in module.PAGES:
        text = path.read_text("utf-8")
        assert module.page(text) == text, f"{path}: run python tools/document_results.py"


def test_the_page_on_commands_has_every_option_as_it_is() -> None:
    module = tool("document_options")
    text = module.PAGE.read_text("utf-8")
    assert module.page(text) == text, "run python tools/document_options.py"
    assert {command for _, command, _ in module.TABLE.findall(text)} == set(module.configs())


def test_a_measured_table_has_its_deviations_and_a_line_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tool("document_results")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    (tmp_path / "x.csv").write_text(
        "model,loss,loss (deviation),gap,length\na,2.34567,0.1,,256\nb,-1.0,,3,512\n", "utf-8"
    )
    text = "<!-- table x.csv: model, loss, gap, length -->\nold\n<!-- end -->"
    assert module.page(text).splitlines()[2:-2] == [
        "| model | loss | gap | length |",
        "|---|---|---|---|",
        "| a | 2.346 ± 0.100 | – | 256 |",
        "| b | −1.000 | 3 | 512 |",
    ]
