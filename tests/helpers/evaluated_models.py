"""Small models to evaluate, with random weights large enough to matter."""

from __future__ import annotations

from typing import Any

import torch

from musicgen.evaluation.models import EvaluatedModel
from musicgen.languages import Remi
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.sampling.music_model import MusicModel

SIZES: dict[str, Any] = {
    "vocab_size": 361,
    "num_layers": 2,
    "num_heads": 2,
    "d_model": 16,
    "d_ff": 32,
    "num_features": 16,
    "num_realizations": 12,  # other than the features of a head, so that the two cannot be confused
    "num_sines": 2,
    "kernel_size": 8,
    "weight_std": 0.3,
}


def small_model(**changes: Any) -> PerformerLM:
    torch.manual_seed(0)
    return PerformerLM(PerformerConfig(**{**SIZES, **changes})).eval()


def evaluated(name: str = "small", length: int | None = 64, **changes: Any) -> EvaluatedModel:
    training = {} if length is None else {"length": length}
    return EvaluatedModel(name, MusicModel(small_model(**changes), Remi(), name), training)
