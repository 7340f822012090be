"""Where tokens are, for the encoding and for the decay: at their index, or at their musical time.

Musical time comes with the tokens, in beats. `time_resolution` positions make a beat, so kernels, periods and decays
have about the same scale as by token. Time that goes back or stands still decays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from musicgen.model.config import PerformerConfig

EXACT = 1e-6
"""Positions that are this near to whole numbers are whole."""
TIMES_MISSING = (
    "this model works in musical time (pe.positions or model.decay_positions is time): "
    "give the times of the tokens in beats, times=(batch, length)"
)


class Places(NamedTuple):
    """Where the tokens of a batch are."""

    positions: Tensor
    """For the encoding: `(length,)`, or `(batch, length)` where rows differ."""
    elapsed: Tensor | None
    """For the decay: positions since the token before, `(batch, length)`; None means 1 for each."""


def find_places(
    config: PerformerConfig, tokens: Tensor, indices: Tensor, times: Tensor | None, before: Sequence[float] | None
) -> Places:
    """Where tokens are.

    Args:
        config: The model's config.
        tokens: `(batch, length)` ids.
        indices: Their indices, `(length,)` or `(batch, length)`.
        times: Their times in beats, `(batch, length)`; may be None if the model needs none.
        before: The time of the token before them in each row; None at the beginning of a piece.

    Raises:
        ValueError: If times are needed and missing, or do not fit the tokens.
    """
    if not config.needs_times:
        return Places(indices, None)
    if times is None:
        raise ValueError(TIMES_MISSING)
    if times.shape != tokens.shape:
        raise ValueError(f"times of shape {tuple(times.shape)} do not match tokens of {tuple(tokens.shape)}")
    positions = _on_grid(times.detach().to("cpu", torch.float64), config.time_resolution)
    elapsed = None
    if config.decay != "none" and config.decay_positions == "time":
        first = positions[:, :1]
        if before is not None:
            first = _on_grid(torch.tensor(before, dtype=torch.float64), config.time_resolution).unsqueeze(-1)
        elapsed = positions.diff(dim=-1, prepend=first).clamp_min_(0).to(tokens.device)
    return Places(positions if config.positions == "time" else indices, elapsed)


def find_row_places(
    config: PerformerConfig, indices: Sequence[int], times: Sequence[float] | None, before: Sequence[float] | None
) -> tuple[Sequence[float], Sequence[float] | None]:
    """As `find_places`, of one token in each row and without tensors, which take ten times as long.

    Args:
        config: The model's config.
        indices: The index of each row's token.
        times: Its time in beats; may be None if the model needs none.
        before: The time of the token before it.

    Returns:
        The position of each row, and its positions since the token before; None means 1 for each.

    Raises:
        ValueError: If times are needed and missing, or do not fit the tokens.
    """
    if not config.needs_times:
        return indices, None
    if times is None:
        raise ValueError(TIMES_MISSING)
    if len(times) != len(indices):
        raise ValueError(f"{len(times)} times do not match tokens of {len(indices)} rows")
    positions = [_on_grid_one(time, config.time_resolution) for time in times]
    elapsed = None
    if config.decay != "none" and config.decay_positions == "time":
        last = positions if before is None else [_on_grid_one(time, config.time_resolution) for time in before]
        elapsed = [max(0.0, now - then) for now, then in zip(positions, last, strict=True)]
    return positions if config.positions == "time" else indices, elapsed


def _on_grid(times: Tensor, resolution: int) -> Tensor:
    """Beats to positions. Times on the grid give whole numbers, even if a third of a beat was rounded."""
    positions = times * resolution
    whole = positions.round()
    return torch.where((positions - whole).abs() < EXACT, whole, positions)


def _on_grid_one(time: float, resolution: int) -> float:
    position = time * resolution
    whole = float(round(position))
    return whole if abs(position - whole) < EXACT else position
