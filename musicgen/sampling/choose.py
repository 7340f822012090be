"""Choosing the next token: masks, then temperature, then what is cut off the tail, then one random number.

The hard choice: chance is a number between 0 and 1 that the caller brings, one for each row. A choice is then a
function of logits, mask and that number, so that a piece depends on its seed and on nothing that happens beside it.
All is computed in float64 from the logits on: the sum of 400 probabilities is to be 1, not nearly 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.spe.draw import Stream, address

BLOCK = 256


@dataclass(frozen=True)
class Taste:
    """How adventurous choices are.

    Attributes:
        temperature: Divides logits; 0 takes the most likely token always.
        top_p: Keeps the most likely tokens that together have this probability (the nucleus); 1 keeps all.
        top_k: Keeps so many of the most likely tokens; None keeps all.
        min_p: Keeps tokens at least so likely relative to the most likely one; 0 keeps all.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature={self.temperature:g}: takes 0 or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p:g}: takes a number above 0, up to 1")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k={self.top_k}: takes 1 or more")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p={self.min_p:g}: takes a number from 0 to 1")


class Chosen(NamedTuple):
    """What was chosen in each row.

    Attributes:
        tokens: Ids, shape (rows,).
        log_likelihood: What the model itself, without masks and temperature, thought of them, in nats, shape (rows,).
        pressure: How much probability the masks took away, from 0 to 1, shape (rows,).
    """

    tokens: NDArray[np.int64]
    log_likelihood: NDArray[np.float64]
    pressure: NDArray[np.float64]


def choose(logits: NDArray[Any], allowed: NDArray[np.bool_], chance: NDArray[np.float64], taste: Taste) -> Chosen:
    """One token for each row.

    Args:
        logits: Of the model, shape (rows, vocabulary).
        allowed: What the masks leave, of the same shape; something in every row.
        chance: Numbers from 0 to 1, 1 not included, shape (rows,).
        taste: Temperature and the rest.

    Raises:
        UserError: Logits are not finite.
    """
    logits = np.asarray(logits, np.float64)
    if not np.isfinite(logits).all():
        raise UserError("the model gives logits that are not finite: its weights are damaged, or training diverged")
    order, likely = _ranked(logits, allowed, taste)
    rows = np.arange(len(logits))
    reached = np.cumsum(likely, 1)
    place = (reached <= chance[:, None] * reached[:, -1:]).sum(1)
    last = (likely > 0).sum(1) - 1  # what rounding of the sum may ask for beyond it does not exist
    tokens = order[rows, np.minimum(place, last)]

    own = logits - logits.max(1, keepdims=True)
    weights = np.exp(own)
    total = weights.sum(1)
    return Chosen(
        tokens,
        own[rows, tokens] - np.log(total),
        np.where(allowed, 0.0, weights).sum(1) / total,
    )


def distribution(logits: NDArray[Any], allowed: NDArray[np.bool_], taste: Taste) -> NDArray[np.float64]:
    """The probabilities with which `choose` takes each token, shape (rows, vocabulary)."""
    order, likely = _ranked(np.asarray(logits, np.float64), allowed, taste)
    probabilities = np.zeros_like(likely)
    np.put_along_axis(probabilities, order, likely / likely.sum(1, keepdims=True), 1)
    return probabilities


def _ranked(
    logits: NDArray[np.float64], allowed: NDArray[np.bool_], taste: Taste
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Tokens from the most likely down (of equals, the lowest id first), and their probabilities after all cuts.

    Probabilities need not sum to 1. The first is never cut.
    """
    if not allowed.any(1).all():
        raise ValueError("a mask leaves no token")
    masked = np.where(allowed, logits, -np.inf)
    order = np.argsort(-masked, axis=1, kind="stable")
    ranked = np.take_along_axis(masked, order, 1)
    ranked = ranked - ranked[:, :1]
    if taste.temperature == 0:
        likely = np.zeros_like(ranked)
        likely[:, 0] = 1.0
        return order, likely
    # A tiny temperature may take a logit past what a float can say, to what the exponential makes 0 of anyway.
    with np.errstate(over="ignore"):
        likely = np.exp(ranked / taste.temperature)
    likely /= likely.sum(1, keepdims=True)
    kept = likely >= taste.min_p * likely[:, :1]
    if taste.top_k is not None:
        kept[:, taste.top_k :] = False
    likely = np.where(kept, likely, 0.0)
    likely /= likely.sum(1, keepdims=True)
    if taste.top_p < 1:
        before = np.cumsum(likely, 1) - likely
        before[:, 0] = 0.0  # where rounding would cut even the most likely
        likely = np.where(before < taste.top_p, likely, 0.0)
    return order, likely


class Chance:
    """Random numbers of one piece: the number for a token is a function of the seed and the token's place.

    Args:
        seed: Of the piece.
        variation: Other variations have other numbers from where they part.
    """

    def __init__(self, seed: int, variation: int = 0) -> None:
        self.seed, self.variation = seed, variation
        self._number, self._block = -1, np.empty(0)

    def at(self, place: int) -> float:
        """The number for the token at a place, from 0 to 1, 1 not included."""
        number, offset = divmod(place, BLOCK)
        if number != self._number:
            generator = address(self.seed, Stream.CHOICE, self.variation, number)
            self._number, self._block = number, torch.rand(BLOCK, generator=generator, dtype=torch.float64).numpy()
        return float(self._block[offset])
