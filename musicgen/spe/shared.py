"""One built code, applied by many layers, with its gradient formed once.

Building a code costs N·H·D·R numbers, and every layer applies the same one. Two things would make that expensive:
a gated copy of the code in each layer (the gate acts on the queries instead, see apply.py), and a gradient of
the whole code from each layer, which autograd would write and add up layer by layer.

Design note: that gradient is deferred. It is linear in what the layers saw, so each layer's backward only
keeps its pair (input, ∂output) — small — and when the last one is done, Σ inputᵀ·∂output is formed in a single
matrix product over layers × batch, block of positions by block, and pushed at once into the code's parameters.
The code's full gradient never exists, unless each row has its own positions (see arrange.py). A scalar `anchor`
that every application depends on makes autograd call us exactly then: after all layers, before the parameters.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from musicgen.spe.apply import Mix, by_head
from musicgen.spe.arrange import Arrangement, Pairs
from musicgen.spe.code import PositionalCode, Positions
from musicgen.spe.draw import Draw


class SharedCode:
    """The codes of a draw at some positions, built once for any number of layers to apply and train.

    Args:
        code: The positional code.
        draw: The noise.
        positions: `(length,)`; `(batch, length)` where rows differ; or for an N-D code one tensor for each axis. Where
            rows differ, the codes are those of the distinct positions, in another order.
    """

    def __init__(self, code: PositionalCode, draw: Draw, positions: Positions) -> None:
        builder = _Builder(code, draw, Arrangement.of(positions))
        self._builder = builder
        self.query_code, self.key_code = builder.build()
        """q̄ and k̄, `(*positions, H, D, R)`."""
        trained = torch.is_grad_enabled() and bool(builder.parameters)
        self._anchor: Tensor | None = _Anchor.apply(builder, *builder.parameters) if trained else None

    def apply(self, queries: Tensor, keys: Tensor, mix: Mix | None = None) -> tuple[Tensor, Tensor]:
        """Encode queries and keys: `(batch, *positions, H, D)` to `(batch, *positions, H, R)`."""
        for name, tensor in (("queries", queries), ("keys", keys)):
            expected = (*self._builder.arrangement.shape(len(tensor)), *self.query_code.shape[-3:-1])
            if tuple(tensor.shape) != expected:
                raise ValueError(f"{name} of shape {tuple(tensor.shape)} do not match the code: expected {expected}")
        weight, noise = mix or (None, None)
        if self._anchor is None:
            arrangement = self._builder.arrangement
            return (
                _encode(queries, self.query_code, weight, noise, arrangement),
                _encode(keys, self.key_code, weight, noise, arrangement),
            )
        return (
            _Encode.apply(queries, weight, noise, self._anchor, self.query_code, self._builder, 0),
            _Encode.apply(keys, weight, noise, self._anchor, self.key_code, self._builder, 1),
        )


class _Builder:
    """Builds a code and later its parameters' gradients, a block of positions at a time.

    Holds no built code, so a `SharedCode` is freed as soon as the layers are done with it.
    """

    def __init__(self, code: PositionalCode, draw: Draw, arrangement: Arrangement) -> None:
        self._code, self._draw, self.arrangement = code, draw, arrangement
        self._axes = arrangement.axes
        self.parameters = [parameter for parameter in code.parameters() if parameter.requires_grad]
        self._versions = [parameter._version for parameter in self.parameters]
        # By backward pass: a pass that does not reach the parameters leaves pairs that other passes must not count.
        self._pairs: dict[int, tuple[Pairs, Pairs]] = {}

    def leave(self, side: int, inputs: Tensor, gradient: Tensor) -> None:
        """Keep a layer's pair, of queries (side 0) or keys (side 1)."""
        self._pairs.setdefault(torch._C._current_graph_task_id(), ([], []))[side].append((inputs, gradient))

    @torch.no_grad()
    def build(self) -> tuple[Tensor, Tensor]:
        """q̄ and k̄."""
        prepared = self._code.prepare(self._draw)
        shape = (*map(len, self._axes), *self._code.code_shape, self._draw.num_realizations)
        built = prepared[0].new_empty(shape), prepared[0].new_empty(shape)
        places = self.arrangement.places
        for block in self._blocks():
            for whole, part in zip(built, self._codes(prepared, block), strict=True):
                whole[block if places is None else places[block]] = part
        return built

    @torch.enable_grad()
    def parameter_gradients(self) -> tuple[Tensor | None, ...]:
        """Gradients of the code's parameters from every pair kept in this backward pass, which are then freed."""
        if [parameter._version for parameter in self.parameters] != self._versions:
            raise RuntimeError(
                "a parameter of the code was modified by an inplace operation before its gradient was due"
            )
        left = self._pairs.pop(torch._C._current_graph_task_id())
        prepared = self._code.prepare(self._draw)
        leaves = tuple(tensor.detach().requires_grad_() for tensor in prepared)
        totals = [torch.zeros_like(leaf) for leaf in leaves]
        sums = [self.arrangement.code_gradient(pairs) if pairs else None for pairs in left]
        for block in self._blocks():
            codes = self._codes(leaves, block)
            used = [(code, total) for code, total in zip(codes, sums, strict=True) if total is not None]
            gradients = torch.autograd.grad(
                [code for code, _ in used],
                leaves,
                [total(block).reshape(code.shape) for code, total in used],
                allow_unused=True,
            )
            for total, gradient in zip(totals, gradients, strict=True):
                if gradient is not None:
                    total.add_(gradient)
        return torch.autograd.grad(prepared, self.parameters, totals, allow_unused=True)

    def _blocks(self) -> list[slice]:
        """Blocks of the first axis with about as many positions as the code builds best at a time."""
        rest = math.prod(len(axis) for axis in self._axes[1:])
        step = max(1, self._code.block // max(rest, 1))
        return [slice(start, start + step) for start in range(0, len(self._axes[0]), step)]

    def _codes(self, prepared: tuple[Tensor, ...], block: slice) -> tuple[Tensor, Tensor]:
        axes = (self._axes[0][block], *self._axes[1:])
        return self._code.codes_from(prepared, self._draw, axes if len(axes) > 1 else axes[0])


def _encode(
    inputs: Tensor, code: Tensor, weight: Tensor | None, noise: Tensor | None, arrangement: Arrangement
) -> Tensor:
    """Queries or keys `(B, *positions, H, D)` multiplied by a code, through a gate if there is one: `(…, H, R)`."""
    if weight is None or noise is None:
        return arrangement.contract(arrangement.rows(inputs), code)
    return arrangement.contract(arrangement.rows(inputs * weight), code) + by_head(inputs, noise)


class _Anchor(torch.autograd.Function):
    """A zero between the code's parameters and every application of the code."""

    @staticmethod
    def forward(ctx: Any, builder: _Builder, *parameters: Tensor) -> Tensor:
        ctx.builder = builder
        return parameters[0].new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Any, ...]:
        return None, *ctx.builder.parameter_gradients()


