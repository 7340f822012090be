"""Where the weights of a run come from: chance, or a model that exists (`init_from=`).

Design note: a run that starts from a model has that model's size and encoding. Only dropout, which changes no weight,
is the run's own. The record of the run says so, as if these keys had been given.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from musicgen.errors import UserError
from musicgen.languages.language import Language
from musicgen.languages.registry import load_tokenizer
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.model.bundle import Bundle, read_bundle
from musicgen.sampling.music_model import find_bundle
from musicgen.training.config import TrainConfig


def initial_bundle(name: str, language: Language) -> Bundle:
    """The model that a run starts from.

    Args:
        name: A bundle, a run or a built-in model.
        language: The language of the corpus.

    Raises:
        UserError: There is no such model, or it has other tokens.
    """
    try:
        folder = find_bundle(name)
        theirs = load_tokenizer(folder)
        bundle = read_bundle(folder)
    except UserError as error:
        raise UserError(f"init_from={name}: {str(error).removeprefix(f'model={name}: ')}") from None
    if theirs.name != language.name:
        raise UserError(
            f"init_from={name}: has {theirs.name} tokens, and the corpus has {language.name} tokens; "
            "choose a model and a corpus with the same tokens"
        )
    return bundle


def with_size(composed: dict[str, Any], size: PerformerConfig) -> dict[str, Any]:
    """A composed config whose groups `model` and `pe` say what a model has."""
    values = dataclasses.asdict(size)
    model = {key: values[key] for key in composed["model"]}
    encoding = {key: value for key, value in values.items() if key not in (*model, "vocab_size", "pe")}
    return {**composed, "model": model, "pe": {"name": size.pe, **encoding}}


def initial_model(size: PerformerConfig, bundle: Bundle | None) -> PerformerLM:
    """A model of some size, with the weights of a bundle or with random ones."""
    model = PerformerLM(size)
    if bundle is not None:
        model.load_state_dict(bundle.model.state_dict())
    return model


def model_size(config: TrainConfig, vocab_size: int, bundle: Bundle | None) -> PerformerConfig:
    """The config of the model: that of a bundle, or what the run says, with the vocabulary of the corpus."""
    size = PerformerConfig.from_groups(vocab_size, config.model, config.pe, "config")
    return size if bundle is None else dataclasses.replace(bundle.model.config, dropout=size.dropout)
