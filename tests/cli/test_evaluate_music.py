"""`musicgen evaluate music`: what it writes, says and refuses."""

from __future__ import annotations

import csv
import json
import re
from html import unescape
from pathlib import Path

import pytest
from calls import Run, calling, check_refused

from musicgen.cli import main as command
from musicgen.data import summary
from musicgen.evaluation.music import statistics_findings as music
from musicgen.evaluation.music.metrics import METRICS
from musicgen.evaluation.music.statistics import grammar_errors
from musicgen.evaluation.report.findings import Picture
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.score import Score, make_notes
from musicgen.midi.write import midi_bytes


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in a folder with real and generated music: its status, what it printed and complained of."""
    for folder, first in (("real", 0), ("made", 20)):
        (tmp_path / folder).mkdir()
        for seed in range(first, first + 4):
            (tmp_path / folder / f"{seed}.mid").write_bytes(midi_bytes(compose(seed, 4 if first else 8)))
    record = {"grammar_errors": 1, "tokens_of_bars": [9, 1, 3], "prompt_bars": 1}
    (tmp_path / "made" / "20.json").write_text(json.dumps(record))
    (tmp_path / "dull").mkdir()
    for number in range(3):
        starts = [480 * beat for beat in range(16)]
        score = Score(480, make_notes(starts, [start + 240 for start in starts], [30 + number] * 16, 64))
        (tmp_path / "dull" / f"{number}.mid").write_bytes(midi_bytes(score))
    monkeypatch.chdir(tmp_path)
    return calling(capsys, "evaluate", "music")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pictures, which take longer than all the rest."""
    for name in ("draw_distributions", "draw_bar_similarity"):
        picture = Picture(name, "nothing", b"", b"")
        monkeypatch.setattr(music, name, lambda *_, picture=picture: picture)
    monkeypatch.setattr(summary, "draw_summary", lambda _, path: path.write_bytes(b"no picture"))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_sets_are_compared_and_the_same_bytes_come_of_it_again(tmp_path: Path, run: Run) -> None:
    (tmp_path / "made" / "bad.mid").write_bytes(b"MThd")
    status, printed, complaint = run("generated=made,dull", "reference=real", "out=out")
    assert (status, complaint) == (0, "")
    assert "4 pieces of made, 3 pieces of dull, compared with 4 real songs; of each, the first 4 bars count." in printed
    assert "left out: made/bad.mid: " in printed
    assert "25.00% of tokens break the grammar, by 1 records" in printed
    assert "Fewer than 10 pieces" in printed
    out = tmp_path / "out"
    numbers = {(row["set"], row["metric"]): row for row in rows(out / "music_numbers.csv")}
    assert float(numbers["dull", "pitches used"]["median"]) == 1
    assert float(numbers["dull", "pitches used"]["delta"]) == -1
    assert float(numbers["dull", "pitches used"]["overlap"]) < 0.1
    assert float(numbers["made", "pitches used"]["overlap"]) > 0.3
    assert numbers["made", "grammar error rate"]["pieces"] == "1"
    pieces = rows(out / "pieces.csv")
    assert len(pieces) == 4 + 3 + 4
    assert {piece["bars"] for piece in pieces if piece["set"] == "reference"} == {"8"}
    assert list(pieces[0])[3 : 3 + len(METRICS)] == list(METRICS)
    report = json.loads((out / "music.json").read_text("utf-8"))
    assert report["bars_compared"] == 4
    assert {item["name"] for item in report["pictures"]} == {
        "music_distributions",
        "form_distributions",
        "bar_similarity_curve",
    }
    names = [item["name"] for item in (*report["tables"], *report["pictures"])]
    assert len(set(names)) == len(names)
    assert run("generated=made,dull", "reference=real", "out=again")[0] == 0
    for path in out.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


@pytest.mark.usefixtures("undrawn")
def test_a_copy_of_the_reference_overlaps_with_it_and_a_corpus_can_be_one(tmp_path: Path, run: Run) -> None:
    assert command.main(["prepare", "input=real", "out=corpus"]) == 0
    assert run("generated=real", "reference=corpus", "split=all", "out=out", "bars=2", "listen=3")[0] == 0
    for row in rows(tmp_path / "out" / "music_numbers.csv"):
        if row["set"] == "real":
            assert row["delta"] in ("", "0.0"), row
            assert row["overlap"] == "" or float(row["overlap"]) > 0.99, row
    assert {piece["bars"] for piece in rows(tmp_path / "out" / "pieces.csv")} == {"8"}

    heard_page(tmp_path / "out")


