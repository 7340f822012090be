"""Models have names that tell them apart, and are one family only if nothing but a seed does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from evaluated_models import evaluated

from musicgen.data.corpus import Corpus
from musicgen.errors import UserError
from musicgen.evaluation.models import EvaluatedModel, group_by_seed, load_models, strangers, window_of
from musicgen.languages.registry import tokenizer_json
from musicgen.model import save_bundle

TRAINING = {"length": 64, "batch_size": 8, "steps": 100, "corpus": "a"}


def trained(name: str, pe: str = "ape", **changes: Any) -> EvaluatedModel:
    return replace(evaluated(name, pe=pe), training={**TRAINING, **changes})


def names(*models: EvaluatedModel) -> dict[str, list[str]]:
    return {name: [member.name for member in members] for name, members in group_by_seed(models).items()}


def test_models_that_differ_by_their_seed_are_one_family_under_the_name_that_they_share() -> None:
    found = names(trained("x_s0", seed=0), trained("y", "rope", seed=0), trained("x_s1", seed=1))
    assert found == {"x": ["x_s0", "x_s1"], "y": ["y"]}
    assert names(trained("a", seed=0), trained("b", seed=1)) == {"a": ["a", "b"]}


def test_no_model_is_lost_where_the_shared_name_is_that_of_another() -> None:
    found = names(trained("x_s0", seed=0), trained("x_s1", seed=1), trained("x", "rope"))
    assert found == {"x_s0": ["x_s0", "x_s1"], "x": ["x"]}
    found = names(*(trained(f"x_s{seed}", pe, seed=seed) for pe in ("ape", "rope") for seed in (0, 1)))
    assert sorted(map(len, found.values())) == [2, 2]


@pytest.mark.parametrize("change", [{"steps": 9}, {"corpus": "b"}, {"batch_size": 1}, {"length": 32}, {"seed": 0}])
def test_other_training_or_the_same_seed_makes_other_models(change: dict[str, Any]) -> None:
    assert len(group_by_seed([trained("x_1", seed=0), trained("x_2", **{"seed": 1, **change})])) == 2


def test_the_trained_length_is_what_the_bundle_says_or_else_the_user() -> None:
    assert window_of(trained("a"), 7) == 64
    assert window_of(evaluated("a", length=None), 7) == 7
    with pytest.raises(UserError, match="trained is missing: the bundle of a "):
        window_of(evaluated("a", length=None), None)
    for wrong in (True, 0, -3, "many", None):
        with pytest.raises(UserError, match="size is missing"):
            window_of(trained("a", length=wrong), None, "size")


def test_a_path_may_have_a_comma_and_none_is_given_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = evaluated("a")
    for name in ("a,b/m", "c/m", "run/bundle"):
        save_bundle(small.model, tmp_path / name, files={"tokenizer.json": tokenizer_json(small.language)})
    assert [model.name for model in load_models("a,b/m")] == ["m"]
    assert [model.name for model in load_models("c/m, run,")] == ["m", "run"]
    for twice in ("c/m,c/m", "c/m,c/../c/m", f"run,{tmp_path}/run", "run,run/bundle"):
        with pytest.raises(UserError, match="lists the same entry twice"):
            load_models(twice)
    with pytest.raises(UserError, match="model is empty"):
        load_models(" , ")


def test_a_model_of_another_corpus_is_told_of() -> None:
    corpus = cast(Corpus, SimpleNamespace(fingerprint="a"))
    silent = replace(evaluated("silent"), training={})
    (line,) = strangers([trained("at home"), trained("abroad", corpus="b"), silent], corpus)
    assert line.startswith("abroad was trained on another corpus")


def test_a_run_without_a_bundle_is_told_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with pytest.raises(UserError, match=r"run: a training run that has no bundle yet.*musicgen export checkpoint="):
        load_models(str(tmp_path / "run"))


def test_a_pattern_stands_for_all_folders_that_it_matches_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = evaluated("a")
    for name in ("sine_s1", "sine_s0", "ape_s0", "x[1]"):
        save_bundle(small.model, tmp_path / name, files={"tokenizer.json": tokenizer_json(small.language)})
    (tmp_path / "sine_notes.txt").touch()
    assert [model.name for model in load_models("sine_*,ape_s?")] == ["sine_s0", "sine_s1", "ape_s0"]
    assert [model.name for model in load_models("x[1]")] == ["x[1]"]  # a name that is there is no pattern
    with pytest.raises(UserError, match=r"model=conv_\*: no folder has a name like this"):
        load_models("sine_*,conv_*")
    with pytest.raises(UserError, match="lists the same entry twice"):
        load_models("sine_*,sine_s0")
