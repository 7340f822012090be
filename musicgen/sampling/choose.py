"""Choosing the next token: masks, then temperature, then cutting the tail, then one random number.

Design note: the caller brings a random number and settings for each row. A choice is then a function of a row's logits,
mask, number and settings, so a piece depends on its seed and not on other pieces. Everything after the logits is
computed in float64: the sum of 400 probabilities is 1, not nearly 1.

Rhythm may have its own settings. Whether a token of rhythm comes next is then as likely as before; only which one comes
is chosen by them. So a colder rhythm is steadier, and chords have no more and no fewer notes than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.options import fit
from musicgen.request import Choosing
from musicgen.spe.draw import Stream, address

BLOCK = 256
OF_RHYTHM = ("temperature", "top_p", "min_p")
"""Settings that rhythm may have of its own, under these names with a prefix."""
RHYTHM = "rhythm_"


@dataclass(frozen=True)
class SamplingConfig:
    """How adventurous choices are.

    Attributes:
        temperature: Divides logits; 0 always takes the most likely token.
        top_p: Keeps the most likely tokens that together have this probability (the nucleus); 1 keeps all.
        top_k: Keeps this many of the most likely tokens; None keeps all.
        min_p: Keeps tokens with at least this probability relative to the most likely one; 0 keeps all.
        rhythm_temperature, rhythm_top_p, rhythm_min_p: The same for tokens of rhythm; None for no difference.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0
    rhythm_temperature: float | None = None
    rhythm_top_p: float | None = None
    rhythm_min_p: float | None = None

    def __post_init__(self) -> None:
        fit(Choosing, vars(self))  # refuses what is out of bounds

    @cached_property
    def rhythm(self) -> SamplingConfig | None:
        """The settings of rhythm; None if they are those of everything."""
        own = {name: getattr(self, RHYTHM + name) for name in OF_RHYTHM}
        if all(value is None for value in own.values()):
            return None
        usual = {name: getattr(self, name) for name in OF_RHYTHM}
        return SamplingConfig(top_k=self.top_k, **usual | {name: own[name] for name in own if own[name] is not None})

    def changed(self, **values: float | None) -> SamplingConfig:
        """Other settings. Those that are None stay, and a setting that is given holds for rhythm too."""
        given: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        usual = {RHYTHM + name: None for name in OF_RHYTHM if name in given}
        return replace(self, **usual | given)


class Chosen(NamedTuple):
    """What was chosen in each row.

    Attributes:
        tokens: Ids, shape (rows,).
        log_likelihood: Their log-likelihood in nats by the model itself, without masks and temperature, shape (rows,).
        masked_probability: How much probability the masks removed, from 0 to 1, shape (rows,).
    """

    tokens: NDArray[np.int64]
    log_likelihood: NDArray[np.float64]
    masked_probability: NDArray[np.float64]


def choose(
    logits: NDArray[Any],
    allowed: NDArray[np.bool_],
    chances: NDArray[np.float64],
    configs: Sequence[SamplingConfig],
    rhythm: NDArray[np.bool_] | None = None,
    biases: NDArray[np.float64] | float = 0.0,
) -> Chosen:
    """One token for each row.

    Args:
        logits: The model's logits, shape (rows, vocabulary).
        allowed: What the masks leave, of the same shape; at least one token in every row.
        chances: Random numbers from 0 up to but not including 1, shape (rows,).
        configs: Settings of each row.
        rhythm: Which tokens are of rhythm, shape (vocabulary,); None for none.
        biases: What is added to the logits, shape (rows, vocabulary). The model's own opinion does not have it.

    Raises:
        UserError: Logits are not finite.
    """
    logits = np.asarray(logits, np.float64)
    if not np.isfinite(logits).all():
        raise UserError("the model gives logits that are not finite: its weights are damaged, or training diverged")
    order, likely = _likely(logits + biases, allowed, configs, rhythm)
    rows = np.arange(len(logits))
    reached = np.cumsum(likely, 1)
    place = (reached <= chances[:, None] * reached[:, -1:]).sum(1)
    last = likely.shape[1] - 1 - (likely[:, ::-1] > 0).argmax(1)  # rounding of the sum may point past it
    tokens = order[rows, np.minimum(place, last)]

    own = logits - logits.max(1, keepdims=True)
    weights = np.exp(own)
    total = weights.sum(1)
    return Chosen(
        tokens,
        own[rows, tokens] - np.log(total),
        np.where(allowed, 0.0, weights).sum(1) / total,
    )


