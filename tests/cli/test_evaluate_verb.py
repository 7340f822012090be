"""`musicgen evaluate`: its kinds; and what `evaluate style` writes, prints and refuses."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import pytest
from calls import Run, calling, check_refused

from musicgen.cli import evaluate
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.write import midi_bytes
from musicgen.options import options

MADE = ["index.html", "style.csv", "style.json", "style.png", "style.svg", "summary.csv"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in a folder with references and continuations: its status, what it printed and complained of."""
    for folder in ("in", "gen"):
        (tmp_path / folder).mkdir()
    for seed in range(3):
        (tmp_path / "in" / f"song {seed}.mid").write_bytes(midi_bytes(compose(seed, 8)))
        for number in range(2):
            piece = midi_bytes(compose(seed + 10 * number, 8), [(1920 * 2, "Continuation")])
            (tmp_path / "gen" / f"song {seed}.cont_{number}.mid").write_bytes(piece)
    monkeypatch.chdir(tmp_path)
    return calling(capsys, "evaluate")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_becomes_a_report_a_table_and_a_picture(tmp_path: Path, run: Run) -> None:
    status, printed, complaint = run("style", "reference=in", "generated=gen", "out=deep/er")
    assert (status, complaint) == (0, "")
    assert "6 continuations of 3 references" in printed
    assert "time-pitch" in printed
    assert "deep/er/index.html" in printed
    out = tmp_path / "deep" / "er"
    assert names(out) == MADE
    assert (out / "style.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "style.svg").read_text("utf-8")
    report = json.loads((out / "style.json").read_text("utf-8"))
    assert report["left_out"] == []
    assert (report["settings"]["published"], report["settings"]["seed"]) == (False, 0)
    (report,) = report["sets"]
    assert [len(item["generated"]) for item in report["references"]] == [2, 2, 2]
    cell = report["similarity"]["time_pitch"]["quarter 1"]
    assert 0 < cell["interval"][0] <= cell["median"] <= cell["interval"][1] <= 1
    assert report["similarity"]["onset_drum"]["floor"]["median"] is None  # it is piano music
    with (out / "style.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 6 * 7
    first = report["references"][0]["similarity"]["time_pitch"]["other"]["quarter 1"]
    assert float(rows[1]["similarity"]) == first
    assert (rows[0]["track"], rows[0]["similarity"]) == ("bass", "")


def test_the_same_command_writes_the_same_bytes_and_overwrites_when_told(tmp_path: Path, run: Run) -> None:
    arguments = ("style", "reference=in", "generated=gen", "out=out")
    assert run(*arguments)[0] == 0
    before = {name: (tmp_path / "out" / name).read_bytes() for name in MADE}
    status, printed, complaint = run(*arguments)
    assert (status, printed) == (2, "")
    assert "overwrite=true" in complaint
    assert run(*arguments, "overwrite=true")[0] == 0
    assert {name: (tmp_path / "out" / name).read_bytes() for name in MADE} == before
    assert run(*arguments, "overwrite=true", "published=true")[0] == 0
    changed = {name for name in MADE if (tmp_path / "out" / name).read_bytes() != before[name]}
    assert changed == set(MADE)


def test_several_sets_are_compared_under_the_names_of_their_folders(tmp_path: Path, run: Run) -> None:
    status, printed, complaint = run("style", "reference=in", "generated=gen,in", "out=out")
    assert (status, complaint) == (0, "")
    assert "gen: 6 continuations of 3 references" in printed
    assert "time-pitch, in " in printed
    ours, same = json.loads((tmp_path / "out" / "style.json").read_text("utf-8"))["sets"]
    assert (ours["name"], same["name"]) == ("gen", "in")
    assert run("style", "reference=in", "generated=in", "out=alone")[0] == 0
    (alone,) = json.loads((tmp_path / "alone" / "style.json").read_text("utf-8"))["sets"]
    assert same == alone


def test_single_files_can_be_compared_and_a_piece_is_like_itself(tmp_path: Path, run: Run) -> None:
    assert run("style", "reference=in/song 0.mid", "generated=in/song 0.mid", "out=out")[0] == 0
    (report,) = json.loads((tmp_path / "out" / "style.json").read_text("utf-8"))["sets"]
    quarters = report["references"][0]["similarity"]["time_pitch"]["other"]
    assert min(quarters[f"quarter {number}"] for number in range(1, 5)) > 0.5
    assert report["references"][0]["floor_reference"] is None


def test_files_that_cannot_be_used_are_lines_of_the_report(tmp_path: Path, run: Run) -> None:
    (tmp_path / "gen" / "song 0.bad.mid").write_bytes(b"MThd")
    (tmp_path / "gen" / "stray.mid").write_bytes(b"")
    (tmp_path / "gen" / os.fsdecode(b"caf\xe9.mid")).write_bytes(b"")
    (tmp_path / "in" / "other.mid").write_bytes(midi_bytes(compose(5, 2)))
    status, printed, complaint = run("style", "reference=in", "generated=gen", "out=out")
    assert (status, complaint) == (0, "")
    left_out = json.loads((tmp_path / "out" / "style.json").read_text("utf-8"))["left_out"]
    assert len(left_out) == 4
    for name in ("gen/song 0.bad.mid", "gen/stray.mid", "in/other.mid"):
        assert any(line.startswith(f"{name}: ") for line in left_out)
        assert f"left out: {name}: " in printed


@pytest.mark.parametrize(
    ("arguments", "naming"),
    [
        (["stile"], "'style'"),
        (["zzz"], "choose from nll, pe"),
        (["style", "reference=in", "generated=gen"], "out is missing"),
        (["style", "generated=gen", "out=out"], "reference is missing"),
        (["style", "reference=in", "out=out"], "generated is missing"),
        (["style", "reference=nowhere", "generated=gen", "out=out"], "reference=nowhere"),
        (["style", "reference=in", "generated=nowhere", "out=out"], "generated=nowhere"),
        (["style", "reference=in", "generated=empty", "out=out"], "generated=empty: no MIDI files"),
        (["style", "reference=in", "generated=others", "out=out"], "generated=others"),
        (["style", "reference=in/song 0.mid", "generated=text.mid", "out=out"], "text.mid: not a MIDI file"),
        (["style", "reference=text.mid", "generated=gen", "out=out"], "text.mid: not a MIDI file"),
        (["style", "reference=in", "generated=gen", "out=text.mid"], "out=text.mid"),
        (["style", "reference=in", "generated=gen", "out=gen", "overwrite=true"], "out=gen: holds other things"),
        (["style", "reference=in", "generated=gen", "out=text.mid/x"], "text.mid/x"),
        (["style", "reference=in", "generated=gen", "out=out", "seed=-1"], "seed=-1"),
        (["style", "reference=in", "generated=gen", "out=out", "published=perhaps"], "published=perhaps"),
        (["style", "refrence=in"], "'reference'"),
        (["style", "--loud"], "musicgen evaluate style --help"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_exit_status_2_and_nothing_written(
    arguments: list[str], naming: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "text.mid").write_text("not music")
    (tmp_path / "empty").mkdir()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "x.mid").write_bytes(b"")
    check_refused(run, arguments, naming, tmp_path)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_kinds(arguments: list[str], run: Run) -> None:
    status, printed, _ = run(*arguments)
    assert status == 0
    for kind, (summary, _) in evaluate.KINDS.items():
        assert kind in printed
        assert summary in printed


@pytest.mark.parametrize("kind", evaluate.KINDS)
def test_help_names_every_key_and_the_config_can_be_seen(kind: str, run: Run) -> None:
    status, printed, _ = run(kind, "--help")
    assert status == 0
    command = evaluate.command(kind)
    assert all(part.strip() in printed for part in command.about.split("{keys}"))
    for key in options(command.config):
        assert re.search(rf"\b{key}=", printed), key
    status, printed, _ = run(kind, "--cfg", "out=a, [b]")
    assert status == 0
    assert "out: a, [b]" in printed


@pytest.mark.parametrize("kind", evaluate.KINDS)
def test_every_kind_says_where_its_findings_go(kind: str, run: Run) -> None:
    status, printed, complaint = run(kind)
    assert (status, printed) == (2, "")
    assert re.fullmatch(rf"musicgen: \w+ is missing: .* \(see `musicgen evaluate {kind} --help`\)\n", complaint)
