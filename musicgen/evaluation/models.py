"""The models that are evaluated.

Design note: a model is named after its folder or its run. Models that differ only by the seed of their training are
one family: one curve, with a spread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from musicgen.data.corpus import Corpus
from musicgen.errors import UserError
from musicgen.files import kind_of, tell_apart
from musicgen.languages.language import Language
from musicgen.model import PerformerLM
from musicgen.sampling.music_model import OF_A_RUN, MusicModel, find_bundle, load_music_model


@dataclass(frozen=True)
class EvaluatedModel:
    """A model that is evaluated.

    Attributes:
        name: Its name; no two models of a call have the same.
        music_model: The model and its language.
        training: How it was trained, as its bundle says; may be empty.
    """

    name: str
    music_model: MusicModel
    training: dict[str, Any]

    @property
    def model(self) -> PerformerLM:
        """In evaluation mode."""
        return self.music_model.model

    @property
    def language(self) -> Language:
        """Its token language."""
        return self.music_model.language

    @property
    def trained_length(self) -> int | None:
        """How many tokens its training windows had; None if its bundle does not say."""
        length = self.training.get("length")
        return length if type(length) is int and length > 0 else None


def load_models(names: str) -> list[EvaluatedModel]:
    """Load models: names of built-in ones, folders of bundles or runs, or patterns, separated by commas."""
    given = split_names(names)
    folders = [find_bundle(name) for name in given]
    if len({folder.resolve() for folder in folders}) < len(folders):  # a run and its bundle, say
        raise UserError(f"model={names}: lists the same entry twice")
    music_models = [load_music_model(folder) for folder in folders]
    called = tell_apart(given, "model", OF_A_RUN)
    return [
        EvaluatedModel(name, music_model, music_model.training)
        for name, music_model in zip(called, music_models, strict=True)
    ]


def split_names(names: str) -> list[str]:
    """The names between commas; a pattern becomes all names that match. A path that exists is one name."""
    is_one = kind_of(Path(names).expanduser()) is not None
    given = [names] if is_one else [name.strip() for name in names.split(",") if name.strip()]
    if not given:
        raise UserError("model is empty: write model=DIR or model=DIR,DIR")
    return [folder for name in given for folder in _matching(name)]


def _matching(name: str) -> list[str]:
    """The folders that match a pattern, in order; a name that is not a pattern is returned unchanged."""
    path = Path(name).expanduser()
    if not any(sign in name for sign in "*?[") or kind_of(path) is not None:
        return [name]
    matches = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    found = sorted(str(match) for match in matches if kind_of(match) == "folder")
    if not found:
        raise UserError(f"model={name}: no folder has a name like this")
    return found


def one_language(models: Sequence[EvaluatedModel], corpus: Corpus | None = None) -> Language:
    """The one language of all models and of the corpus."""
    language = models[0].language
    for model in models[1:]:
        if not model.language.reads(language):
            raise UserError(
                f"model: {models[0].name} was trained on {language.name} tokens and {model.name} on "
                f"{model.language.name}; compare models of one kind"
            )
    if corpus is not None and not language.reads(corpus.language):
        held, spoken = corpus.language.name, language.name
        is_same = language.source == corpus.language.source
        again = f"; prepare it again with tokens={language.variant}" if is_same else ""
        raise UserError(
            f"data: the corpus holds {held} tokens and {models[0].name} was trained on {spoken} tokens{again}"
        )
    return language


def strangers(models: Sequence[EvaluatedModel], corpus: Corpus) -> list[str]:
    """A sentence for each model that was trained on another corpus, if its bundle says so."""
    return [
        f"{model.name} was trained on another corpus. The songs here may be songs that it was trained on."
        for model in models
        if model.training.get("corpus") not in (None, corpus.fingerprint)
    ]


def group_by_seed(models: Sequence[EvaluatedModel]) -> dict[str, list[EvaluatedModel]]:
    """Groups of models that differ only by the seed of their training, by a name that they share, in the order given.

    Where bundles do not say how they were trained, the training counts as the same.
    """
    kinds: dict[str, list[EvaluatedModel]] = {}
    for model in models:
        training = {name: model.training.get(name) for name in ("length", "batch_size", "steps", "corpus")}
        kind = repr((model.model.config, training))
        seeds = [member.training.get("seed") for member in kinds.get(kind, ())]
        if model.training.get("seed") is not None and model.training["seed"] in seeds:
            kind = repr((kind, model.name))  # the same seed twice is not a second sample
        kinds.setdefault(kind, []).append(model)
    taken = {model.name for model in models}
    named: dict[str, list[EvaluatedModel]] = {}
    for members in kinds.values():
        stems = {re.sub(r"[-_ ]*(s|seed)?[-_ ]*\d+$", "", member.name) for member in members}
        stem = stems.pop() if len(members) > 1 and len(stems) == 1 else ""
        named[stem if stem and stem not in taken else members[0].name] = members
        taken.add(stem)
    return named


def window_of(evaluated: EvaluatedModel, given: int | None, key: str = "trained") -> int:
    """How many tokens the training windows of a model had: as its bundle says, or else as given."""
    length = evaluated.trained_length or given
    if length is None:
        raise UserError(
            f"{key} is missing: the bundle of {evaluated.name} does not say how many tokens its training windows had; "
            f"write {key}=NUMBER"
        )
    return length
