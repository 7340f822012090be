"""One field says a default, bounds and help; everything else comes from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from musicgen.errors import UserError
from musicgen.options import (
    aliases,
    build,
    check_needed,
    defaults,
    fit,
    help_table,
    option,
    plain,
    read_arguments,
    rows,
    section,
)
from musicgen.request import RequestOptions


@dataclasses.dataclass(frozen=True)
class Inner:
    rate: float = option(0.5, above=0, most=1, help="how fast")


@dataclasses.dataclass(frozen=True)
class Sample:
    folder: Path | None = option(needed=True, like="DIR", aliases=("output",), help="where it goes")
    count: int = option(3, least=1, help="how many")
    ratio: float | None = option(least=0, most=1, help="how much")
    mode: Literal["new", "other"] = option("new", renamed={"old": "other"}, help="how")
    loud: bool = option(False, help="whether it is loud")
    numbers: tuple[int, ...] | None = option(like="N,N", least=1, help="which ones")
    name: str | None = option(like="TEXT", help="what it is called")
    words: str | Sequence[str] | None = option(like="WORDS", help="one or several")
    size: int | Literal["auto"] = option("auto", least=1, help="how large")
    inner: Inner = section(Inner, "a section")

    def __post_init__(self) -> None:
        if self.loud and self.mode == "other":
            raise ValueError("loud=true: not with mode=other")


def read(*arguments: str) -> Sample:
    return build(Sample, read_arguments(Sample, arguments, "sample"))


def test_what_is_not_given_has_its_default() -> None:
    assert read() == Sample()
    assert defaults(Sample)["inner"] == {"rate": 0.5}


@pytest.mark.parametrize(
    ("argument", "name", "value"),
    [
        ("folder=a, [b] ${c}='d'", "folder", Path("a, [b] ${c}='d'")),
        ("output=x", "folder", Path("x")),
        ("folder=null", "folder", None),
        ("folder=", "folder", None),
        ("count=7", "count", 7),
        ("count=1e3", "count", 1000),
        ("count=9007199254740993", "count", 9007199254740993),
        ("ratio=1", "ratio", 1.0),
        ("ratio=1e-4", "ratio", 1e-4),
        ("ratio=null", "ratio", None),
        ("mode=other", "mode", "other"),
        ("mode='other'", "mode", "other"),
        ("mode=old", "mode", "other"),
        ("loud=true", "loud", True),
        ("loud=False", "loud", False),
        ("numbers=3,1,3", "numbers", (3, 1)),
        ("numbers=[1, 2]", "numbers", (1, 2)),
        ("name=true", "name", "true"),
        ("name=3", "name", "3"),
        ("words=a b", "words", "a b"),
        ("size=4", "size", 4),
        ("size=auto", "size", "auto"),
    ],
)
def test_an_argument_is_read_as_its_field_has_it(argument: str, name: str, value: object) -> None:
    found = getattr(read(argument), name)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("count=0", "count=0: takes a whole number (1 or more)"),
        ("count=1.5", "count=1.5: takes a whole number (1 or more)"),
        ("count=null", "count=null: takes a whole number (1 or more)"),
        ("count=true", "count=true: takes a whole number (1 or more)"),
        ("count=inf", "count=inf: takes a whole number (1 or more)"),
        ("ratio=2", "ratio=2: takes a number (0 to 1) or null"),
        ("ratio=nan", "ratio=nan: takes a number (0 to 1) or null"),
        ("mode=mine", "mode=mine: takes one of new, other"),
        ("loud=1", "loud=1: takes true or false"),
        ("numbers=1,x", "numbers=1,x: takes whole numbers (1 or more) with commas between them or null"),
        ("numbers=0", "numbers=0: takes whole numbers (1 or more) with commas between them or null"),
        ("size=none", "size=none: takes a whole number (1 or more) or auto"),
        ("folder=~nobody.here/x", "folder=~nobody.here/x: there is no such user"),
        ("cuont=3", "unknown key 'cuont': did you mean 'count'?"),
        ("ouptut=x", "unknown key 'ouptut': did you mean 'folder'?"),
        ("zzz=1", "unknown key 'zzz' (known: folder, count, "),
        ("count", "cannot read 'count': write key=value (see `musicgen sample --help`)"),
        ("+count=3", "cannot read '+count=3'"),
    ],
)
def test_what_does_not_fit_is_a_sentence(argument: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        read(argument)
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"rate": 0}, "inner.rate=0: takes a number (above 0, at most 1)"),
        ({"rate": "0.5"}, "inner.rate='0.5': takes a number (above 0, at most 1)"),
        ({}, "the key inner.rate is missing"),
        ({"rate": 1, "x": 1}, "unknown key inner.x"),
        ([1], "inner: takes several keys"),
    ],
)
def test_a_section_names_its_keys_with_dots(values: Any, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        build(Sample, {**defaults(Sample), "inner": values})
    assert str(error.value).startswith(sentence)


def test_values_that_do_not_go_together_are_refused_by_the_dataclass() -> None:
    with pytest.raises(UserError, match=r"^loud=true: not with mode=other$"):
        read("loud=true", "mode=old")


def test_python_values_fit_too_and_texts_are_no_numbers() -> None:
    assert fit(Sample, {"words": ["a", "b"], "count": 2.0}) == {"words": ("a", "b"), "count": 2}
    with pytest.raises(UserError, match="count='2': takes"):
        fit(Sample, {"count": "2"})


def test_what_is_needed_is_asked_for_as_it_is_written() -> None:
    with pytest.raises(UserError, match=r"folder is missing: write folder=DIR \(see `musicgen sample --help`\)"):
        check_needed(read(), "sample")
    check_needed(read("folder=x"), "sample")


def test_help_and_tables_show_every_key_and_no_old_name() -> None:
    keys = [*(name for name in plain(Sample()) if name != "inner"), "inner.rate"]
    assert [row.key for row in rows(Sample)] == keys
    assert [row.key for row in rows(Sample) if row.needed] == ["folder"]
    text = help_table(Sample)
    assert "  folder=DIR " in text
    assert "  ratio=X " in text
    assert "how (new, other)" in text
    assert "output" not in text
    assert aliases(Sample)["output"] == "folder"


@pytest.mark.parametrize("bars", [np.int64(2), np.float64(2), np.float32(2), 2.0])
def test_a_whole_number_may_be_of_any_kind(bars: Any) -> None:
    assert fit(RequestOptions, {"bars": bars}) == {"bars": 2}


@pytest.mark.parametrize("given", ["'2'", '"2"', "2"])
def test_a_number_in_quotes_is_a_number(given: str) -> None:
    assert read_arguments(RequestOptions, [f"bars={given}"], "generate")["bars"] == 2


def test_a_text_that_looks_like_a_number_is_shown_in_quotes() -> None:
    with pytest.raises(UserError, match=r"^bars='2': takes a whole number"):
        fit(RequestOptions, {"bars": "2"})


@pytest.mark.parametrize(("typed", "meant"), [("BARS", "bars"), ("polyfony", "polyphony"), ("Seed", "seed")])
def test_a_misspelt_key_is_recognised_in_any_case(typed: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"did you mean '{meant}'"):
        fit(RequestOptions, {typed: 3})
