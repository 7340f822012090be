"""A model's weights for streaming: packed once, then read once for each token.

Design note: we use oneDNN's packed products instead of torch's own. One token at a time is a product with few columns.
For each number of columns, the BLAS under `F.linear` may add up in another order, so the bits of a row would depend on
how many other rows there are. Packed for a fixed number of rows, every row is computed in the same way. Packing copies
the weights, so a model that has taken a step holds them twice.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musicgen.model.gates import delta_gates, sigmoid_gate_step, sigmoid_step, swiglu_step
from musicgen.model.short_conv import convolve_step

if TYPE_CHECKING:
    from musicgen.model.layers import PerformerLayer
    from musicgen.model.performer import PerformerLM

LONGEST_SUM = 1024
"""Inputs of one product. oneDNN splits longer sums, at other places for a single row than for several."""
PACKED_ROWS = 16  # the number of rows to pack for: packed for fewer, many rows are slower and one is no faster


class Product:
    """x·Wᵀ + b for each row of x; a row's bits depend on that row alone wherever the weights can be packed.

    Args:
        weight: W, `(outputs, inputs)`.
        bias: b, `(outputs,)`.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        packed = [_pack(part.contiguous()) for part in weight.split(LONGEST_SUM, 1)]
        self._weight, self._bias = weight, bias
        self._parts = [part for part in packed if part is not None]
        self.is_packed = len(self._parts) == len(packed)

    def __call__(self, rows: Tensor) -> Tensor:
        """`(batch, inputs)` to `(batch, outputs)`."""
        if not self.is_packed:
            return F.linear(rows, self._weight, self._bias)
        first, *rest = self._split(rows)
        return self._add(rest, _onednn().default(first, self._parts[0], self._bias, "none", [], ""))

    def relu(self, rows: Tensor) -> Tensor:
        """max(0, x·Wᵀ + b)."""
        if not self.is_packed or len(self._parts) > 1:
            return self(rows).relu_()
        return cast(Tensor, _onednn().default(rows, self._parts[0], self._bias, "relu", [], ""))

    def plus(self, rows: Tensor, others: Tensor) -> Tensor:
        """x·Wᵀ + b + y, of the rows y of `others`, `(batch, outputs)`."""
        if not self.is_packed:
            return F.linear(rows, self._weight, self._bias).add_(others)
        first, *rest = self._split(rows)
        return self._add(rest, _onednn().binary(first, others, self._parts[0], self._bias, "add"))

    def _split(self, rows: Tensor) -> list[Tensor]:
        """Rows, split like the weight."""
        if len(self._parts) == 1:
            return [rows]
        return [part.contiguous() for part in rows.split(LONGEST_SUM, 1)]

    def _add(self, rest: list[Tensor], result: Tensor) -> Tensor:
        """The result of the first part of the inputs, plus those of the other parts."""
        for part, weight in zip(rest, self._parts[1:], strict=True):
            result = _onednn().binary(part, result, weight, None, "add")
        return result


def _onednn() -> Any:
    return torch.ops.mkldnn._linear_pointwise


def _pack(weight: Tensor) -> Tensor | None:
    """The weight in oneDNN's layout; None without oneDNN, where rows may differ by rounding."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_ROWS)
        _onednn().default(weight.new_zeros(1, weight.shape[1]), packed, None, "none", [], "")
    except (AttributeError, RuntimeError):  # other builds and other versions of torch
        return None
    return packed


class Norm:
    """A layer norm without the overhead of a module, which exceeds the cost of its arithmetic."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self._arguments = (norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps)

    def __call__(self, rows: Tensor) -> Tensor:
        """Rows `(batch, d_model)`, each normalised."""
        return torch.layer_norm(rows, *self._arguments)


