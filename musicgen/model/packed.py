"""A model's weights as streaming wants them: packed once, then read once for each token.

The hard choice: oneDNN's packed products instead of torch's own. A token at a time is a product with one column, or
with a few, and for each number of columns the BLAS under `F.linear` takes another path and adds up in another order: a
row's bits would depend on how many rows there are beside it. Packed for a fixed number of rows, every row is computed
alike. Packing copies the weights, so a model that has taken a step holds them twice.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from musicgen.model.layers import PerformerLayer
    from musicgen.model.performer import PerformerLM

LONGEST_SUM = 1024
"""Inputs that are added up in one product: oneDNN parts longer sums, that of a single row in other places."""
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
        """Rows, parted as the weight is."""
        if len(self._parts) == 1:
            return [rows]
        return [part.contiguous() for part in rows.split(LONGEST_SUM, 1)]

    def _add(self, rest: list[Tensor], result: Tensor) -> Tensor:
        """A result of the first part of the inputs, with those of the rest."""
        for part, weight in zip(rest, self._parts[1:], strict=True):
            result = _onednn().binary(part, result, weight, None, "add")
        return result


def _onednn() -> Any:
    return torch.ops.mkldnn._linear_pointwise


def _pack(weight: Tensor) -> Tensor | None:
    """The weight in oneDNN's layout; None where there is no oneDNN: there rows may differ by rounding."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_ROWS)
        _onednn().default(weight.new_zeros(1, weight.shape[1]), packed, None, "none", [], "")
    except (AttributeError, RuntimeError):  # other builds and other versions of torch
        return None
    return packed


class Norm:
    """A layer norm without the costs of a module, which are above those of its arithmetic."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self._arguments = (norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps)

    def __call__(self, rows: Tensor) -> Tensor:
        """Rows `(batch, d_model)`, each normalised."""
        return torch.layer_norm(rows, *self._arguments)


class PackedLayer:
    """The weights of one layer.

    Queries, keys and values come from one product, and with each head's values comes the one that attention sums to its
    normaliser: an output of weight zero and bias one.
    """

    def __init__(self, layer: PerformerLayer) -> None:
        values = layer.project_values.weight.unflatten(0, (layer.heads, -1))
        ones = layer.project_values.bias.unflatten(0, (layer.heads, -1))
        self.project = Product(
            torch.cat([layer.project_queries_keys.weight, F.pad(values, (0, 0, 0, 1)).flatten(0, 1)]),
            torch.cat([layer.project_queries_keys.bias, F.pad(ones, (0, 1), value=1.0).flatten()]),
        )
        self.out = Product(layer.project_out.weight.detach(), layer.project_out.bias.detach())
        self.expand = Product(layer.expand.weight.detach(), layer.expand.bias.detach())
        self.contract = Product(layer.contract.weight.detach(), layer.contract.bias.detach())
        self.norm_attention = Norm(layer.norm_attention)
        self.norm_feedforward = Norm(layer.norm_feedforward)
        self.log_decay = values.new_zeros(layer.heads) if layer.decay is None else layer.decay()


class PackedModel:
    """The weights of all layers and of the output, as they are now."""

    def __init__(self, model: PerformerLM) -> None:
        self.versions = Versions(model)
        self.layers = [PackedLayer(cast("PerformerLayer", layer)) for layer in model.layers]
        self.output = Product(model.output.weight.detach(), model.output.bias.detach())


class Versions:
    """Notices when a module is trained or loaded again.

    Torch counts the changes to a tensor; those made through `.data` it does not count.
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
    """A model's packed weights, from one call to the next as long as they do not change."""
    known = _packed.get(model)
    if known is None or not known.versions.are_current():
        known = _packed[model] = PackedModel(model)
    return known
