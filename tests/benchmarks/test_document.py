from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.document import PAGE, RESULTS, TABLE, page

ROOT = Path(__file__).parents[2]


def test_the_performance_page_shows_what_was_measured() -> None:
    text = PAGE.read_text("utf-8")
    assert page(text) == text, "run python benchmarks/document.py"
    assert {match[2] for match in TABLE.finditer(text)} == {path.stem for path in RESULTS.glob("*.json")}


@pytest.mark.usefixtures("fast_transformers")
def test_the_recipe_is_the_same_model_and_a_step_of_it_is_measured() -> None:
    request = {"name": "recipe", "arguments": {"layers": 1, "length": 256, "threads": 1, "kept": False}}
    command = [sys.executable, ROOT / "benchmarks" / "training_step.py", "--measure", json.dumps(request)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(finished.stdout.splitlines()[-1])
    assert result["seconds"] > 0
    assert result["peak_gb"] > 0.1


def test_the_recipe_has_the_parameters_of_our_model(fast_transformers: None) -> None:  # noqa: ARG001
    from benchmarks.recipe import RecipeLM
    from musicgen.model import PerformerConfig, PerformerLM

    config = PerformerConfig(vocab_size=20, num_layers=2, num_heads=2, d_model=16, d_ff=32, num_features=16)
    assert sum(p.numel() for p in RecipeLM(config).parameters()) == PerformerLM(config).num_parameters()
