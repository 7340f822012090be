"""How large a model is, before any of it is made.

The hard choice: the model is built on torch's meta device, where a tensor is a shape. The count is that of the real
model, and 76 million parameters take no memory.
"""

from __future__ import annotations

import torch

from musicgen.model.config import PerformerConfig
from musicgen.model.performer import PerformerLM

FLOAT = 4  # bytes
PARTS = {"embedding": "embedding", "layers": "layers", "encoding": "positional encoding", "output": "output"}


def count_parameters(config: PerformerConfig) -> dict[str, int]:
    """Trained parameters by part of the model."""
    with torch.device("meta"):
        model = PerformerLM(config)
    return {
        title: sum(parameter.numel() for parameter in model.get_submodule(name).parameters())
        for name, title in PARTS.items()
    }


def state_bytes(config: PerformerConfig) -> int:
    """Bytes of attention memory of one piece: a matrix and a scale for each head of each layer."""
    encoded = config.num_realizations if config.is_stochastic else config.head_features
    features = config.num_features if config.feature_map == "favor" else encoded
    return FLOAT * config.num_layers * config.num_heads * (features * (config.head_features + 1) + 1)
