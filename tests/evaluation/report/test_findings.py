"""Findings come back from their folder as they went, look the same in a terminal, and harm nobody on a page."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from musicgen.errors import UserError
from musicgen.evaluation.report.drawing import label, png_bytes, read_png, render
from musicgen.evaluation.report.files import csv_bytes, load_findings, save_findings
from musicgen.evaluation.report.findings import Cell, Explorer, Findings, Spread, Table, aligned, terminal
from musicgen.evaluation.report.page import LARGEST_VECTOR, findings_page

HOSTILE = "</script><script>alert('1')</script><img src=x onerror=alert(1)>"


def table() -> Table:
    rows: list[list[Cell]] = [["a", 1234, 0.5, Spread(1.25, 0.125)], ["b", None, math.nan, Spread(math.nan, 0.0)]]
    return Table("numbers", "Some numbers", ["name", "count", "share", "loss"], rows, digits=2)


def findings(name: str = "a model") -> Findings:
    figure = Figure(figsize=(1, 1))
    figure.subplots().plot([0, 1])
    levels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    explorer = Explorer(
        name="maps",
        title=f"Maps of {name}",
        choices={"layer": ["1", "2"], "head": [name]},
        maps={("1", name): levels, ("2", name): levels[::-1]},
        levels=list(np.linspace(0, 1, 256)),
        extent=(6, 8),
        labels=[f"token {number} of {name}" for number in range(8)],
        note=f"How to read {name}",
    )
    return Findings(
        kind="probe",
        title=f"Probe of {name}",
        summary=[f"{name} is 1.", "It is not 2."],
        settings={"model": name, "out": None, "draws": 3},
        tables=[table(), Table("long", "All", ["x"], [[0.123456789]], shown=False)],
        pictures=[render(figure, "line", f"A line of {name}")],
        explorers=[explorer],
        details={"more": {"nan": math.nan, "numpy": np.float64(0.25), "path": Path("a")}},
        left_out=[f"{name}.mid: not a MIDI file"],
    )


def test_a_table_for_people_aligns_numbers_on_the_right_and_marks_what_is_not_known() -> None:
    assert aligned(table()).splitlines() == [
        "name  count  share         loss",
        "a     1,234   0.50  1.25 ± 0.12",
        "b         –      –            –",
    ]


def test_a_csv_file_has_a_spread_in_two_columns_and_nothing_for_what_is_not_known() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_bytes(table()).decode())))
    assert rows[0] == {"name": "a", "count": "1234", "share": "0.5", "loss": "1.25", "loss (deviation)": "0.125"}
    assert rows[1] == {"name": "b", "count": "", "share": "", "loss": "", "loss (deviation)": "0.0"}


@pytest.mark.parametrize("name", ["a model", HOSTILE])
def test_what_is_saved_is_read_again_but_for_long_tables_and_details(tmp_path: Path, name: str) -> None:
    saved = findings(name)
    save_findings(saved, tmp_path / "out")
    loaded = load_findings(tmp_path / "out")
    assert terminal(loaded) == terminal(saved)
    assert loaded.settings == saved.settings
    assert loaded.pictures == saved.pictures
    (ours,), (theirs,) = saved.explorers, loaded.explorers
    assert theirs.maps.keys() == ours.maps.keys()
    assert all(np.array_equal(theirs.maps[key], ours.maps[key]) for key in ours.maps)
    assert (theirs.choices, theirs.labels, theirs.extent) == (ours.choices, ours.labels, ours.extent)
    content = json.loads((tmp_path / "out" / "probe.json").read_text("utf-8"))
    assert content["more"] == {"nan": None, "numpy": 0.25, "path": "a"}
    assert sorted(content["files"]) == sorted(path.name for path in (tmp_path / "out").iterdir())
    assert (tmp_path / "out" / "long.csv").read_text() == "x\n0.1234568\n"
    assert findings_page(saved.title, [loaded]) == (tmp_path / "out" / "index.html").read_text("utf-8")


def test_a_page_needs_no_network_and_holds_every_picture_and_map() -> None:
    saved = findings()
    page = findings_page("Title", [saved])
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)
    assert "http" not in re.sub(r"data:image[^\"]*|http-equiv", "", page)
    embedded = re.findall(r"data:image/svg\+xml;base64,([^\"]*)", page)
    assert [base64.b64decode(text) for text in embedded] == [saved.pictures[0].svg]
    block = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[0])
    for options, levels in saved.explorers[0].maps.items():
        assert np.array_equal(read_png(base64.b64decode(block["images"]["\t".join(options)])), levels)


def test_a_large_drawing_is_shown_as_dots() -> None:
    saved = findings()
    picture = saved.pictures[0]
    large = type(picture)(picture.name, picture.title, picture.png, picture.svg + b" " * LARGEST_VECTOR)
    page = findings_page("Title", [Findings("probe", "Title", [], {}, pictures=[large])])
    assert base64.b64encode(picture.png).decode() in page
    assert "svg+xml" not in page


def test_names_from_strangers_are_shown_and_never_run() -> None:
    page = findings_page(HOSTILE, [findings(HOSTILE), findings("b")], [HOSTILE], [(f"{HOSTILE}/index.html", HOSTILE)])
    assert page.count("<script") == 3  # two blocks of data, and ours
    assert "<img src=x" not in page
    assert "alert('1')" not in re.sub(r'<script type="application/json">.*?</script>', "", page, flags=re.DOTALL)
    assert page.count('id="probe"') == 2


@pytest.mark.parametrize(
    ("name", "value", "naming"),
    [
        ("tables", [{"name": "x"}], "damaged"),
        ("tables", [{"name": "x", "title": "", "digits": 1, "columns": ["a"], "rows": [[1, 2]]}], "too many cells"),
        ("tables", [{"name": "x", "title": "", "digits": 1, "columns": ["a"], "rows": [[[]]]}], "a cell of list"),
        ("pictures", [{"name": "../../line", "title": ""}], "no name of a file"),
        ("pictures", [{"name": "none", "title": ""}], "none.png"),
        ("tables", [{"name": "x", "title": "", "digits": -1, "columns": [], "rows": []}], "-1 digits"),
        ("tables", [{"name": "x", "title": "", "digits": 10**9, "columns": [], "rows": []}], "digits"),
        ("tables", [{"name": "x", "title": "", "digits": math.inf, "columns": [], "rows": []}], "inf digits"),
        ("files", [{}], "not a folder that"),
        ("summary", 5, "damaged"),
        ("title", ["no"], "no text"),
        ("evaluation", 99, "not a folder that"),
    ],
)
def test_a_damaged_folder_is_said_to_be_one(tmp_path: Path, name: str, value: object, naming: str) -> None:
    save_findings(findings(), tmp_path)
    path = tmp_path / "probe.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), name: value}))
    with pytest.raises(UserError, match=re.escape(naming)):
        load_findings(tmp_path)


def test_a_map_is_the_same_after_its_file() -> None:
    levels = np.random.default_rng(0).integers(0, 256, (7, 5)).astype(np.uint8)
    assert np.array_equal(read_png(png_bytes(levels)), levels)


@pytest.mark.parametrize(
    ("name", "value"),
    [("levels", [math.nan] * 256), ("levels", [0.5]), ("levels", [10**400] * 256), ("extent", [math.inf, 1])],
)
def test_maps_from_strangers_have_levels_that_are_numbers(tmp_path: Path, name: str, value: object) -> None:
    save_findings(findings(), tmp_path)
    path = tmp_path / "probe.json"
    content = json.loads(path.read_text("utf-8"))
    content["explorers"][0][name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"damaged|not a folder that"):
        load_findings(tmp_path)


@pytest.mark.parametrize("side", [9_000, 20_000])
def test_a_map_that_would_fill_the_memory_is_refused(side: int) -> None:
    file = io.BytesIO()
    Image.new("1", (side, side)).save(file, format="PNG")
    with pytest.raises(ValueError, match="too large"):
        read_png(file.getvalue())


def test_a_long_table_is_folded_up() -> None:
    long = Table("long", "Numbers", ["x"], [[number] for number in range(100)])
    page = findings_page("Title", [Findings("probe", "Title", [], {}, tables=[table(), long])])
    assert page.count("<details>") == 1
    assert "<summary>Numbers. (100 rows)</summary>" in page


def test_names_with_dollars_and_strange_letters_are_drawn_as_they_are() -> None:
    figure = Figure(figsize=(2, 1))
    figure.subplots().set_title(label("a$x_{$ \U0001f3b5\n"))
    assert render(figure, "x", "y").png
    assert label("a" * 50, 10) == "…" + "a" * 9
