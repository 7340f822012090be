"""`musicgen continue`: prompts of a corpus, continued, ready to be scored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from musicgen.cli import main as command
from musicgen.cli.continuation import ContinueConfig
from musicgen.data.corpus import Corpus
from musicgen.languages import Groove, Remi
from musicgen.languages.registry import tokenizer_json
from musicgen.midi import read_midi
from musicgen.model import PerformerConfig, PerformerLM, save_bundle
from musicgen.options import options
from musicgen.sampling.continuation import choose_songs

Run = Callable[..., tuple[int, str, str]]


def small(vocabulary: int) -> PerformerLM:
    torch.manual_seed(0)
    sizes = {"num_layers": 1, "num_heads": 2, "d_model": 32, "d_ff": 64, "num_features": 16}
    return PerformerLM(PerformerConfig(vocab_size=vocabulary, **sizes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus of grooves and two models that know nothing."""
    folder = tmp_path_factory.mktemp("desk")
    save_bundle(small(794), folder / "groove", files={"tokenizer.json": tokenizer_json(Groove())})
    save_bundle(small(361), folder / "pop", files={"tokenizer.json": tokenizer_json(Remi())})
    made = ["source=synthetic_grooves", "songs=24", "bars=8", f"out={folder}/corpus", "workers=1"]
    assert command.main(["prepare", *made]) == 0
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], desk: Path, tmp_path: Path) -> Run:
    """The command: its exit status, what it printed, and what it complained of."""

    def call(*arguments: object) -> tuple[int, str, str]:
        given = {"model": desk / "groove", "data": desk / "corpus", "out": tmp_path / "out"}
        given |= dict(str(argument).split("=", 1) for argument in arguments)  # type: ignore[arg-type]
        status = command.main(["continue", *(f"{key}={value}" for key, value in given.items())])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


def test_prompts_are_continued_and_everything_has_the_name_of_its_style(run: Run, desk: Path, tmp_path: Path) -> None:
    status, printed, complaint = run("styles=2", "continuations=2", "bars=4")
    assert (status, complaint) == (0, "")
    assert "4 of 4 continuations" in printed
    corpus = Corpus.open(desk / "corpus")
    songs = choose_songs(corpus, "test", 2)
    assert len({(song.family, song.style) for song in songs.values()}) == len(songs)
    for name, song in songs.items():
        whole = read_midi(tmp_path / "out" / "references" / f"{name}.mid")
        prompt = read_midi(tmp_path / "out" / "prompts" / f"{name}.mid")
        assert len(whole.notes) == len(corpus.score(song).notes)
        end = 2 * 4 * prompt.ticks_per_beat
        expected = whole.notes[whole.notes["start"] < end].copy()
        expected["end"] = expected["end"].clip(max=end)  # what sounds at the bar line ends there
        assert np.array_equal(prompt.notes, expected)
        seen = []
        for number in range(2):
            piece = read_midi(tmp_path / "out" / "pieces" / f"{name}/{number}.mid")
            written = read_midi(tmp_path / "out" / "continuations" / f"{name}/{number}.mid")
            bar = 4 * piece.ticks_per_beat
            assert piece.end == 4 * bar  # exactly as long as was asked for
            given = piece.notes[piece.notes["start"] < 2 * bar]
            assert np.array_equal(given["start"] * prompt.ticks_per_beat, prompt.notes["start"] * piece.ticks_per_beat)
            assert np.array_equal(given[["pitch", "track"]], prompt.notes[["pitch", "track"]])
            later = piece.notes[piece.notes["start"] >= 2 * bar]
            assert np.array_equal(later["start"] - 2 * bar, written.notes["start"])  # whole bars: the phase is kept
            assert [track.program for track in piece.tracks] == [track.program for track in whole.tracks]
            assert piece.tempos["bpm"][0] == pytest.approx(song.tempo, rel=1e-4)
            record = json.loads((tmp_path / "out" / "pieces" / f"{name}/{number}.json").read_text())
            assert Groove().grammar.errors(record["tokens"]) == []
            seen.append(record["tokens"])
        assert seen[0] != seen[1]


