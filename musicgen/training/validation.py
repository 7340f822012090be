"""How good the model is, on songs it was not trained on.

The hard choice: validation is a function called between two steps, not a loop of the framework's. It is always the
same windows with the same draws of noise, shared out among processes and summed, and it leaves nothing behind that a
run would have to restore.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from musicgen.data.batches import IGNORED
from musicgen.model import PerformerLM
from musicgen.spe import SPEFilter
from musicgen.training.loaders import FixedWindows
from musicgen.training.schedule import validation_seed


@torch.no_grad()
def validate(
    model: PerformerLM, windows: FixedWindows, trained: int, draws: int, seed: int, reduce: Callable[[Tensor], Tensor]
) -> dict[str, float]:
    """The loss over trained positions (`val/loss`), its spread over draws, and the loss beyond them.

    Args:
        model: The model; it is in training again afterwards if it was.
        windows: This process's share of the songs, as long as they are to be followed.
        trained: The length of training windows.
        draws: Draws of noise to average over.
        seed: Of the draws.
        reduce: Sums a tensor over processes.
    """
    was_training = model.training
    model.eval()
    device = model.embedding.weight.device
    sums, counts = torch.zeros(draws, 2).double(), torch.zeros(2).double()
    for number in range(len(windows)):
        inputs, targets = (tensor.to(device) for tensor in windows[number])
        counts += _halves((targets != IGNORED).double(), trained)
        for draw in range(draws):
            logits = model(inputs, model.draw(validation_seed(seed, draw)))
            losses = F.cross_entropy(logits.transpose(1, 2).float(), targets, ignore_index=IGNORED, reduction="none")
            sums[draw] += _halves(losses.double(), trained)
    model.train(was_training)
    sums, counts = reduce(sums.to(device)).cpu(), reduce(counts.to(device)).cpu()
    losses = sums / counts
    metrics = {"val/loss": float(losses[:, 0].mean()), "val/loss_spread": float(losses[:, 0].std(correction=0))}
    if float(counts[1]):
        metrics["val/loss_extrapolated"] = float(losses[:, 1].mean())
    return metrics


def _halves(values: Tensor, trained: int) -> Tensor:
    """Sums over trained positions and over those beyond, of `(rows, length)`; on the CPU."""
    return torch.stack([values[:, :trained].sum(), values[:, trained:].sum()]).cpu()


def gate_statistics(model: PerformerLM) -> dict[str, float]:
    """δ, the share of a feature that ignores position, over layers, heads and features; nothing without gates."""
    deltas = [gate.delta for gate in cast(Sequence[SPEFilter], model.encoding.filters)]
    shares = [whole(delta.detach()).flatten() for delta in deltas if delta is not None]
    if not shares:
        return {}
    values = torch.cat(shares)
    return {"gate/mean": float(values.mean()), "gate/least": float(values.min()), "gate/most": float(values.max())}


def whole(tensor: Tensor) -> Tensor:
    """A tensor of which each process may have a part."""
    return cast(Tensor, tensor.full_tensor()) if hasattr(tensor, "full_tensor") else tensor
