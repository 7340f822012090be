"""The size of a model, without allocating it.

Design note: the model is built on torch's meta device, where a tensor is a shape. The count is exact,
and 76 million parameters take no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from musicgen.model.config import PerformerConfig
from musicgen.model.performer import PerformerLM

FLOAT = 4  # bytes
PARTS = {
    "embedding": "embedding",
    "layers": "layers",
    "encoding": "positional encoding",
    "last_norm": "last norm",
    "output": "output",
}


def model_without_memory(config: PerformerConfig) -> PerformerLM:
    """A model on the meta device, where a tensor is a shape."""
    with torch.device("meta"), _NoInitialisation():
        return PerformerLM(config)


class _NoInitialisation(TorchFunctionMode):
    """Draws no numbers. Where a tensor is a shape, torch would load its compiler to draw them: seconds."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else (kwargs or {})["tensor"]
        if func in (torch.rand, torch.randn):
            return torch.empty(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def count_parameters(config: PerformerConfig) -> dict[str, int]:
    """Trained parameters by part of the model."""
    model = model_without_memory(config)
    counts = {
        title: sum(parameter.numel() for parameter in model.get_submodule(name).parameters())
        for name, title in PARTS.items()
    }
    return {title: count for title, count in counts.items() if count or title != "last norm"}


def state_bytes(config: PerformerConfig) -> int:
    """Bytes of the streaming state of one piece.

    Each head of each layer has a matrix and a scale, and each layer the last inputs of its convolution, if it has one.
    """
    head = config.attention_features() * config.memory_values + 1
    recent = max(0, config.short_conv - 1) * 3 * config.d_model
    return FLOAT * config.num_layers * (config.num_heads * head + recent)