def test_what_it_writes_can_be_scored(run: Run, tmp_path: Path) -> None:
    assert run("styles=2", "continuations=2", "tokens=500", "picture=false")[0] == 0
    out = tmp_path / "out"
    words = [f"reference={out}/references", f"generated={out}/continuations", f"out={tmp_path}/scores"]
    assert command.main(["evaluate", "style", *words]) == 0
    scores = json.loads((tmp_path / "scores" / "style.json").read_text())
    assert len(list((out / "continuations").rglob("*.mid"))) == 4
    assert "similarity" in json.dumps(scores)


def test_a_prompt_that_cannot_be_gone_on_from_is_a_line_and_the_others_are_continued(
    run: Run, desk: Path, tmp_path: Path
) -> None:
    corpus = Corpus.open(desk / "corpus")
    songs = choose_songs(corpus, "train", 4)
    sizes = [len(Groove().prompt_of(corpus[song], song, 2, "x").tokens) for song in songs.values()]
    limit = sorted(sizes)[1] + 1
    status, printed, complaint = run("styles=4", "split=train", "continuations=1", f"tokens={limit}", "picture=false")
    assert status == 0
    refused = sum(size >= limit for size in sizes)
    assert f"{4 - refused} of {4 - refused} continuations" in printed
    assert complaint.count("not continued (tokens=") == refused > 0
    assert len(list((tmp_path / "out" / "references").rglob("*.mid"))) == 4 - refused


def test_a_piece_is_the_same_whatever_it_is_written_along_with(run: Run, tmp_path: Path) -> None:
    pieces = []
    for number, batch in enumerate((1, 16)):
        out = tmp_path / str(number)
        assert run("styles=2", "continuations=2", "bars=4", "picture=false", f"batch={batch}", f"out={out}")[0] == 0
        pieces.append({str(path.relative_to(out)): path.read_bytes() for path in (out / "pieces").rglob("*.mid")})
    assert pieces[0] == pieces[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model=null"], "model is missing: write model=NAME or DIR"),
        (["data=null"], "data is missing: write data=DIR"),
        (["data=nowhere"], "nowhere"),
        (["split=tests"], "split=tests"),
        (["styles=0"], "styles=0: takes a whole number (1 or more)"),
        (["bars=2"], "no longer than the prompt"),
        (["tokens=0"], "tokens=0: takes a whole number (1 or more)"),
        (["tokens=9", "grammar=false"], "no longer than what is given"),
        (["bars=4", "tokens=9"], "bars=4 and tokens=9"),
        (["stiles=2"], "did you mean 'styles'?"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    arguments: list[str], words: str, run: Run, tmp_path: Path
) -> None:
    status, printed, complaint = run(*arguments)
    assert (status, printed, complaint.count("\n")) == (2, "", 1)
    assert words in complaint
    assert not (tmp_path / "out").exists()


def test_a_model_of_another_language_is_refused(run: Run, desk: Path) -> None:
    status, _, complaint = run(f"model={desk}/pop")
    assert status == 2
    assert "has remi tokens, and data=" in complaint


def test_a_corpus_that_is_not_of_grooves_is_refused(run: Run, tmp_path: Path) -> None:
    assert command.main(["prepare", "source=synthetic", "songs=3", "bars=2", f"out={tmp_path}/pop"]) == 0
    status, _, complaint = run(f"data={tmp_path}/pop")
    assert (status, complaint.count("\n")) == (2, 1)
    assert "has groove tokens, and data=" in complaint


def test_help_names_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["continue", "--help"]) == 0
    printed = capsys.readouterr().out
    for key in options(ContinueConfig):
        assert re.search(rf"\b{key}=", printed), key
