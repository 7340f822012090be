"""How tokens are multiplied by a built code: all rows at the same positions, or each row at its own.

Where rows differ, a code for every token would be as large as batch × length × H × D × R. Instead a code is built once
for each distinct position. Tokens are sorted by position, and positions by how many tokens they have, so that
positions with about as many tokens are one batched matrix product: no code is ever copied.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from musicgen.spe.apply import contract
from musicgen.spe.code import Positions

Pairs = list[tuple[Tensor, Tensor]]
"""What layers kept: inputs and gradients of outputs, as `Arrangement.rows` gives them."""
CodeGradient = Callable[[slice], Tensor]
"""The gradient of a code at a block of built positions, `(*block, H, D, R)`."""


class Arrangement(abc.ABC):
    """The positions of a batch, and the products of its tokens with a code at them.

    Attributes:
        axes: The positions to build, in the order that is best to build; one tensor for each axis.
        places: The place in the code of each built position of the first axis; None if in the order built.
    """

    axes: tuple[Tensor, ...]
    places: Tensor | None

    @staticmethod
    def of(positions: Positions) -> Arrangement:
        """The arrangement of positions `(length,)`, of one tensor for each axis, or of `(batch, length)`."""
        if isinstance(positions, Tensor) and positions.dim() == 2:
            return ByRow(positions)
        return Aligned(positions if isinstance(positions, tuple) else (positions,))

    @abc.abstractmethod
    def shape(self, batch: int) -> tuple[int, ...]:
        """The shape of the tokens of a batch, without heads and features."""

    @abc.abstractmethod
    def rows(self, tokens: Tensor) -> Tensor:
        """Tokens `(batch, *positions, H, ·)`, arranged for the products."""

    @abc.abstractmethod
    def contract(self, rows: Tensor, code: Tensor) -> Tensor:
        """Rows times their code `(*positions, H, D, R)`: `(batch, *positions, H, R)`."""

    @abc.abstractmethod
    def contract_back(self, rows: Tensor, code: Tensor) -> Tensor:
        """Gradients of outputs times the code's transpose: `(batch, *positions, H, D)`."""

    @abc.abstractmethod
    def code_gradient(self, pairs: Pairs) -> CodeGradient:
        """Σ over layers and tokens of inputᵀ·∂output at each position of the code."""


class Aligned(Arrangement):
    """All rows at the same positions: a product for each position, over the batch."""

    def __init__(self, axes: tuple[Tensor, ...]) -> None:
        self.axes, self.places = axes, None

    def shape(self, batch: int) -> tuple[int, ...]:
        return batch, *map(len, self.axes)

    def rows(self, tokens: Tensor) -> Tensor:
        return tokens

    def contract(self, rows: Tensor, code: Tensor) -> Tensor:
        return contract(rows, code)

    def contract_back(self, rows: Tensor, code: Tensor) -> Tensor:
        """The code times the gradient, not the gradient times the code's transpose: half the time on a CPU."""
        return torch.matmul(code, rows.movedim(0, -1)).movedim(-1, 0).contiguous()

    def code_gradient(self, pairs: Pairs) -> CodeGradient:
        """Computed block by block; the whole gradient never exists."""
        return lambda block: _outer_sum([(inputs[:, block], outputs[:, block]) for inputs, outputs in pairs])


def _outer_sum(pairs: Pairs) -> Tensor:
    """Σ over layers and batch of inputᵀ·∂output, of `(batch, *positions, H, ·)`: `(*positions, H, D, R)`."""
    inputs = torch.cat([inputs for inputs, _ in pairs])
    outputs = torch.cat([outputs for _, outputs in pairs])
    return torch.matmul(inputs.movedim(0, -1), outputs.movedim(0, -2))


class _Group(NamedTuple):
    """Positions that have about as many tokens: a batch of `width` of them."""

    positions: slice
    slots: slice
    width: int


