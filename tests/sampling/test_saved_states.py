"""A state on disk continues a piece, whatever the model is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from musicgen.languages import Groove
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.sampling import MusicModel, Request, Session, load_bookmark, save_bookmark

SMALL = {"num_layers": 2, "num_heads": 2, "d_model": 16, "d_ff": 32, "num_features": 8, "num_realizations": 8}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attention": "delta"},
        {"feature_map": "relu"},
        {"pe": "rope"},
        {"pe": "none", "decay": "learnt", "decay_positions": "time"},
        {"short_conv": 3, "norm": "pre", "gated_ff": True, "head_norm": True, "output_gate": True},
        {"noise": "orthogonal", "shared": False},
    ],
    ids=str,
)
def test_a_piece_goes_on_from_its_saved_state(options: dict[str, object], tmp_path: Path) -> None:
    language = Groove()
    model = PerformerLM(PerformerConfig(len(language.vocabulary), **{**SMALL, **options}))  # type: ignore[arg-type]
    writer = MusicModel(model.eval(), language, sha256="0")
    (piece,) = [step.piece for step in Session(writer, Request(bars=2)).run(1, keep_states=True) if step.is_last]
    save_bookmark(piece.bookmark(1), tmp_path / "x.state", "0")
    loaded = load_bookmark(tmp_path / "x.state", "0", language, model)
    again = writer.generate(bars=2, from_state=loaded)
    assert list(again.tokens) == list(piece.tokens)
    assert list(writer.generate(bars=2, from_state=tmp_path / "x.state").tokens) == list(piece.tokens)
