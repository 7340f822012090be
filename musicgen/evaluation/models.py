"""The models that an evaluation is asked to judge.

The hard choice: a model is called what people call it, which is the name of its folder or of its run, and models of one
config are the same model trained with other seeds: they are one curve, with their spread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from musicgen.data.open import AnyCorpus
from musicgen.errors import UserError
from musicgen.files import kind_of, tell_apart
from musicgen.model import PerformerLM
from musicgen.model.bundle import read_remark
from musicgen.sampling.composer import OF_A_RUN, Composer, find_bundle, load_composer
from musicgen.tokens.language import Language


@dataclass(frozen=True)
class Judged:
    """A model to be judged.

    Attributes:
        name: What it is called; no two models of a call are called the same.
        composer: The model and its language.
        training: How it was trained, as its bundle says; may be empty.
    """

    name: str
    composer: Composer
    training: dict[str, Any]

    @property
    def model(self) -> PerformerLM:
        """In evaluation mode."""
        return self.composer.model

    @property
    def language(self) -> Language:
        """Its token language."""
        return self.composer.language

    @property
    def trained_length(self) -> int | None:
        """Tokens of a training window; None if its bundle does not say."""
        length = self.training.get("length")
        return length if type(length) is int and length > 0 else None


def load_models(names: str) -> list[Judged]:
    """Models by the names of built-in ones, folders of bundles or of runs, or patterns, with commas between them.

    Raises:
        UserError: One of them cannot be used, and why.
    """
    given = split_names(names)
    folders = [find_bundle(name) for name in given]
    if len({folder.resolve() for folder in folders}) < len(folders):  # a run and its bundle, say
        raise UserError(f"model={names}: names one twice")
    composers = [load_composer(folder) for folder in folders]
    called = tell_apart(given, "model", OF_A_RUN)
    return [
        Judged(name, composer, read_remark(folder, "training"))
        for name, composer, folder in zip(called, composers, folders, strict=True)
    ]


def split_names(names: str) -> list[str]:
    """What stands between commas, a pattern as all that match it; a path that is there is one, commas or not.

    Raises:
        UserError: Nothing does.
    """
    is_one = kind_of(Path(names).expanduser()) is not None
    given = [names] if is_one else [name.strip() for name in names.split(",") if name.strip()]
    if not given:
        raise UserError("model is empty: write model=DIR or model=DIR,DIR")
    return [folder for name in given for folder in _matching(name)]


def _matching(name: str) -> list[str]:
    """The folders that a pattern stands for, in order; anything else stands for itself.

    Raises:
        UserError: The pattern stands for none.
    """
    path = Path(name).expanduser()
    if not any(sign in name for sign in "*?[") or kind_of(path) is not None:
        return [name]
    matches = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    found = sorted(str(match) for match in matches if kind_of(match) == "folder")
    if not found:
        raise UserError(f"model={name}: no folder has a name like this")
    return found


def one_language(models: Sequence[Judged], corpus: AnyCorpus | None = None) -> Language:
    """The language that all models, and the corpus, speak.

    Raises:
        UserError: They speak different ones.
    """
    language = models[0].language
    for model in models[1:]:
        if model.language.name != language.name:
            raise UserError(
                f"model: {models[0].name} was trained on {language.name} tokens and {model.name} on "
                f"{model.language.name}; compare models of one kind"
            )
    if corpus is not None and corpus.language.name != language.name:
        held, spoken = corpus.language.name, language.name
        raise UserError(f"data: the corpus holds {held} tokens and {models[0].name} was trained on {spoken} tokens")
    return language


def strangers(models: Sequence[Judged], corpus: AnyCorpus) -> list[str]:
    """A sentence for each model that was trained on another corpus, as far as its bundle says."""
    return [
        f"{model.name} was trained on another corpus than this: its songs need not be those that were held out then."
        for model in models
        if model.training.get("corpus") not in (None, corpus.fingerprint)
    ]


def families(models: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Models that are the same but for the seed of their training, by a name that they share, in the order given.

    What a bundle does not say of its training is taken to be the same.
    """
    kinds: dict[str, list[Judged]] = {}
    for model in models:
        training = {name: model.training.get(name) for name in ("length", "batch_size", "steps", "corpus")}
        kind = repr((model.model.config, training))
        seeds = [member.training.get("seed") for member in kinds.get(kind, ())]
        if model.training.get("seed") is not None and model.training["seed"] in seeds:
            kind = repr((kind, model.name))  # the same seed twice is no other draw from the same urn
        kinds.setdefault(kind, []).append(model)
    taken = {model.name for model in models}
    named: dict[str, list[Judged]] = {}
    for members in kinds.values():
        stems = {re.sub(r"[-_ ]*(s|seed)?[-_ ]*\d+$", "", member.name) for member in members}
        stem = stems.pop() if len(members) > 1 and len(stems) == 1 else ""
        named[stem if stem and stem not in taken else members[0].name] = members
        taken.add(stem)
    return named


def window_of(judged: Judged, given: int | None, key: str = "trained") -> int:
    """How many tokens the windows had that a model was trained on: as its bundle says, or else what is given.

    Raises:
        UserError: Neither is known.
    """
    length = judged.trained_length or given
    if length is None:
        raise UserError(
            f"{key} is missing: the bundle of {judged.name} does not say how many tokens its training windows had; "
            f"write {key}=NUMBER"
        )
    return length
