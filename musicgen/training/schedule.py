"""What changes from step to step: the learning rate, and the noise.

The hard choice: each is a function of the step alone. There is no state to save, nothing to restore, and nothing
that could differ between a run that was stopped and one that was not.
"""

from __future__ import annotations

import hashlib
import math

from musicgen.training.config import OptimizerConfig

_CODES, _FEATURES, _COIN, _VALIDATION = range(4)
"""What randomness is for: two uses of one seed must not meet."""


def learning_rate(step: int, config: OptimizerConfig, max_steps: int) -> float:
    """The rate of a step, the first of which is 0: a straight rise, then half a cosine down to the floor.

    The first step is not at the full rate, and after the decay the rate stays where it is.
    """
    top, floor = config.learning_rate, config.final_learning_rate
    if step < config.warmup_steps:
        return top * (step + 1) / (config.warmup_steps + 1)
    end = max_steps if config.decay_steps is None else config.decay_steps
    decay = max(end - config.warmup_steps, 1)
    progress = min((step - config.warmup_steps) / decay, 1.0)
    return floor + (top - floor) * (1 + math.cos(math.pi * progress)) / 2


def code_seed(seed: int, step: int) -> int:
    """The seed of a step's codes, gates and dropout: another for every step."""
    return _hash(seed, _CODES, step)


def feature_seed(seed: int, step: int, redraw: float) -> int:
    """The seed of a step's random features, which stay for a while.

    Args:
        seed: The run's.
        step: The step.
        redraw: Below 1, the chance of other features at each step; from 1 on, the steps between.
    """
    if redraw >= 1:
        return _hash(seed, _FEATURES, step - step % int(redraw))
    while step > 0 and _hash(seed, _COIN, step) >= redraw * 2**62:
        step -= 1
    return _hash(seed, _FEATURES, step)


def validation_seed(seed: int, number: int) -> int:
    """The seed of one of the draws that judge a model: the same at every validation."""
    return _hash(seed, _VALIDATION, number)


def _hash(*key: int) -> int:
    """A number below 2⁶² that is a function of integers."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2