class _Encode(torch.autograd.Function):
    """`_encode`, which keeps only its input; the code gets its gradient later, from the kept pairs."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor | None,
        noise: Tensor | None,
        _anchor: Tensor,
        code: Tensor,
        builder: _Builder,
        side: int,
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight, noise)
        ctx.code, ctx.builder, ctx.side = code, builder, side
        return _encode(inputs, code, weight, noise, builder.arrangement)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, noise = ctx.saved_tensors
        gated = weight is not None
        gradient = gradient.contiguous()  # attention returns it heads first, which is slow to multiply
        arrangement = ctx.builder.arrangement
        rows = arrangement.rows(gradient)
        ctx.builder.leave(ctx.side, arrangement.rows(inputs * weight if gated else inputs), rows)
        grad_inputs = arrangement.contract_back(rows, ctx.code)
        grad_weight = grad_noise = None
        if gated:
            grad_weight = (grad_inputs * inputs).flatten(0, -3).sum(0)
            grad_inputs = (grad_inputs * weight).add_(by_head(gradient, noise.transpose(-1, -2)))
            grad_noise = torch.einsum("nhd,nhr->hdr", inputs.flatten(0, -3), gradient.flatten(0, -3))
        return grad_inputs, grad_weight, grad_noise, gradient.new_zeros(()), None, None, None
