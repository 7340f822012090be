"""Every path on the meta device: nothing is left on the CPU that belongs to the device of the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from musicgen.model import PerformerConfig
from musicgen.model.size import model_without_memory

TIME = {"positions": "time", "decay": "fixed", "decay_positions": "time"}
LAYERS = {"short_conv": 3, "head_norm": True, "output_gate": True, "gated_ff": True, "norm": "pre"}
MODELS: list[dict[str, Any]] = [
    {"pe": "none"},
    {"pe": "ape", "feature_map": "relu"},
    {"pe": "rope", "rotated": 0.5, "learn_frequencies": True},
    {"pe": "rope", "feature_map": "elu", **TIME},
    {"pe": "sine", "attention": "delta", "decay": "learnt"},
    {"pe": "sine", "gated": False, "shared": False, "noise": "orthogonal"},
    {"pe": "sine", "rotated": 0.5, **LAYERS, **TIME},
    {"pe": "conv"},
    {"pe": "conv", **TIME},
]


@pytest.mark.parametrize("changes", MODELS, ids=str)
def test_forward_backward_prefill_and_step_stay_on_the_device(changes: dict[str, Any]) -> None:
    sizes = {"vocab_size": 13, "num_layers": 2, "num_heads": 2, "d_model": 44, "d_ff": 70, "num_features": 18}
    noise = {"num_realizations": 9, "num_sines": 2, "kernel_size": 9, "dropout": 0.1}
    model = model_without_memory(PerformerConfig(**{**sizes, **noise, **changes}))
    tokens, draw = torch.zeros(2, 30, dtype=torch.long, device="meta"), model.draw(0)
    beats = {"times": torch.arange(60).view(2, 30) / 7} if model.config.needs_times else {}
    logits = model.train()(tokens, draw, **beats)
    logits.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    model.eval()
    read, state = model.prefill(tokens, model.init_state(draw, 2), **beats)
    step, state = model.step(tokens[:, 0], state, **{name: times[:, -1] for name, times in beats.items()})
    kept = [tensor for layer in state.layers for tensor in layer.tensors().values()]
    assert gradients
    assert {tensor.device.type for tensor in (logits, read, step, *gradients, *kept)} == {"meta"}
