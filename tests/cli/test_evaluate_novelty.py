"""`musicgen evaluate novelty`: what it writes, says and refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from calls import Run, calling, check_refused

from musicgen.cli import main as command
from musicgen.data import summary
from musicgen.evaluation.music import novelty_findings as novelty
from musicgen.evaluation.report.findings import Picture
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.score import Score, make_tempos
from musicgen.midi.write import midi_bytes


def moved(score: Score, bars: int, semitones: int) -> Score:
    """Later, higher and at another tempo."""
    notes = score.notes.copy()
    notes["start"] += bars * 1920
    notes["end"] += bars * 1920
    notes["pitch"] += semitones
    return score.replace(notes=notes, tempos=make_tempos([(0, 77.0)]), chords=())


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in a folder with songs, one of them copied: its status, what it printed and complained of."""
    for folder, seeds in (("songs", range(20)), ("made", range(40, 42)), ("real", range(60, 63))):
        (tmp_path / folder).mkdir()
        for seed in seeds:
            (tmp_path / folder / f"{seed}.mid").write_bytes(midi_bytes(compose(seed, 8)))
    (tmp_path / "made" / "copy.mid").write_bytes(midi_bytes(moved(compose(7, 8), 3, 5)))
    monkeypatch.chdir(tmp_path)
    return calling(capsys, "evaluate", "novelty")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pictures, which take longer than all the rest."""
    for name in ("draw_longest", "draw_passage"):
        picture = Picture(name, "nothing", b"", b"")
        monkeypatch.setattr(novelty, name, lambda *_, picture=picture: picture)
    monkeypatch.setattr(summary, "draw_summary", lambda _, path: path.write_bytes(b"no picture"))


def rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {row["piece"]: row for row in csv.DictReader(file)}


def test_a_copy_is_found_in_a_folder_and_the_same_bytes_come_of_it_again(tmp_path: Path, run: Run) -> None:
    (tmp_path / "made" / "bad.mid").write_bytes(b"MThd")
    arguments = ("generated=made", "training=songs", "held_out=real")
    status, printed, complaint = run(*arguments, "out=out")
    assert (status, complaint) == (0, "")
    assert "bars 4–11 of copy.mid = bars 1–8 of 7.mid, transposed by +5 semitones" in printed
    assert "left out: made/bad.mid: " in printed
    assert "3 held-out songs" in printed
    copy = rows(tmp_path / "out" / "pieces.csv")["copy.mid"]
    assert (copy["song"], copy["bars"], copy["bars there"], copy["transposed"]) == ("7.mid", "4–11", "1–8", "5")
    assert float(copy["shared (%)"]) == 100
    assert run(*arguments, "out=again")[0] == 0
    for path in (tmp_path / "out").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name
    report = json.loads((tmp_path / "out" / "novelty.json").read_text("utf-8"))
    names = [item["name"] for kind in ("tables", "pictures") for item in report[kind]]
    assert sorted(names) == ["longest_passage", "longest_passages", "novelty", "passages"]


@pytest.mark.usefixtures("undrawn")
def test_of_a_corpus_the_training_songs_are_searched_and_the_others_are_the_yardstick(tmp_path: Path, run: Run) -> None:
    assert command.main(["prepare", "input=songs", "out=corpus"]) == 0
    with (tmp_path / "corpus" / "index.jsonl").open(encoding="utf-8") as file:
        splits = {item["path"]: item["split"] for item in map(json.loads, file)}
    held_out = {path for path, split in splits.items() if split in ("valid", "test")}
    trained = next(path for path, split in splits.items() if split == "train")
    assert held_out
    (tmp_path / "made" / "copy.mid").write_bytes(midi_bytes(moved(compose(int(trained[:-4]), 8), 1, -3)))
    for path in held_out:
        (tmp_path / "made" / f"held {path}").write_bytes((tmp_path / "songs" / path).read_bytes())
    assert run("generated=made", "data=corpus", "out=out")[0] == 0
    found = rows(tmp_path / "out" / "pieces.csv")
    assert found["copy.mid"]["song"] == trained
    assert float(found["copy.mid"]["shared (%)"]) > 90
    assert held_out <= set(found)
    for path in held_out:  # it was not trained on, and what is held out is cut to the length of pieces alone
        assert found[f"held {path}"]["song"] not in held_out
        assert found[f"held {path}"]["notes"] == found[path]["notes"]


@pytest.mark.usefixtures("undrawn")
def test_a_prompt_is_no_copy(tmp_path: Path, run: Run) -> None:
    (tmp_path / "made" / "copy.mid").write_bytes(midi_bytes(compose(7, 8), [(1920 * 7, "Continuation")]))
    assert run("generated=made/copy.mid", "training=songs", "out=out")[0] == 0
    found = rows(tmp_path / "out" / "pieces.csv")["copy.mid"]
    assert found["bars"] == "8"
    assert int(found["notes"]) < 60


@pytest.mark.parametrize(
    ("arguments", "naming"),
    [
        ([], "generated is missing"),
        (["generated=made"], "data is missing"),
        (["generated=made", "data=songs"], "out is missing"),
        (["generated=nowhere", "data=songs", "out=out"], "generated=nowhere"),
        (["generated=made", "data=empty", "out=out"], "data=empty: no MIDI files"),
        (["generated=made", "data=songs", "held_out=empty", "out=out"], "held_out=empty: no MIDI files"),
        (["generated=made", "data=songs", "out=songs"], "out=songs: holds other things"),
        (["generated=made", "data=songs", "out=out", "shortest=1"], "shortest=1"),
        (["generated=made", "trainign=songs"], "did you mean 'data'?"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_nothing_written(
    arguments: list[str], naming: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "empty").mkdir()
    check_refused(run, arguments, naming, tmp_path)
