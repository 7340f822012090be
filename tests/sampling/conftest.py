"""Models that write music: two that know nothing, and one that has seen some pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from musicgen.languages import Groove, Remi
from musicgen.languages.remi.synthetic import compose
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.sampling import MusicModel

CONFIG = PerformerConfig(
    vocab_size=361, num_layers=2, num_heads=2, d_model=48, d_ff=96, num_features=16, num_realizations=16, decay="fixed"
)


def _model(vocab_size: int = 361) -> PerformerLM:
    torch.manual_seed(0)
    return PerformerLM(replace(CONFIG, vocab_size=vocab_size)).eval()


@pytest.fixture(scope="session")
def untrained() -> MusicModel:
    return MusicModel(_model(), Remi(), "untrained", "0" * 64)


@pytest.fixture(scope="session")
def untrained_groove() -> MusicModel:
    return MusicModel(_model(794), Groove(), "untrained groove", "2" * 64)


@pytest.fixture(scope="session")
def trained() -> MusicModel:
    """Seconds of training: enough to prefer what follows to what does not."""
    torch.set_num_threads(1)
    model = _model().train()
    pieces = [torch.from_numpy(Remi().encode(compose(seed, 8)).tokens.astype(np.int64)) for seed in range(24)]
    optimizer = torch.optim.Adam(model.parameters(), 4e-3)
    generator = np.random.default_rng(0)
    for step in range(150):
        chosen = [pieces[number] for number in generator.integers(len(pieces), size=8)]
        starts = [int(generator.integers(len(piece) - 97)) for piece in chosen]
        batch = torch.stack([piece[start : start + 97] for piece, start in zip(chosen, starts, strict=True)])
        logits = model(batch[:, :-1], model.draw(step))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 4.0, "training should have taught it something (a guess has 5.9)"
    return MusicModel(model.eval(), Remi(), "trained", "1" * 64)
