"""What runs a step of a model: torch, or onnxruntime with the model's graph.

torch is the reference: it runs anywhere and trains. onnxruntime runs the same step in a fraction of the time on a CPU.
Both read and write the same states, so a piece may go on with the other engine. Their logits differ by rounding.

Design note: the graph is always built here, from the weights of the model. A graph that lies in a bundle is never
loaded, so it need not be trusted.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Literal, Protocol

import torch

from musicgen.errors import UserError
from musicgen.model.performer import PerformerLM

if TYPE_CHECKING:
    from torch import Tensor

    from musicgen.model.config import PerformerConfig
    from musicgen.model.state import State

EngineName = Literal["auto", "torch", "onnx"]
PACKAGES = ("onnx", "onnxruntime")
LARGEST = 1_900_000_000  # bytes of weights: a graph in one piece has at most 2 GB


class Engine(Protocol):
    """What the sampler needs of a model. `PerformerLM` is the engine `torch`."""

    @property
    def engine_name(self) -> str:
        """`torch` or `onnx`."""

    @property
    def config(self) -> PerformerConfig:
        """Of the model."""

    @property
    def device(self) -> torch.device:
        """Where tokens are expected."""

    def step(self, tokens: Tensor, state: State, times: Tensor | None = None) -> tuple[Tensor, State]:
        """As `PerformerLM.step`: the bits of a row do not depend on the other rows."""


def make_engine(model: PerformerLM, name: EngineName = "auto") -> Engine:
    """The engine that runs a model.

    Args:
        model: The model, in evaluation mode.
        name: `auto` takes onnx if it can run the model here, and torch otherwise. It does not depend on the batch.

    Raises:
        UserError: The requested engine cannot run the model.
    """
    reason = "" if name == "torch" else why_not_onnx(model)
    if name == "onnx" and reason:
        raise UserError(f"engine=onnx: {reason}; give engine=torch")
    if name == "torch" or reason:
        return model
    from musicgen.model.graph.engine import OnnxEngine  # loads the packages

    return OnnxEngine(model)


def why_not_onnx(model: PerformerLM) -> str:
    """Why onnxruntime cannot run a model here; empty if it can."""
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        return f"the Python package {missing[0]!r} is not installed"
    config, weight = model.config, model.embedding.weight
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        dtype = str(weight.dtype).removeprefix("torch.")
        return f"the model is on {weight.device.type} in {dtype}, not on a CPU in float32"
    if not model.encoding.has_graph:
        return f"the positional encoding {config.pe} has no graph"
    sizes = (config.d_model, config.d_ff, config.vocab_size, config.encoded_features(), config.head_features)
    if min(sizes) < 2:
        return "the model is too small: the bits of a row would depend on the other rows"
    if 4 * model.num_parameters() > LARGEST:
        return "the model is too large for a graph"
    return ""
