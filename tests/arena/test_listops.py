from __future__ import annotations

import itertools
import statistics
import subprocess
import sys

import pytest

from musicgen.arena.listops import RULES, TOKENS, Rules, expressions, parse, top_level, value, written
from musicgen.arena.tasks import generate_listops
from musicgen.arena.yardsticks import yardsticks
from musicgen.errors import UserError


def by_hand(text: str) -> int:
    """The value of an expression by Python's own rules: `[MAX 1 2 ]` is read as `MAX(1,2)`."""
    functions = {
        "MIN": lambda *values: min(values),
        "MAX": lambda *values: max(values),
        "MED": lambda *values: int(statistics.median(values)),
        "SM": lambda *values: sum(values) % 10,
    }
    called = text.replace(" ]", ")").replace(" ", ",")
    for name in functions:
        called = called.replace(f"[{name},", f"{name}(")
    return int(eval(called, functions))  # noqa: S307


@pytest.mark.parametrize("name", RULES)
def test_expressions_follow_their_rules(name: str) -> None:
    rules = RULES[name]
    drawn = list(itertools.islice(expressions(rules, 1), 40))
    assert len({tokens for tokens, _ in drawn}) == 40
    for tokens, answer in drawn:
        text = written(tokens)
        assert rules.shortest <= len(tokens) == len(text.split()) <= rules.longest
        assert answer == value(tokens) == by_hand(text)
        assert parse(text) == tokens
        depth = max(itertools.accumulate((word[0] == "[") - (word == "]") for word in text.split()))
        assert depth <= rules.depth - 1  # the digits are a level of their own


def test_the_published_writing_is_read() -> None:
    tokens = parse("( ( ( [MAX 4 ) ( ( ( [MIN 2 ) 3 ) ] ) ) ] )")
    assert (written(tokens), value(tokens)) == ("[MAX 4 [MIN 2 3 ] ]", 4)
    assert top_level(tokens) == (1, [4])


@pytest.mark.parametrize("text", ["", "[MAX 1 2", "1 2", "]", "[MAX ]", "[TOP 1 ]"])
def test_what_is_no_expression_has_no_value(text: str) -> None:
    with pytest.raises(ValueError, match=r"token|expression|bracket"):
        value(parse(text))


def test_a_median_between_two_numbers_is_rounded_down() -> None:
    assert [value(parse(text)) for text in ("[MED 1 4 ]", "[MED 9 1 2 ]", "[MED 0 9 9 0 ]")] == [2, 2, 4]


def test_examples_do_not_depend_on_hashing() -> None:
    script = (
        "import hashlib, itertools; from musicgen.arena.listops import *; "
        "drawn = itertools.islice(expressions(RULES['listops_tiny'], 5), 300); "
        "print(hashlib.sha256(b'|'.join(tokens for tokens, _ in drawn)).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script], env={**__import__("os").environ, "PYTHONHASHSEED": seed},
            capture_output=True, check=True, text=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1


def test_the_test_set_does_not_depend_on_the_number_of_training_examples() -> None:
    few, many = (generate_listops("listops_tiny", (count, 20, 30), 3) for count in (40, 400))
    for split in ("valid", "test"):
        assert [few.sequence(row[0]).tobytes() for row in few.splits[split].sequences] == [
            many.sequence(row[0]).tobytes() for row in many.splits[split].sequences
        ]
    everything = [many.sequence(number).tobytes() for number in range(450)]
    assert len(set(everything)) == 450


def test_rules_that_allow_few_expressions_end_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("musicgen.arena.listops._PATIENCE", 20_000)
    with pytest.raises(UserError, match="no more than 400 different expressions"):
        list(expressions(Rules(2, 2, 4, 4), 0))


@pytest.mark.parametrize(
    ("name", "counts", "expected"),
    [
        ("listops_paper", (500, 1, 500), (0.173, 0.366)),
        ("listops", (3000, 1, 3000), (0.170, 0.358)),
        ("listops_tiny", (6000, 1, 6000), (0.12, 0.25)),
    ],
)
def test_simple_rules_are_right_as_often_as_on_the_published_data(
    name: str, counts: tuple[int, int, int], expected: tuple[float, float]
) -> None:
    found = yardsticks(generate_listops(name, counts, 0), 1 << 20)
    for share, right in zip(expected, (found["majority"], found["root operator"]), strict=True):
        assert right == pytest.approx(share, abs=3 * (share * (1 - share) / counts[2]) ** 0.5)
    assert found["root operator and its digits"] > found["root operator"] + 0.05


def test_brackets_are_tokens_and_a_model_has_sixteen_ids_with_padding() -> None:
    assert len(TOKENS) == 15
    assert "]" in TOKENS
