from __future__ import annotations

import pytest

from benchmarks.arena_attention import KINDS, LENGTHS, attention
from benchmarks.arena_steps import TASKS, step
from musicgen.cli.config import groups


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_attention_is_measured(kind: str) -> None:
    assert attention(kind, LENGTHS[0])[f"seconds {LENGTHS[0]}"] > 0


def test_a_step_of_the_smallest_model_is_measured() -> None:
    assert step("image/sine")["seconds"] > 0


def test_all_of_the_papers_models_are_measured() -> None:
    assert {name.split("/")[0] for name in groups("arena")["paper"]} == set(TASKS)
