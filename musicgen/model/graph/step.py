"""One token of each row through a model, as an ONNX graph: `PerformerLM.step` without Python.

The state goes in and comes out. The noise of one draw is part of the graph, as constants. No axis grows. Inputs are

    token       the token of each row, (batch,)
    position    where it is: its index or, for a model in musical time, its time in steps of the grid, (batch,),
                or (1,) if all rows are there
    elapsed     steps of the grid since the token before, for a decay by time, (batch, 1)
    memory_0, log_scale_0, recent_0, ...    what each layer remembers

and outputs are `logits` and `next_memory_0`, and so on. What a step of the model leaves as it was is neither.

Design note: a small model takes as long as it has operations, each about half a microsecond. So there are few: all
gates come from one product, rows are laid out so that no axes are exchanged, and factors are part of the weights.
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
        elapsed = graph.reshape(graph.input("elapsed", (1,)), 1, 1, 1)
    encode = model.encoding.graph_encoder(graph, draw, position)
    hidden = graph.op("Gather", graph.weight(model.embedding.weight, math.sqrt(config.d_model)), tokens)
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
        self._elapsed, self._heads = elapsed, layer.heads
        self._width = layer.project_out.in_features
        self._values = self._width // layer.heads

    def run(self, hidden: str) -> str:
        """Hidden states `(batch, d_model)` to those after the layer."""
        graph, layer, output = self._graph, self._layer, self._layer.head_output
        source = _norm(graph, hidden, layer.norm_attention) if layer.pre_norm else hidden
        pairs, values = self._project(source)
        gates = self._gates(source)
        attended = self._attend(pairs, values) if layer.delta is None else self._delta(pairs, values, gates)
        weight = None
        if output is not None and output.weight is not None:
            attended = graph.layer_norm(attended, torch.ones(self._values), None, 1e-5)
            weight = output.weight
        if "output" in gates:
            attended = graph.op("Mul", attended, gates["output"])
        project = layer.project_out
        mixed = graph.linear(graph.reshape(attended, self._width), project.weight, project.bias, factors=weight)
        hidden = graph.op("Add", hidden, mixed)
        hidden = hidden if layer.pre_norm else _norm(graph, hidden, layer.norm_attention)
        source = _norm(graph, hidden, layer.norm_feedforward) if layer.pre_norm else hidden
        inner = self._inner(graph.linear(source, layer.expand.weight, layer.expand.bias))
        hidden = graph.op("Add", hidden, graph.linear(inner, layer.contract.weight, layer.contract.bias))
        return hidden if layer.pre_norm else _norm(graph, hidden, layer.norm_feedforward)

    def _project(self, source: str) -> tuple[str, str]:
        """Queries and keys, `(2·heads, 1, D)`, and values, `(heads, 1, V)`: heads first, as products need them.

        Unless the layer has the delta rule, there is a one after the values of each head, `(heads, 1, V+1)`.
        """
        graph, layer, heads = self._graph, self._layer, self._heads
        own: nn.Linear = layer.project_queries_keys
        weight, bias = (tensor.detach() for tensor in (layer.project_values.weight, layer.project_values.bias))
        if layer.short_conv is None and layer.delta is None:
            # As in packed.py, the one is an output with weight 0 and bias 1: `Pad` takes much longer.
            weight = F.pad(weight.unflatten(0, (heads, -1)), (0, 0, 0, 1)).flatten(0, 1)
            bias = F.pad(bias.unflatten(0, (heads, -1)), (0, 1), value=1.0).flatten()
        projected = graph.linear(source, torch.cat([own.weight, weight]), torch.cat([own.bias, bias]))
        if layer.short_conv is not None:
            projected = self._convolve(projected, layer.short_conv.weight)
        pairs, values = graph.split(projected, [len(own.weight), len(weight)], 1)
        pairs, values = graph.reshape(pairs, 2 * heads, 1, -1), graph.reshape(values, heads, 1, -1)
        if layer.short_conv is not None and layer.delta is None:
            values = graph.op("Pad", values, graph.constant([0] * 7 + [1]), graph.constant(1.0))
        return pairs, values

    def _convolve(self, projected: str, weight: Tensor) -> str:
        """A short convolution over the last tokens."""
        graph, (taps, channels) = self._graph, weight.shape
        shape = (taps - 1, channels)
        window = graph.op("Concat", self._state("recent", shape), graph.reshape(projected, 1, channels), axis=1)
        bounds = [graph.constant([number]) for number in (1, taps, 1)]
        graph.op("Slice", window, *bounds, name=self._next("recent", shape))
        mixed = graph.op("Mul", window, graph.constant(weight.flip(0)))
        return graph.op("ReduceSum", mixed, graph.constant([1]), keepdims=0)

    def _gates(self, source: str) -> dict[str, str]:
        """All gates of the layer by name, from one product, each `(heads, 1, n)`.

        `strength` and `pace` are those of the delta rule, n = 1; `output` is that of the output of attention, n = V.
        """
        graph, layer, heads = self._graph, self._layer, self._heads
        parts: dict[str, tuple[Tensor, Tensor]] = {}
        if layer.delta is not None:
            project = layer.delta.project
            halves = zip(project.weight.split(heads), project.bias.split(heads), strict=True)
            parts.update(zip(("strength", "pace"), halves, strict=False))
        if layer.head_output is not None and layer.head_output.gate is not None:
            parts["output"] = layer.head_output.gate.weight, layer.head_output.gate.bias
        if not parts:
            return {}
        rows = [torch.cat([weight, bias.unsqueeze(1)], 1).unflatten(0, (heads, -1)) for weight, bias in parts.values()]
        weight, bias = torch.cat(rows, 1).flatten(0, 1).tensor_split([-1], 1)  # all gates of a head side by side
        opened = graph.op("Sigmoid", graph.linear(source, weight, bias.squeeze(1)))
        names = graph.split(graph.reshape(opened, heads, 1, -1), [part.shape[1] for part in rows], 3)
        return dict(zip(parts, names, strict=True))

    def _attend(self, pairs: str, values: str) -> str:
        """The output of attention, `(heads, 1, V)`."""
        graph, heads = self._graph, self._heads
        queries, keys, key_scale, size = self._feature_pairs(*self._encode(self._layer.index, pairs))
        past = graph.reshape(self._state("log_scale", (heads,)), heads, 1, 1)
        if self._layer.decay is not None:
            past = graph.op("Add", past, self._by_time(graph.constant(self._layer.decay().view(heads, 1, 1))))
        scale = graph.op("Max", past, key_scale)
        graph.op("Reshape", scale, graph.constant([0, heads]), name=self._next("log_scale", (heads,)))
        kept, weight = (graph.op("Exp", graph.op("Sub", part, scale)) for part in (past, key_scale))
        column = graph.reshape(graph.op("Mul", keys, weight), heads, size, 1)
        shape = (heads, size, self._values + 1)
        before = graph.op("Mul", self._state("memory", shape), kept)
        memory = graph.op("Add", before, graph.op("MatMul", column, values), name=self._next("memory", shape))
        numerator, weight = graph.split(graph.op("MatMul", queries, memory), [self._values, 1], 3)
        return graph.op("Div", numerator, graph.op("Max", weight, graph.constant(torch.finfo(torch.float32).tiny)))

    def _delta(self, pairs: str, values: str, gates: dict[str, str]) -> str:
        """The output of the delta rule, `(heads, 1, V)`; see `musicgen.attention.delta`."""
        graph, layer, heads = self._graph, self._layer, self._heads
        encoded, size = self._encode(layer.index, graph.op("Mul", pairs, graph.op("Sigmoid", pairs)))
        queries, keys = graph.split(graph.op("LpNormalization", encoded, axis=3, p=2), [heads, heads], 1)
        shape = (heads, size, self._values)
        memory = self._state("memory", shape)
        if layer.decay is not None:
            fastest = (2 * layer.decay().double()).exp().float().view(heads, 1, 1)  # γ² at the pace 1
            kept = graph.op("Pow", graph.constant(fastest), self._by_time(gates["pace"]))
            memory = graph.op("Mul", memory, kept)
        missing = graph.op("Sub", values, graph.op("MatMul", keys, memory))
        written = graph.op("Mul", missing, gates["strength"])
        added = graph.op("MatMul", graph.reshape(keys, heads, size, 1), written)
        memory = graph.op("Add", memory, added, name=self._next("memory", shape))
        return graph.op("MatMul", queries, memory)

    def _by_time(self, pace: str) -> str:
        """A pace of forgetting, `(heads, 1, 1)`, times the time since the token before, if that matters."""
        return pace if self._elapsed is None else self._graph.op("Mul", pace, self._elapsed)

    def _feature_pairs(self, rows: str, size: int) -> tuple[str, str, str, int]:
        """As `FeatureMap.pairs`, of `(2·heads, 1, E)`.

        Returns:
            Features of queries and of keys, `(heads, 1, F)`, the keys' log factors, `(heads, 1, 1)`, and F.
        """
        graph, heads = self._graph, self._heads
        if not isinstance(self._features, Favor):
            positive = graph.op("Relu", rows)
            if not isinstance(self._features, Relu):
                positive = graph.op("Add", positive, graph.op("Exp", graph.op("Min", rows, graph.constant(0.0))))
            queries, keys = graph.split(positive, [heads, heads], 1)
            return queries, keys, graph.constant(torch.zeros(heads, 1, 1)), size
        both_sides = self._features.both_sides
        projected = graph.op("MatMul", rows, graph.constant(both_sides))
        largest = graph.op("ReduceMax", projected, axes=[3], keepdims=1)
        features = graph.op("Exp", graph.op("Sub", projected, largest))
        queries, keys = graph.split(features, [heads, heads], 1)
        energies = graph.op("ReduceSumSquare", rows, axes=[3], keepdims=1)
        scales = graph.op("Sub", largest, graph.op("Mul", energies, graph.constant(0.5 * size**-0.5)))
        return queries, keys, graph.split(scales, [heads, heads], 1)[1], both_sides.shape[1]

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
