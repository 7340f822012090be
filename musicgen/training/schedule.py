"""What changes from step to step: the learning rate and the noise.

Design note: each is a function of the step alone. There is no state to save, so a resumed run equals an unbroken one.
"""

from __future__ import annotations

import hashlib
import math

from musicgen.training.config import OptimizerConfig

_CODES, _FEATURES, _COIN, _VALIDATION = range(4)
"""Uses of randomness: each gets its own stream of a seed."""


def learning_rate(step: int, config: OptimizerConfig, max_steps: int) -> float:
    """The learning rate of a step (counted from 0): a linear warm-up, then half a cosine down to the final rate.

    After the decay the rate stays at the final rate.
    """
    top, floor = config.learning_rate, config.final_learning_rate
    if step < config.warmup_steps:
        return top * (step + 1) / (config.warmup_steps + 1)
    end = max_steps if config.decay_steps is None else config.decay_steps
    decay = max(end - config.warmup_steps, 1)
    progress = min((step - config.warmup_steps) / decay, 1.0)
    return floor + (top - floor) * (1 + math.cos(math.pi * progress)) / 2


def code_seed(seed: int, step: int) -> int:
    """The seed of the codes, gates and dropout of a step. Every step has another."""
    return _hash(seed, _CODES, step)


def feature_seed(seed: int, step: int, redraw: float) -> int:
    """The seed of the random features of a step, which stay the same for several steps.

    `redraw` is the probability of new features at each step if it is below 1, else the number of steps between them.
    """
    if redraw >= 1:
        return _hash(seed, _FEATURES, step - step % int(redraw))
    while step > 0 and _hash(seed, _COIN, step) >= redraw * 2**62:
        step -= 1
    return _hash(seed, _FEATURES, step)


def validation_seed(seed: int, number: int) -> int:
    """The seed of a draw for validation. It is the same at every validation."""
    return _hash(seed, _VALIDATION, number)


def _hash(*key: int) -> int:
    """A hash of integers, below 2⁶²."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2