def heard_page(out: Path) -> None:
    """The listening page has three of four pieces and as many songs, in turns, and is part of the evaluation."""
    page = (out / "listen.html").read_text("utf-8")
    titles = re.findall(r"<h2>(.*)</h2>", page)
    assert titles[::2] == ["Real · 0", "Real · 1", "Real · 2"]
    assert len(set(titles[1::2])) == 3
    assert all(title.startswith("A real song · ") for title in titles[1::2])
    music = [json.loads(unescape(text)) for text in re.findall(r'data-music="([^"]*)"', page)]
    assert [len(item["bars"]) for item in music] == [8, 2] * 3  # a song is cut to what is compared
    assert page.count("<dt>best earlier bar</dt>") == 6
    assert page.count("<dt>density jump</dt>") == 0
    assert "wav=true" not in page
    assert 'href="listen.html"' in (out / "index.html").read_text("utf-8")
    assert "listen.html" in json.loads((out / "music.json").read_text("utf-8"))["files"]


@pytest.mark.usefixtures("undrawn")
def test_a_folder_that_is_called_reference_is_still_what_was_generated(tmp_path: Path, run: Run) -> None:
    (tmp_path / "made").rename(tmp_path / "reference")
    status, printed, complaint = run("generated=reference,dull", "reference=real", "out=out")
    assert (status, complaint) == (0, "")
    assert "4 pieces of reference (generated), 3 pieces of dull, compared with 4 real songs" in printed


@pytest.mark.usefixtures("undrawn")
def test_the_end_of_a_prompt_is_compared_with_the_same_place_in_songs(tmp_path: Path, run: Run) -> None:
    """A piece with one note a beat, then two: its density jumps by 2, and a song of one note a beat has no jump."""
    beats = [*range(0, 8 * 480, 480), *range(8 * 480, 16 * 480, 240)]
    for name, starts, marks in (
        ("piece.mid", beats, [(8 * 480, "Continuation")]),
        ("song.mid", [*range(0, 32 * 480, 480)], []),
    ):
        score = Score(480, make_notes(starts, [start + 200 for start in starts], [60] * len(starts), 64))
        (tmp_path / name).write_bytes(midi_bytes(score, marks))
    status, printed, complaint = run("generated=piece.mid", "reference=song.mid", "out=out")
    assert (status, complaint) == (0, "")
    assert "piece.mid: 0% of pieces end on the tonic with a long note, of the reference 0%." in printed
    found = {(row["set"], row["metric"]): row["median"] for row in rows(tmp_path / "out" / "music_numbers.csv")}
    assert {key: float(value) for key, value in found.items() if key[1] in ("density jump", "notes alike at 1")} == {
        ("piece.mid", "density jump"): 2,
        ("reference", "density jump"): 1,
        ("piece.mid", "notes alike at 1"): 1,
        ("reference", "notes alike at 1"): 1,
    }
    (tmp_path / "piece.mid").write_bytes((tmp_path / "song.mid").read_bytes())
    assert run("generated=piece.mid", "reference=song.mid", "out=plain")[0] == 0
    assert "density jump" not in {row["metric"] for row in rows(tmp_path / "plain" / "music_numbers.csv")}


@pytest.mark.usefixtures("undrawn")
def test_single_files_have_medians_and_no_overlap(tmp_path: Path, run: Run) -> None:
    assert run("generated=made/21.mid", "reference=real/0.mid", "out=out")[0] == 0
    (row,) = (
        row for row in rows(tmp_path / "out" / "music_numbers.csv") if row["metric"] == "polyphony" and row["delta"]
    )
    assert (row["overlap"], row["halves overlap"], row["delta low"]) == ("", "", "")
    assert float(row["median"]) > 0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"grammar_errors": 2, "prompt_bars": 0}',
        '{"grammar_errors": 3, "tokens_of_bars": [1], "prompt_bars": 0}',
        '{"grammar_errors": 0, "tokens_of_bars": [5], "prompt_bars": 1}',
        '{"grammar_errors": null, "tokens_of_bars": [1], "prompt_bars": 0}',
        "[" * 100_000,
    ],
    ids=lambda content: content[:20],
)
def test_what_is_no_record_says_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    assert grammar_errors(tmp_path / "x.mid") != grammar_errors(tmp_path / "x.mid")  # nan
    assert grammar_errors(None) != grammar_errors(None)


@pytest.mark.parametrize(
    ("arguments", "naming"),
    [
        ([], "generated is missing"),
        (["generated=made"], "reference is missing"),
        (["generated=made", "reference=real"], "out is missing"),
        (["generated=nowhere", "reference=real", "out=out"], "generated=nowhere"),
        (["generated=made,nowhere", "reference=real", "out=out"], "generated=nowhere"),
        (["generated=made", "reference=empty", "out=out"], "reference=empty: no MIDI files"),
        (["generated=made", "reference=real", "out=made"], "out=made: holds other things"),
        (["generated=made", "reference=real", "out=out", "bars=0"], "bars=0"),
        (["generated=made", "reference=real", "out=out", "listen=65"], "listen=65"),
        (["generated=made", "reference=real", "out=out", "seed=-1"], "seed=-1"),
        (["generated=made", "reference=real", "out=out", "split=some"], "split=some"),
        (["generated=made", "refrence=real"], "'reference'"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_nothing_written(
    arguments: list[str], naming: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "empty").mkdir()
    check_refused(run, arguments, naming, tmp_path)
