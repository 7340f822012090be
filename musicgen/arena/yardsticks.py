"""What simple rules reach, beside every accuracy. NumPy is enough for them.

All of them learn from the training examples alone, and read as many tokens of a sequence as the classifier.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Hashable, Iterator

import numpy as np
from numpy.typing import NDArray

from musicgen.arena.dataset import Dataset
from musicgen.arena.listops import APPLY, top_level

Floats = NDArray[np.float64]
WORDS = 20_000
"""How many of the most frequent words count."""


def yardsticks(dataset: Dataset, length: int, split: str = "test") -> dict[str, float]:
    """The accuracy of each yardstick of a task, by name."""
    found = {"majority": table_accuracy(dataset, length, split, lambda sequence: None)}  # noqa: ARG005
    if dataset.about.task.startswith("listops"):
        found["root operator"] = table_accuracy(dataset, length, split, lambda sequence: sequence[0])
        found["root operator and its digits"] = table_accuracy(dataset, length, split, _root_of_digits)
    elif dataset.about.side is not None:
        found["logistic regression of pixels"] = pixel_accuracy(dataset, split)
    elif dataset.is_paired:
        found["tf-idf"] = tfidf_accuracy(dataset, length, split)
    else:
        found["bag of words"] = words_accuracy(dataset, length, split)
    return found


def table_accuracy(dataset: Dataset, length: int, split: str, key: Callable[[bytes], Hashable]) -> float:
    """The accuracy of the most frequent class among training examples with the same key."""
    counts: dict[Hashable, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    everywhere: collections.Counter[int] = collections.Counter()
    for sequence, label in _first_sequences(dataset, length, "train"):
        counts[key(sequence)][label] += 1
        everywhere[label] += 1
    answers = {name: _commonest(counter) for name, counter in counts.items()}
    rest = _commonest(everywhere)
    right = [answers.get(key(sequence), rest) == label for sequence, label in _first_sequences(dataset, length, split)]
    return float(np.mean(right))


def _commonest(counter: collections.Counter[int]) -> int:
    return min(counter, key=lambda label: (-counter[label], label))


def _first_sequences(dataset: Dataset, length: int, split: str) -> Iterator[tuple[bytes, int]]:
    examples = dataset.splits[split]
    for numbers, label in zip(examples.sequences, examples.labels.tolist(), strict=True):
        yield dataset.sequence(numbers[0], length).tobytes(), label


def _root_of_digits(sequence: bytes) -> tuple[int, int]:
    """The operator at the root, and what it makes of the digits that are its direct arguments."""
    operator, digits = top_level(sequence)
    return operator, APPLY[operator](digits) if digits else -1


def pixel_accuracy(dataset: Dataset, split: str, steps: int = 300) -> float:
    """The accuracy of multinomial logistic regression of pixels, by accelerated gradient descent."""
    (train, targets), (judged, labels) = _pixels(dataset, "train"), _pixels(dataset, split)
    mean, spread = train.mean(0), train.std(0) + 1e-6
    train, judged = ((pixels - mean) / spread for pixels in (train, judged))
    # The gradient changes at most this fast; half of the largest eigenvalue of the covariance of the pixels.
    rate = 2.0 / float(np.linalg.eigvalsh(train.T @ train / len(train))[-1])
    wanted = np.eye(dataset.about.classes)[targets]
    weights, ahead = (np.zeros((train.shape[1], dataset.about.classes)) for _ in range(2))
    bias = np.log(wanted.mean(0) + 1e-9)
    for step in range(steps):
        gradient = train.T @ (_softmax(train @ ahead + bias) - wanted) / len(train) + 1e-3 * ahead
        after = ahead - rate * gradient
        ahead, weights = after + step / (step + 3) * (after - weights), after
    return float(((judged @ weights + bias).argmax(1) == labels).mean())


def _pixels(dataset: Dataset, split: str) -> tuple[Floats, NDArray[np.int64]]:
    examples = dataset.splits[split]
    return np.stack([dataset.sequence(row[0]) for row in examples.sequences]).astype(np.float64), examples.labels


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


class Vocabulary:
    """The most frequent words of the training sequences, and how many sequences have each."""

    def __init__(self, dataset: Dataset, length: int) -> None:
        self._dataset, self._length = dataset, length
        sequences = np.unique(dataset.splits["train"].sequences)
        counts = collections.Counter(word for number in sequences for word in set(self.words(int(number))))
        common = sorted(counts, key=lambda word: (-counts[word], word))[:WORDS]
        self.index = {word: place for place, word in enumerate(common)}
        self.documents = np.array([counts[word] for word in common], np.float64)
        self.total = len(sequences)

    def words(self, number: int) -> list[bytes]:
        """The words of a sequence."""
        return re.findall(rb"\w+", self._dataset.sequence(number, self._length).tobytes().lower())

    def count(self, number: int) -> tuple[NDArray[np.int64], Floats]:
        """Places of the known words of a sequence, and how often it has each."""
        counter = collections.Counter(self.index[word] for word in self.words(number) if word in self.index)
        return np.array(sorted(counter), np.int64), np.array([counter[place] for place in sorted(counter)], np.float64)


def words_accuracy(dataset: Dataset, length: int, split: str) -> float:
    """The accuracy of naive Bayes: which words are in a text, in whatever order."""
    vocabulary, classes = Vocabulary(dataset, length), dataset.about.classes
    seen, priors = np.ones((classes, len(vocabulary.index))), np.zeros(classes)
    examples = dataset.splits["train"]
    for numbers, label in zip(examples.sequences, examples.labels, strict=True):
        seen[label, vocabulary.count(int(numbers[0]))[0]] += 1
        priors[label] += 1
    logs = np.log(seen / seen.sum(1, keepdims=True))
    judged = dataset.splits[split]
    scores = np.stack([logs[:, vocabulary.count(int(row[0]))[0]].sum(1) for row in judged.sequences])
    return float(((scores + np.log(priors)).argmax(1) == judged.labels).mean())


def tfidf_accuracy(dataset: Dataset, length: int, split: str) -> float:
    """The accuracy of a threshold, the best on training pairs, on the cosine of two texts' tf-idf vectors."""
    vocabulary = Vocabulary(dataset, length)
    weight = np.log((1 + vocabulary.total) / (1 + vocabulary.documents)) + 1
    vectors: dict[int, dict[int, float]] = {}

    def vector(number: int) -> dict[int, float]:
        if number not in vectors:
            places, counts = vocabulary.count(number)
            values = counts * weight[places]
            values /= np.linalg.norm(values) + 1e-12
            vectors[number] = dict(zip(places.tolist(), values.tolist(), strict=True))
        return vectors[number]

    def cosines(name: str) -> Floats:
        pairs = ((vector(int(one)), vector(int(other))) for one, other in dataset.splits[name].sequences)
        return np.array([sum(value * other.get(place, 0.0) for place, value in one.items()) for one, other in pairs])

    train, labels = cosines("train"), dataset.splits["train"].labels
    order = np.argsort(train, kind="stable")
    # With the threshold before place i, pairs from i on are called citations.
    right = np.concatenate([[labels.sum()], labels.sum() + np.cumsum(1 - 2 * labels[order])])
    best = int(right.argmax())
    threshold = np.inf if best == len(order) else train[order[best]]
    return float(((cosines(split) >= threshold) == dataset.splits[split].labels).mean())
