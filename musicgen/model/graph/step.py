"""One token of each row through a model, as an ONNX graph: `PerformerLM.step` without Python.

The state goes in and comes out. The noise of one draw is part of the graph, as constants. No axis grows. Inputs are

    token       the token of each row, (batch,)
    position    where it is: its index or, for a model in musical time, its time in steps of the grid, (batch,),
                or (1,) if all rows are there
    elapsed     steps of the grid since the token before, for a decay by time, (batch, 1)
    memory_0, log_scale_0, recent_0, ...    what each layer remembers

and outputs are `logits` and `next_memory_0`, and so on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musicgen.attention import FeatureMap
from musicgen.attention.features import Favor, Relu
from musicgen.model.graph.builder import Graph

if TYPE_CHECKING:
    from musicgen.model.gates import DeltaGates
    from musicgen.model.layers import PerformerLayer
    from musicgen.model.performer import PerformerLM
    from musicgen.model.positions import GraphEncoder
    from musicgen.spe import Draw


@torch.no_grad()
def step_graph(model: PerformerLM, draw: Draw, half: bool = False) -> Graph:
    """The graph of a model's step for a draw.

    Args:
        model: The model, on the CPU. Its positional encoding must have a graph.
        draw: The noise.
        half: Whether weights are stored in 16 bits.
    """
    config, graph = model.config, Graph(half)
    tokens, position = graph.input("token", kind="int64"), graph.input("position", (), "float64", "places")
    elapsed = None
    if config.decay != "none" and config.decay_positions == "time":
        elapsed = graph.input("elapsed", (1,))
    encode = model.encoding.graph_encoder(graph, draw, position)
    embedded = graph.op("Gather", graph.weight(model.embedding.weight), tokens)
    hidden = graph.op("Mul", embedded, graph.constant(math.sqrt(config.d_model)))
    hidden = model.encoding.add_to_graph(graph, hidden, position)
    for layer, features in zip(model.layers, model.feature_maps(draw), strict=True):
        hidden = _Layer(graph, cast("PerformerLayer", layer), features, encode, elapsed).run(hidden)
    if isinstance(model.last_norm, nn.LayerNorm):
        hidden = _norm(graph, hidden, model.last_norm)
    graph.linear(hidden, model.output.weight, model.output.bias, graph.output("logits", (config.vocab_size,)))
    return graph


def _norm(graph: Graph, rows: str, norm: nn.LayerNorm) -> str:
    return graph.layer_norm(rows, norm.weight, norm.bias, norm.eps)


class _Layer:
    """A layer in a graph. Shapes in comments leave the batch out."""

    def __init__(
        self,
        graph: Graph,
        layer: PerformerLayer,
        features: FeatureMap | None,
        encode: GraphEncoder,
        elapsed: str | None,
    ) -> None:
        self._graph, self._layer, self._features, self._encode = graph, layer, features, encode
        self._elapsed = elapsed
        self._width = layer.project_out.in_features
        self._values = self._width // layer.heads

    def run(self, hidden: str) -> str:
        """Hidden states `(batch, d_model)` to those after the layer."""
        graph, layer = self._graph, self._layer
        source = _norm(graph, hidden, layer.norm_attention) if layer.pre_norm else hidden
        pairs, values = self._project(source)
        attended = self._attend(pairs, values) if layer.delta is None else self._delta(pairs, values, source)
        attended = self._finish(attended, source)
        hidden = graph.op("Add", hidden, graph.linear(attended, layer.project_out.weight, layer.project_out.bias))
        hidden = hidden if layer.pre_norm else _norm(graph, hidden, layer.norm_attention)
        source = _norm(graph, hidden, layer.norm_feedforward) if layer.pre_norm else hidden
        inner = self._inner(graph.linear(source, layer.expand.weight, layer.expand.bias))
        hidden = graph.op("Add", hidden, graph.linear(inner, layer.contract.weight, layer.contract.bias))
        return hidden if layer.pre_norm else _norm(graph, hidden, layer.norm_feedforward)

    def _project(self, source: str) -> tuple[str, str]:
        """Queries and keys, `(heads, 2, D)`, and values with a one after them, `(heads, 1, V+1)`.

        The delta rule needs no ones.
        """
        graph, layer, heads, width = self._graph, self._layer, self._layer.heads, self._width
        parts = [
            torch.cat([weight, bias.unsqueeze(-1)], 1)  # (outputs, d_model + 1)
            for weight, bias in (
                (layer.project_queries_keys.weight, layer.project_queries_keys.bias),
                (layer.project_values.weight, layer.project_values.bias),
            )
        ]
        if layer.short_conv is None:
            # Heads before queries and keys; and, as in packed.py, the one is an output with weight 0 and bias 1.
            parts[0] = parts[0].view(2, heads, -1, width + 1).transpose(0, 1).flatten(0, 2)
        if layer.short_conv is None and layer.delta is None:
            one = F.one_hot(torch.tensor([[width]] * heads), width + 1).to(parts[1])
            parts[1] = torch.cat([parts[1].view(heads, -1, width + 1), one], 1).flatten(0, 1)
        weight, bias = torch.cat(parts).split([width, 1], 1)
        projected = graph.linear(source, weight, bias.squeeze(1))
        if layer.short_conv is None:
            pairs, values = graph.split(projected, [2 * width, len(weight) - 2 * width], 1)
            return graph.reshape(pairs, heads, 2, -1), graph.reshape(values, heads, 1, -1)
        pairs, values = graph.split(self._convolve(projected, layer.short_conv.weight), [2 * width, width], 1)
        pairs = graph.op("Transpose", graph.reshape(pairs, 2, heads, -1), perm=[0, 2, 1, 3])
        values = graph.reshape(values, heads, 1, -1)
        if layer.delta is not None:
            return pairs, values
        return pairs, graph.op("Pad", values, graph.constant([0] * 7 + [1]), graph.constant(1.0))

    def _convolve(self, projected: str, weight: Tensor) -> str:
        """A short convolution over the last tokens."""
        graph, (taps, channels) = self._graph, weight.shape
        shape = (taps - 1, channels)
        window = graph.op("Concat", self._state("recent", shape), graph.reshape(projected, 1, channels), axis=1)
        bounds = [graph.constant([number]) for number in (1, taps, 1)]
        graph.op("Slice", window, *bounds, name=self._next("recent", shape))
        mixed = graph.op("Mul", window, graph.constant(weight.flip(0)))
        return graph.op("ReduceSum", mixed, graph.constant([1]), keepdims=0)

    def _attend(self, pairs: str, values: str) -> str:
        """The output of attention, `(d_model,)`."""
        graph, heads = self._graph, self._layer.heads
        queries, keys, key_scale, size = self._feature_pairs(*self._encode(self._layer.index, pairs))
        past = self._state("log_scale", (heads,))
        if self._layer.decay is not None:
            past = graph.op("Add", past, self._log_decay(self._layer.decay()))
        scale = graph.op("Max", past, key_scale, name=self._next("log_scale", (heads,)))
        kept, weight = (graph.op("Exp", graph.op("Sub", part, scale)) for part in (past, key_scale))
        weighted = graph.op("Mul", keys, graph.reshape(weight, heads, 1, 1))
        shape = (heads, size, self._values + 1)
        added = graph.op("MatMul", graph.reshape(weighted, heads, size, 1), values)
        before = graph.op("Mul", self._state("memory", shape), graph.reshape(kept, heads, 1, 1))
        memory = graph.op("Add", before, added, name=self._next("memory", shape))
        sums = graph.op("MatMul", queries, memory)
        numerator, weight = graph.split(sums, [self._values, 1], 3)
        weight = graph.op("Max", weight, graph.constant(torch.finfo(torch.float32).tiny))
        return graph.reshape(graph.op("Div", numerator, weight), self._width)

    def _delta(self, pairs: str, values: str, source: str) -> str:
        """The output of the delta rule, `(d_model,)`; see `musicgen.attention.delta`."""
        graph, layer, heads = self._graph, self._layer, self._layer.heads
        encoded, size = self._encode(layer.index, graph.op("Mul", pairs, graph.op("Sigmoid", pairs)))
        length = graph.op("ReduceL2", encoded, axes=[3], keepdims=1)
        unit = graph.op("Div", encoded, graph.op("Max", length, graph.constant(1e-12)))
        queries, keys = graph.split(unit, [1, 1], 2)
        shape = (heads, size, self._values)
        memory, project = self._state("memory", shape), cast("DeltaGates", layer.delta).project
        gates = graph.op("Sigmoid", graph.linear(source, project.weight, project.bias))
        if layer.decay is not None:
            gates, pace = graph.split(gates, [heads, heads], 1)
            decay = graph.op("Mul", pace, self._log_decay(2 * layer.decay()))
            memory = graph.op("Mul", memory, graph.reshape(graph.op("Exp", decay), heads, 1, 1))
        missing = graph.op("Sub", values, graph.op("MatMul", keys, memory))
        written = graph.op("Mul", missing, graph.reshape(gates, heads, 1, 1))
        added = graph.op("MatMul", graph.reshape(keys, heads, size, 1), written)
        memory = graph.op("Add", memory, added, name=self._next("memory", shape))
        graph.op("Identity", self._state("log_scale", (heads,)), name=self._next("log_scale", (heads,)))
        return graph.reshape(graph.op("MatMul", queries, memory), self._width)

    def _log_decay(self, log_decay: Tensor) -> str:
        """log γ of each head for this token, `(heads,)`."""
        constant = self._graph.constant(log_decay)
        return constant if self._elapsed is None else self._graph.op("Mul", constant, self._elapsed)

    def _feature_pairs(self, rows: str, size: int) -> tuple[str, str, str, int]:
        """As `FeatureMap.pairs`, of `(heads, 2, E)`.

        Returns:
            Features of queries and of keys, `(heads, 1, F)`, the keys' log factors, `(heads,)`, and F.
        """
        graph, heads = self._graph, self._layer.heads
        if not isinstance(self._features, Favor):
            positive = graph.op("Relu", rows)
            if not isinstance(self._features, Relu):
                positive = graph.op("Add", positive, graph.op("Exp", graph.op("Min", rows, graph.constant(0.0))))
            queries, keys = graph.split(positive, [1, 1], 2)
            return queries, keys, graph.constant(torch.zeros(heads)), size
        both_sides = self._features.both_sides
        projected = graph.op("MatMul", rows, graph.constant(both_sides))
        largest = graph.op("ReduceMax", projected, axes=[3], keepdims=1)
        features = graph.op("Exp", graph.op("Sub", projected, largest))
        queries, keys = graph.split(features, [1, 1], 2)
        energies = graph.op("ReduceSumSquare", rows, axes=[3], keepdims=1)
        scales = graph.op("Sub", largest, graph.op("Mul", energies, graph.constant(0.5 * size**-0.5)))
        return queries, keys, graph.reshape(graph.split(scales, [1, 1], 2)[1], heads), both_sides.shape[1]

    def _finish(self, attended: str, source: str) -> str:
        """The output of attention, normalised and gated if the layer does so."""
        graph, output = self._graph, self._layer.head_output
        if output is not None and output.weight is not None:
            heads = graph.reshape(attended, self._layer.heads, self._values)
            normed = graph.layer_norm(heads, torch.ones(self._values), None, 1e-5)
            attended = graph.op("Mul", graph.reshape(normed, self._width), graph.constant(output.weight))
        if output is not None and output.gate is not None:
            gate = graph.linear(source, output.gate.weight, output.gate.bias)
            attended = graph.op("Mul", attended, graph.op("Sigmoid", gate))
        return attended

    def _inner(self, expanded: str) -> str:
        """The inside of the feed-forward network."""
        graph, layer = self._graph, self._layer
        if not layer.gated_ff:
            return graph.op("Relu", expanded)
        first, second = graph.split(expanded, [layer.contract.in_features] * 2, 1)
        return graph.op("Mul", graph.op("Mul", first, graph.op("Sigmoid", first)), second)

    def _state(self, name: str, shape: tuple[int, ...]) -> str:
        return self._graph.input(f"{name}_{self._layer.index}", shape)

    def _next(self, name: str, shape: tuple[int, ...]) -> str:
        return self._graph.output(f"next_{name}_{self._layer.index}", shape)
