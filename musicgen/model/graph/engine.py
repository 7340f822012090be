"""The engine `onnx`: a step of a model by onnxruntime.

A session belongs to a draw, whose noise is part of its graph. It is built when the draw is first used, which takes a
tenth of a second for small models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import Tensor

from musicgen.model.graph.step import step_graph
from musicgen.model.packed import Versions
from musicgen.model.performer import PerformerLM
from musicgen.model.places import find_row_places
from musicgen.model.state import LayerState, State
from musicgen.spe import Draw

REMEMBERED = tuple(field.name for field in dataclasses.fields(LayerState))
KEPT = 4  # sessions: each has a copy of the weights
ERRORS_ONLY = 3


class OnnxEngine:
    """Runs the steps of a model. A row's logits and state are the same bits in any batch.

    Args:
        model: The model, on the CPU.
    """

    engine_name = "onnx"
    device = torch.device("cpu")

    def __init__(self, model: PerformerLM) -> None:
        self.config = model.config
        self._model, self._versions = model, Versions(model)
        self._sessions: dict[tuple[Draw, int], _Session] = {}

    def step(self, tokens: Tensor, state: State, times: Tensor | None = None) -> tuple[Tensor, State]:
        """As `PerformerLM.step`."""
        self._model.check_rows(tokens, state)
        beats = None if times is None or not self.config.needs_times else tuple(times.tolist())
        places = find_row_places(self.config, state.positions, beats, state.times)
        logits, layers = self._session(state.draw)(tokens, *places, state.layers)
        indices_after = tuple(position + 1 for position in state.positions)
        return logits, State(state.draw, indices_after, layers, state.realization, beats)

    def _session(self, draw: Draw) -> _Session:
        """The session of a draw, with the model's weights as they are."""
        if not self._versions.are_current():
            self._sessions.clear()
            self._versions = Versions(self._model)
        key = (draw, torch.get_num_threads())
        session = self._sessions.pop(key, None) or _Session(self._model, *key)
        self._sessions[key] = session  # the latest is last
        for old in list(self._sessions)[:-KEPT]:
            del self._sessions[old]
        return session


class _Session:
    """The graph of a draw, ready to run."""

    def __init__(self, model: PerformerLM, draw: Draw, threads: int) -> None:
        graph = step_graph(model, draw)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = ERRORS_ONLY
        data = graph.model().SerializeToString()
        self._run = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run
        self._feeds = graph.feeds
        self._names = [
            {name: f"{name}_{layer}" for name in REMEMBERED if f"{name}_{layer}" in graph.inputs}
            for layer in range(model.config.num_layers)
        ]
        self._outputs = ["logits", *(f"next_{name}" for names in self._names for name in names.values())]

    def __call__(
        self,
        tokens: Tensor,
        positions: Sequence[float],
        elapsed: Sequence[float] | None,
        before: Sequence[LayerState],
    ) -> tuple[Tensor, tuple[LayerState, ...]]:
        """Logits, `(batch, vocab_size)`, and what each layer remembers now."""
        if len(set(positions)) == 1:
            positions = positions[:1]  # one code for all rows
        inputs: dict[str, NDArray[Any]] = {
            "token": tokens.numpy(),
            "position": np.array(positions, np.float64),
            **{name: feed(positions) for name, feed in self._feeds.items()},
        }
        if elapsed is not None:
            inputs["elapsed"] = np.array(elapsed, np.float32)[:, None]
        for names, layer in zip(self._names, before, strict=True):
            for name, own in names.items():
                inputs[own] = getattr(layer, name).contiguous().numpy()
        logits, *results = map(torch.from_numpy, self._run(self._outputs, inputs))
        remembered = iter(results)
        after = [
            # What the graph does not change goes on as it is.
            LayerState(**layer.tensors() | {name: next(remembered) for name in names})
            for names, layer in zip(self._names, before, strict=True)
        ]
        return logits, tuple(after)
