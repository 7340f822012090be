"""The models that an evaluation is asked to judge.

The hard choice: a model is called what people call it, which is the name of its folder or of its run, and models of one
config are the same model trained with other seeds: they are one curve, with their spread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from musicgen.data.open import AnyCorpus
from musicgen.errors import UserError
from musicgen.files import tell_apart
from musicgen.model import PerformerConfig, PerformerLM
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
        return length if isinstance(length, int) and length > 0 else None


def load_models(names: str) -> list[Judged]:
    """Models by the names of built-in ones, folders of bundles or of runs, with commas between them.

    Raises:
        UserError: One of them cannot be used, and why.
    """
    given = [name.strip() for name in names.split(",") if name.strip()]
    if not given:
        raise UserError("model is empty: write model=DIR or model=DIR,DIR")
    folders = [find_bundle(name) for name in given]
    composers = [load_composer(folder) for folder in folders]
    called = tell_apart(given, "model", OF_A_RUN)
    return [
        Judged(name, composer, read_remark(folder, "training"))
        for name, composer, folder in zip(called, composers, folders, strict=True)
    ]


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


def families(models: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Models that are the same but for the seed of their training, by a name that they share, in the order given."""
    kinds: dict[tuple[PerformerConfig, int | None], list[Judged]] = {}
    for model in models:
        kinds.setdefault((model.model.config, model.trained_length), []).append(model)
    named: dict[str, list[Judged]] = {}
    for members in kinds.values():
        stems = {re.sub(r"[-_ ]*(s|seed)?[-_ ]*\d+$", "", member.name) for member in members}
        stem = stems.pop() if len(members) > 1 and len(stems) == 1 else ""
        named[stem if stem and stem not in named else members[0].name] = members
    return named
