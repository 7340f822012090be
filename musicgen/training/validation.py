"""The loss on songs that the model is not trained on.

Design note: validation is a plain function between two steps, not a loop of Lightning. It uses the same windows and the
same draws of noise every time, and leaves no state that a resumed run would have to restore.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musicgen.data.batches import IGNORED
from musicgen.model import PerformerLM
from musicgen.spe import SPEFilter
from musicgen.training.loaders import FixedWindows, GapWindows
from musicgen.training.schedule import validation_seed


@torch.no_grad()
def validate(
    model: PerformerLM, windows: FixedWindows, trained: int, draws: int, seed: int, reduce: Callable[[Tensor], Tensor]
) -> dict[str, float]:
    """The loss over trained positions (`val/loss`), its spread over draws, and the loss beyond them.

    Args:
        model: The model. It returns to training mode if it was in it.
        windows: The songs of this process.
        trained: The length of training windows.
        draws: Number of draws of noise to average over.
        seed: The seed of the draws.
        reduce: Sums a tensor over processes.
    """

    def regions(inputs: Tensor) -> Tensor:
        is_trained = torch.arange(inputs.shape[1], device=inputs.device) < trained
        return torch.stack([is_trained, ~is_trained]).unsqueeze(1).expand(2, *inputs.shape)

    losses, counts = _losses(model, windows, regions, draws, seed, reduce)
    metrics = {"val/loss": float(losses[:, 0].mean()), "val/loss_spread": float(losses[:, 0].std(correction=0))}
    if float(counts[1]):
        metrics["val/loss_extrapolated"] = float(losses[:, 1].mean())
    return metrics


def validate_fills(
    model: PerformerLM, windows: GapWindows, draws: int, seed: int, reduce: Callable[[Tensor], Tensor]
) -> dict[str, float]:
    """The loss of bars that were taken out, given what comes before and after them (`val/infill_loss`).

    The arguments are those of `validate`.
    """
    assert windows.language.infill is not None  # noqa: S101
    fill = windows.language.infill.fill
    losses, counts = _losses(
        model, windows, lambda inputs: ((inputs == fill).cumsum(-1) > 0)[None], draws, seed, reduce
    )
    return {"val/infill_loss": float(losses[:, 0].mean())} if float(counts[0]) else {}


@torch.no_grad()
def _losses(
    model: PerformerLM,
    windows: FixedWindows,
    regions: Callable[[Tensor], Tensor],
    draws: int,
    seed: int,
    reduce: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """The mean loss in regions of windows, `(draws, regions)`, and their numbers of tokens, `(regions,)`.

    Args:
        model: The model.
        windows: The windows of this process.
        regions: Tells for inputs of `(rows, length)` which of their targets are in each region.
        draws: Number of draws of noise; a model without noise needs one.
        seed: The seed of the draws.
        reduce: Sums a tensor over processes.
    """
    draws = draws if model.config.has_noise else 1
    was_training = model.training
    model.eval()
    device = model.embedding.weight.device
    number_of_regions = len(regions(torch.empty(0, 1)))
    sums = torch.zeros(draws, number_of_regions).double().to(device)
    counts = torch.zeros(number_of_regions).double().to(device)
    for number in range(len(windows)):
        inputs, targets, times = (tensor.to(device) for tensor in windows[number])
        inside = regions(inputs)
        counts += (inside & (targets != IGNORED)).sum((1, 2))
        for draw in range(draws):
            logits = model(inputs, model.draw(validation_seed(seed, draw)), times=times)
            losses = F.cross_entropy(logits.transpose(1, 2).float(), targets, ignore_index=IGNORED, reduction="none")
            sums[draw] += torch.where(inside, losses.double(), 0.0).sum((1, 2))
    model.train(was_training)
    counts = reduce(counts).cpu()
    return reduce(sums).cpu() / counts, counts


def gate_statistics(model: nn.Module) -> dict[str, float]:
    """Mean, least and most of δ, the share of a feature that ignores position. Empty without gates."""
    deltas = [gate.delta for gate in model.modules() if isinstance(gate, SPEFilter)]
    shares = [gather_full(delta.detach()).flatten() for delta in deltas if delta is not None]
    if not shares:
        return {}
    values = torch.cat(shares)
    return {"gate/mean": float(values.mean()), "gate/least": float(values.min()), "gate/most": float(values.max())}


def gather_full(tensor: Tensor) -> Tensor:
    """The full tensor, also if each process has only a part of it."""
    return cast(Tensor, tensor.full_tensor()) if hasattr(tensor, "full_tensor") else tensor
