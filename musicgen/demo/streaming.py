"""Shows that a model gives the same result token by token as in parallel, at the same cost anywhere in a piece.

Design note: the model is not trained and not loaded from a file. So the result holds for every model and takes
seconds.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from musicgen.model import PerformerLM, State
    from musicgen.spe import Draw

SEED = 0
EARLY, LATE = 100, 2000  # positions whose cost is compared; the piece ends at the later one
REPEATS = 100  # steps timed at each
TOLERANCE = 1e-5  # of logits, which are of the order of 0.1 before training


def stream() -> tuple[float, str]:
    """Stream tokens. Gives the largest difference from the parallel model, and the result in words."""
    import torch

    from musicgen.model import PerformerConfig, PerformerLM

    torch.set_num_threads(1)  # one token is too little work to share
    torch.manual_seed(SEED)
    config = PerformerConfig(
        vocab_size=333, num_layers=2, num_heads=4, d_model=128, d_ff=512, num_features=64, decay="fixed"
    )
    model = PerformerLM(config).eval()
    draw = model.draw(SEED)
    states, difference = _compare(model, draw)
    early, late = _milliseconds(model, [states[EARLY], states[LATE]])
    verdict = "equal" if difference <= TOLERANCE else "NOT equal"
    lines = [
        f"a model of {model.num_parameters():,} untrained parameters wrote {LATE:,} tokens one by one",
        f"  streaming and parallel are {verdict}: logits differ by at most {difference:.1e}",
        f"  size of its state: {states[LATE].nbytes / 1e3:.0f} kB, at any length",
        f"  time of a token: {early:.2f} ms at position {EARLY:,}, {late:.2f} ms at position {LATE:,}",
    ]
    return difference, "\n".join(lines)


def _compare(model: PerformerLM, draw: Draw) -> tuple[dict[int, State], float]:
    """The states at the two positions of interest, and by how much streamed and parallel logits differ."""
    import torch

    sampling = torch.Generator().manual_seed(SEED)
    state = model.init_state(draw)
    states = {}
    tokens = [torch.zeros(1, dtype=torch.long)]
    streamed = []
    for position in range(1, LATE + 1):
        logits, state = model.step(tokens[-1], state)
        if position in (EARLY, LATE):
            states[position] = state
        streamed.append(logits)
        tokens.append(torch.multinomial(logits.softmax(-1), 1, generator=sampling)[:, 0])
    with torch.no_grad():
        parallel = model(torch.stack(tokens[:-1], 1), draw)
    return states, (torch.stack(streamed, 1) - parallel).abs().max().item()


def _milliseconds(model: PerformerLM, states: list[State]) -> list[float]:
    """The median time of a step from each state. The states take turns, so that other programs disturb all equally."""
    import torch

    token = torch.zeros(1, dtype=torch.long)
    times: list[list[float]] = [[] for _ in states]
    for _ in range(REPEATS):
        for state, own in zip(states, times, strict=True):
            start = time.perf_counter()
            model.step(token, state)
            own.append(1000 * (time.perf_counter() - start))
    return [statistics.median(own) for own in times]
