from __future__ import annotations

from pathlib import Path

from musicgen.training.table import COLUMNS, Table, draw_curves, read_table


def test_numbers_come_back_to_the_last_digit(tmp_path: Path) -> None:
    table = Table(tmp_path / "metrics.csv")
    rows = [{"step": step, "train/loss": 1 / (step + 3), "val/loss": 2 / 7} for step in range(5)]
    for row in rows:
        table.add(int(row["step"]), {name: value for name, value in row.items() if name != "step"})
    assert read_table(table.path) == rows
    assert table.path.read_text().splitlines()[0] == ",".join(COLUMNS)


def test_a_run_that_goes_on_cuts_off_what_lies_ahead(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    table = Table(path)
    for step in range(1, 8):
        table.add(step, {"train/loss": 1.0 * step})
    with path.open("a") as file:
        file.write("8,1.23")  # the process was killed in the middle of a line
    Table(path, step=4).add(5, {"train/loss": 50.0})
    assert [(row["step"], row["train/loss"]) for row in read_table(path)] == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 50)]


def test_curves_are_drawn_of_whatever_there_is(tmp_path: Path) -> None:
    table = Table(tmp_path / "metrics.csv")
    draw_curves(table.path, tmp_path / "empty.png")
    table.add(1, {"train/loss": 5.0, "train/learning_rate": 1e-3})
    table.add(1, {"val/loss": 5.5, "val/loss_spread": 0.1, "val/loss_extrapolated": 6.0})
    draw_curves(table.path, tmp_path / "curves.png")
    for name in ("empty.png", "curves.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
