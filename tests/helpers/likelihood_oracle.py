"""Losses as anybody would compute them, token by token; small models, songs and evaluated models for tests."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from musicgen.data.prepare import compose_songs, gather
from musicgen.evaluation.models import EvaluatedModel
from musicgen.languages import Groove, Remi, Tokens
from musicgen.languages.language import Language
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.sampling.music_model import MusicModel
from musicgen.spe import Draw


def small_model(language: Language, seed: int = 0, **changes: Any) -> PerformerLM:
    """An untrained model, with weights so large that what it read matters."""
    sizes = {"num_layers": 2, "num_heads": 2, "d_model": 16, "d_ff": 32, "num_features": 8, "num_realizations": 8}
    torch.manual_seed(seed)
    config = PerformerConfig(len(language.vocabulary), **{**sizes, "weight_std": 0.3, **changes})
    return PerformerLM(config).eval()


def constant_model(language: Language, logits: torch.Tensor) -> PerformerLM:
    """A model that says the same whatever it read."""
    model = small_model(language)
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.copy_(logits)
    return model


def evaluated(name: str, model: PerformerLM, language: Language, trained: int | None = None) -> EvaluatedModel:
    return EvaluatedModel(name, MusicModel(model, language, name), {} if trained is None else {"length": trained})


def songs(number: int = 3, bars: int = 6) -> list[Tokens]:
    corpus = gather(Remi(), compose_songs(Remi(), number, bars, 0), 0, None, {"source": "synthetic"})
    return [corpus[song] for song in corpus.songs()]


def grooves(number: int = 3, bars: int = 8) -> list[Tokens]:
    corpus = gather(Groove(), compose_songs(Groove(), number, bars, 0), 0, None, {"source": "synthetic_grooves"})
    return [corpus.tokens(song) for song in corpus.songs()]


def pieces_of(language: Remi | Groove) -> list[Tokens]:
    return grooves() if isinstance(language, Groove) else songs()


def slow_losses(model: PerformerLM, inputs: Iterable[int], targets: Iterable[int], draw: Draw) -> list[float]:
    """One step for each token."""
    state = model.init_state(draw)
    found = []
    for token, target in zip(inputs, targets, strict=True):
        logits, state = model.step(torch.tensor([int(token)]), state)
        found.append(-float(torch.log_softmax(logits[0].double(), 0)[int(target)]))
    return found


def plain_mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else math.nan


def no_bar(items: Iterable[int], total: int, unit: str) -> Iterable[int]:  # noqa: ARG001
    return items


def close(found: Any, expected: Any, tolerance: float = 2e-4) -> bool:
    return bool(np.allclose(found, expected, atol=tolerance, rtol=0, equal_nan=True))