class PackedLayer:
    """The weights of one layer.

    Queries, keys and values come from one product. Each head has one more value, the 1 that attention sums to its
    normaliser: an output with weight 0 and bias 1. After a convolution the ones are added instead. The delta rule has
    no normaliser.
    """

    def __init__(self, layer: PerformerLayer) -> None:
        values, bias = (tensor.detach() for tensor in (layer.project_values.weight, layer.project_values.bias))
        self._taps = None if layer.short_conv is None else layer.short_conv.weight.detach().flip(0)
        self.delta = None if layer.delta is None else Product(*_detached(layer.delta.project))
        if self._taps is None and self.delta is None:
            values = F.pad(values.unflatten(0, (layer.heads, -1)), (0, 0, 0, 1)).flatten(0, 1)
            bias = F.pad(bias.unflatten(0, (layer.heads, -1)), (0, 1), value=1.0).flatten()
        self._heads, self._width = layer.heads, layer.project_out.in_features
        self._project = Product(
            torch.cat([layer.project_queries_keys.weight, values]), torch.cat([layer.project_queries_keys.bias, bias])
        )
        self._head_output = layer.head_output
        gate = None if layer.head_output is None else layer.head_output.gate
        self._gate = None if gate is None else Product(*_detached(gate))
        self._gated_ff, self.pre_norm = layer.gated_ff, layer.pre_norm
        self.out = Product(*_detached(layer.project_out))
        self._expand = Product(*_detached(layer.expand))
        self.contract = Product(*_detached(layer.contract))
        self.norm_attention = Norm(layer.norm_attention)
        self.norm_feedforward = Norm(layer.norm_feedforward)
        self._decays = layer.decay is not None
        self.log_decay = values.new_zeros(layer.heads) if layer.decay is None else layer.decay()

    def project(self, rows: Tensor, recent: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries and keys, `(batch, 2, heads, D)`, values with ones, `(batch, heads, D+1)`, and the last inputs."""
        projected = self._project(rows)
        if self._taps is not None and recent is not None:
            projected, recent = convolve_step(projected, self._taps, recent)
        queries_keys, values = projected[:, : 2 * self._width], projected[:, 2 * self._width :]
        queries_keys = queries_keys.view(len(rows), 2, self._heads, -1)
        values = values.view(len(rows), self._heads, -1)
        if self._taps is not None and self.delta is None:
            values = F.pad(values, (0, 1), value=1.0)
        return queries_keys, values, recent

    def delta_gates(self, gates: Tensor, elapsed: Tensor | None) -> tuple[Tensor, Tensor]:
        """β and log γ of the delta rule, `(batch, heads)`, from the outputs of `delta`."""
        decay = self.log_decay if self._decays else None
        return delta_gates(sigmoid_step(gates), self._heads, decay, None if elapsed is None else elapsed.squeeze(-1))

    def finish(self, attended: Tensor, source: Tensor) -> Tensor:
        """The output of attention, `(batch, d_model)`, normalised and gated if the layer does so."""
        if self._head_output is not None:
            attended = self._head_output.normalise(attended)
        return attended if self._gate is None else sigmoid_gate_step(attended, self._gate(source))

    def inner(self, rows: Tensor) -> Tensor:
        """The inside of the feed-forward network."""
        return swiglu_step(self._expand(rows)) if self._gated_ff else self._expand.relu(rows)


def _detached(layer: nn.Linear) -> tuple[Tensor, Tensor]:
    return layer.weight.detach(), layer.bias.detach()


class PackedModel:
    """The current weights of all layers and of the output."""

    def __init__(self, model: PerformerLM) -> None:
        self.versions = Versions(model)
        self.layers = [PackedLayer(cast("PerformerLayer", layer)) for layer in model.layers]
        self.last_norm = Norm(model.last_norm) if isinstance(model.last_norm, nn.LayerNorm) else model.last_norm
        self.output = Product(*_detached(model.output))


class Versions:
    """Notices when a module is trained or loaded again.

    Torch counts the changes to a tensor, but not those made through `.data`.
    """

    def __init__(self, module: nn.Module) -> None:
        self._parameters = list(module.parameters())
        self._seen = self._now()

    def _now(self) -> list[int]:
        return [parameter._version for parameter in self._parameters]

    def are_current(self) -> bool:
        """Whether nothing has changed since this was made."""
        return self._seen == self._now()


_packed: weakref.WeakKeyDictionary[PerformerLM, PackedModel] = weakref.WeakKeyDictionary()


@torch.no_grad()
def packed(model: PerformerLM) -> PackedModel:
    """Keeps a model's packed weights between calls, as long as the weights do not change."""
    known = _packed.get(model)
    if known is None or not known.versions.are_current():
        known = _packed[model] = PackedModel(model)
    return known