class ByRow(Arrangement):
    """Each row at its own positions, `(batch, length)`.

    Each token has a slot. A group has `width` slots for each of its positions; unused slots are padding. Within a
    group, slots are `(width, positions)`.
    """

    def __init__(self, positions: Tensor) -> None:
        self._shape = positions.shape
        distinct, token_position, counts = positions.flatten().unique(return_inverse=True, return_counts=True)
        widths = _padded(counts)
        order = widths.argsort(stable=True)
        self._places = order.argsort()
        self.axes, self.places = (distinct,), self._places
        self._groups: list[_Group] = []
        first_slot = torch.empty_like(counts)  # of each position
        stride = torch.empty_like(counts)  # between slots of a position
        start = slots = 0
        for width, members in itertools.groupby(widths[order].tolist()):
            count = len(list(members))
            own = order[start : start + count]
            first_slot[own] = slots + torch.arange(count)
            stride[own] = count
            self._groups.append(_Group(slice(start, start + count), slice(slots, slots + width * count), width))
            start, slots = start + count, slots + width * count
        # The rank of a token at its position: its place among all tokens minus the place of the position's first token.
        by_position = token_position.argsort(stable=True)
        begins = counts.cumsum(0) - counts
        rank = torch.empty_like(token_position)
        rank[by_position] = torch.arange(len(rank)) - begins[token_position[by_position]]
        self._slot = first_slot[token_position] + rank * stride[token_position]
        self._token = torch.zeros(slots, dtype=torch.long)
        self._token[self._slot] = torch.arange(len(rank))
        is_padding = torch.ones(slots, dtype=torch.bool)
        is_padding[self._slot] = False
        self._padding = is_padding.nonzero().squeeze(-1)

    def shape(self, batch: int) -> tuple[int, ...]:  # noqa: ARG002
        return tuple(self._shape)

    def rows(self, tokens: Tensor) -> Tensor:
        """Slots, `(slots, H, ·)`; padding is zero."""
        slots = tokens.flatten(0, 1).index_select(0, self._token.to(tokens.device))
        return slots.index_fill_(0, self._padding.to(tokens.device), 0.0)

    def contract(self, rows: Tensor, code: Tensor) -> Tensor:
        """Multiply group by group; then every token reads its slot."""
        outputs = rows.new_empty(*rows.shape[:2], code.shape[-1])
        for group in self._groups:
            outputs[group.slots] = contract(self._batch(rows, group), code[group.positions]).flatten(0, 1)
        return self._tokens(outputs)

    def contract_back(self, rows: Tensor, code: Tensor) -> Tensor:
        inputs = rows.new_empty(*rows.shape[:2], code.shape[-2])
        for group in self._groups:
            batch = self._batch(rows, group)
            back = torch.matmul(code[group.positions], batch.movedim(0, -1)).movedim(-1, 0)
            inputs[group.slots] = back.reshape(-1, *inputs.shape[1:])
        return self._tokens(inputs)

    def code_gradient(self, pairs: Pairs) -> CodeGradient:
        """Formed at once, group by group: distinct positions are far fewer than tokens."""
        parts = [
            _outer_sum([(self._batch(inputs, group), self._batch(outputs, group)) for inputs, outputs in pairs])
            for group in self._groups
        ]
        whole, places = torch.cat(parts), self._places
        return lambda block: whole.index_select(0, places[block].to(whole.device))

    @staticmethod
    def _batch(rows: Tensor, group: _Group) -> Tensor:
        """The slots of a group, `(width, positions, H, ·)`."""
        return rows[group.slots].unflatten(0, (group.width, -1))

    def _tokens(self, slots: Tensor) -> Tensor:
        """Slots to tokens, `(batch, length, H, ·)`."""
        return slots.index_select(0, self._slot.to(slots.device)).unflatten(0, self._shape)


def _padded(counts: Tensor) -> Tensor:
    """Counts, rounded up to 1, 2, 3, 4, 6, 8, 12, 16, …: few groups, and at most a third of padding."""
    ladder = [1, *itertools.chain.from_iterable((2**power, 3 * 2 ** (power - 1)) for power in range(1, 40))]
    return torch.tensor(ladder)[torch.searchsorted(torch.tensor(ladder), counts)]
