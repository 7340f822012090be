"""An encoding is one class: a new one needs no change anywhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

import musicgen
from musicgen.cli.describe import table
from musicgen.errors import UserError
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.model.positions import PositionalEncoding, encoding_class
from musicgen.model.positions.base import REGISTRY, Encoder, StepEncoder, Stream
from musicgen.spe import Draw


@pytest.fixture
def _toy() -> Iterator[None]:
    """`pe=toy`: keys that grow with position."""

    class Toy(PositionalEncoding):
        name = "toy"

        @classmethod
        def check(cls, config: PerformerConfig) -> None:
            if config.num_heads > 2:
                raise UserError("toy has at most 2 heads")

        @classmethod
        def describe(cls, config: PerformerConfig) -> str:
            return f"{config.num_heads} toys"

        def encoder(self, draw: Draw, positions: Tensor, like: Tensor) -> Encoder:  # noqa: ARG002
            scale = (1 + positions.to(like) / 50).unsqueeze(-1).unsqueeze(-1)
            return lambda layer, queries, keys: (queries, keys * scale)  # noqa: ARG005

        def stream(self, draw: Draw, like: Tensor) -> Stream:  # noqa: ARG002
            def at(positions: Sequence[float]) -> StepEncoder:
                scale = torch.stack([torch.ones(len(positions)), 1 + torch.tensor(positions).to(like) / 50], 1)
                return lambda layer, pairs: pairs * scale[:, :, None, None]  # noqa: ARG005

            return at

    yield
    del REGISTRY["toy"]


@pytest.mark.usefixtures("_toy")
def test_a_new_class_is_a_new_encoding_that_trains_and_streams() -> None:
    sizes = {"vocab_size": 11, "num_layers": 2, "d_model": 8, "d_ff": 12, "num_features": 6, "weight_std": 0.5}
    with pytest.raises(UserError, match="at most 2 heads"):
        PerformerConfig(pe="toy", num_heads=4, **sizes)  # type: ignore[arg-type]
    config = PerformerConfig(pe="toy", num_heads=2, **sizes)  # type: ignore[arg-type]
    assert "positions: 2 toys" in table(config)
    model = PerformerLM(config).eval()
    tokens, draw = torch.randint(11, (2, 30)), model.draw(0)
    logits = model(tokens, draw)
    logits.sum().backward()
    without = PerformerLM(PerformerConfig(pe="none", num_heads=2, **sizes)).eval()  # type: ignore[arg-type]
    without.load_state_dict(model.state_dict())
    assert not torch.allclose(logits, without(tokens, draw), atol=1e-3)
    state = model.init_state(draw, 2)
    for position in range(30):
        step, state = model.step(tokens[:, position], state)
        torch.testing.assert_close(step, logits[:, position].detach(), rtol=1e-3, atol=1e-4)


def test_no_code_outside_an_encoding_asks_which_one_it_is() -> None:
    package = Path(musicgen.__file__).parent
    asking = re.compile(r"""\.pe (==|!=|in|not in) |\[[\w.]*\.pe\]""")
    files = [path for path in package.rglob("*.py") if "positions" not in path.parts]
    assert not [path for path in files if asking.search(path.read_text("utf-8"))]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="pe must be one of ape, conv, none, rope, sine, not 'alibi'"):
        encoding_class("alibi")
    with pytest.raises(UserError, match="pe must be one of"):
        PerformerConfig(vocab_size=3, pe=["sine"])  # type: ignore[arg-type]
