"""How often a classifier is right. Its answer is the mean of its probabilities over draws of noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from musicgen.arena.batches import collate
from musicgen.arena.classifier import SequenceClassifier
from musicgen.arena.dataset import Dataset


@torch.no_grad()
def log_probabilities(
    model: SequenceClassifier, dataset: Dataset, split: str, numbers: Sequence[int], seeds: Sequence[int], rows: int
) -> tuple[Tensor, Tensor]:
    """Log probabilities of all classes `(examples, classes)`, and the labels `(examples,)`, in float64 on the CPU.

    Args:
        model: The model. It returns to training mode if it was in it.
        dataset: The data.
        split: The split.
        numbers: Which of its examples.
        seeds: The seed of each draw.
        rows: How many examples are computed at once.
    """
    was_training = model.training
    model.eval()
    device = model.embedding.weight.device
    # Examples of similar length share a batch, so that there is little padding.
    sequences = dataset.splits[split].sequences
    longest = {number: max(len(dataset.sequence(place)) for place in sequences[number]) for number in numbers}
    ordered = sorted(numbers, key=lambda number: (longest[number], number))
    found = []
    for first in range(0, len(ordered), rows):
        batch = collate(dataset, model.config, split, ordered[first : first + rows])
        inputs = (batch.tokens.to(device), batch.lengths.to(device))
        logs = torch.stack([model(*inputs, model.draw(seed)).double().log_softmax(-1) for seed in seeds])
        found.append((logs.logsumexp(0) - math.log(len(seeds))).cpu())
    model.train(was_training)
    labels = torch.from_numpy(dataset.splits[split].labels[ordered])
    classes = dataset.about.classes
    return (torch.cat(found) if found else torch.empty(0, classes, dtype=torch.float64)), labels


def interval(right: float, count: int) -> tuple[float, float]:
    """The 95 % interval (Wilson's) of a share of right answers."""
    z = 1.959964
    middle, spread = right + z * z / (2 * count), z * math.sqrt((right * (1 - right) + z * z / (4 * count)) / count)
    return (middle - spread) / (1 + z * z / count), (middle + spread) / (1 + z * z / count)