def distribution(
    logits: NDArray[Any],
    allowed: NDArray[np.bool_],
    configs: Sequence[SamplingConfig],
    rhythm: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """The probabilities with which `choose` takes each token, shape (rows, vocabulary)."""
    return _by_token(*_likely(np.asarray(logits, np.float64), allowed, configs, rhythm))


def _by_token(order: NDArray[np.int64], likely: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities in the order of ids, which sum to 1."""
    probabilities = np.zeros_like(likely)
    probabilities[np.arange(len(order))[:, None], order] = likely / likely.sum(1, keepdims=True)
    return probabilities


def _likely(
    logits: NDArray[np.float64],
    allowed: NDArray[np.bool_],
    configs: Sequence[SamplingConfig],
    rhythm: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Tokens in some order, and their probabilities, which need not sum to 1."""
    order, likely = _ranked(logits, allowed, configs)
    own = {row: config.rhythm for row, config in enumerate(configs) if config.rhythm is not None}
    if rhythm is None or not own:
        return order, likely
    is_rhythm = rhythm[order]
    total = np.where(is_rhythm, likely, 0.0).sum(1)
    rows = [row for row in own if total[row] > 0]
    if rows:
        chosen = _by_token(*_ranked(logits[rows], allowed[rows] & rhythm, [own[row] for row in rows]))
        parts = total[rows, None] * chosen[np.arange(len(rows))[:, None], order[rows]]
        likely[rows] = np.where(is_rhythm[rows], parts, likely[rows])
    return order, likely


def _ranked(
    logits: NDArray[np.float64], allowed: NDArray[np.bool_], configs: Sequence[SamplingConfig]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Tokens from the most likely down (the lowest id first among equals), and their probabilities after all cuts.

    Probabilities need not sum to 1. The first is never cut.
    """
    if not allowed.any(1).all():
        raise ValueError("a mask leaves no token")
    vocabulary = logits.shape[1]
    temperature, top_p, top_k, min_p = (
        np.array(column)[:, None]
        for column in zip(*((c.temperature, c.top_p, c.top_k or vocabulary, c.min_p) for c in configs), strict=True)
    )
    masked = np.where(allowed, logits, -np.inf)
    order = np.argsort(-masked, axis=1, kind="stable")
    ranked = masked[np.arange(len(order))[:, None], order]
    ranked = ranked - ranked[:, :1]
    rank = np.arange(vocabulary)
    is_greedy = temperature == 0
    # A tiny temperature may take a logit beyond what a float can hold; the exponential is 0 there in any case.
    with np.errstate(over="ignore"):
        likely = np.exp(ranked / np.where(is_greedy, 1.0, temperature))
    likely /= likely.sum(1, keepdims=True)
    likely = np.where((likely >= min_p * likely[:, :1]) & (rank < top_k), likely, 0.0)
    likely /= likely.sum(1, keepdims=True)
    if (top_p < 1).any():
        before = np.cumsum(likely, 1) - likely
        before[:, 0] = 0.0  # rounding must not cut the most likely token
        likely = np.where((before < top_p) | (top_p == 1), likely, 0.0)
    return order, np.where(is_greedy, np.where(rank == 0, 1.0, 0.0), likely)


class Chance:
    """Random numbers of one piece: the number for a token is a function of the seed and the token's place.

    Args:
        seed: The seed of the piece.
        variation: Every variation has its own numbers.
    """

    def __init__(self, seed: int, variation: int = 0) -> None:
        self.seed, self.variation = seed, variation
        self._number, self._block = -1, np.empty(0)

    def at(self, place: int) -> float:
        """The number for the token at a place, from 0 up to but not including 1."""
        number, offset = divmod(place, BLOCK)
        if number != self._number:
            generator = address(self.seed, Stream.CHOICE, self.variation, number)
            self._number, self._block = number, torch.rand(BLOCK, generator=generator, dtype=torch.float64).numpy()
        return float(self._block[offset])
