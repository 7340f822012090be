"""The engine `onnx`: a step of a model by onnxruntime.

A session belongs to a draw, whose noise is part of its graph. It is built when the draw is first used, which takes a
tenth of a second for small models.
"""

from __future__ import annotations

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
from musicgen.model.places import find_places
from musicgen.model.state import LayerState, State
from musicgen.spe import Draw

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
        positions: Sequence[float] = state.positions
        elapsed, last = None, None
        if self.config.needs_times:
            columns = tokens.unsqueeze(-1), None if times is None else times.unsqueeze(-1)
            indices = torch.tensor(positions).unsqueeze(-1)
            places = find_places(self.config, columns[0], indices, columns[1], state.times)
            elapsed, last = places.elapsed, None if times is None else tuple(times.tolist())
            positions = places.positions.squeeze(1).tolist()
        logits, layers = self._session(state.draw)(tokens, positions, elapsed, state.layers)
        indices_after = tuple(position + 1 for position in state.positions)
        return logits, State(state.draw, indices_after, layers, state.realization, last)

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
        self._outputs = list(graph.outputs)

    def __call__(
        self, tokens: Tensor, positions: Sequence[float], elapsed: Tensor | None, before: Sequence[LayerState]
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
            inputs["elapsed"] = elapsed.float().numpy()
        for index, layer in enumerate(before):
            for name, tensor in layer.tensors().items():
                inputs[f"{name}_{index}"] = tensor.contiguous().numpy()
        results = dict(zip(self._outputs, map(torch.from_numpy, self._run(self._outputs, inputs)), strict=True))
        after = [
            LayerState(**{name: results[f"next_{name}_{index}"] for name in layer.tensors()})
            for index, layer in enumerate(before)
        ]
        return results["logits"], tuple(after)
