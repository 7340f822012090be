"""The models that come with the package: small, whole, of the language they say, and better than knowing nothing."""

from __future__ import annotations

from pathlib import Path

import mido
import pytest
import torch
from torch.nn import functional as F

import musicgen
from musicgen.data.prepare import compose_songs, gather
from musicgen.errors import UserError
from musicgen.model.bundle import read_bundle
from musicgen.sampling.music_model import BUILT_IN

LANGUAGES = {"pop-small": "remi-extended", "groove-small": "groove-extended"}


def test_there_are_two_and_a_wrong_name_is_told_of_them() -> None:
    assert {folder.name for folder in BUILT_IN.iterdir()} == set(LANGUAGES)
    with pytest.raises(UserError, match="built in: groove-small, pop-small"):
        musicgen.load("pop-large")


@pytest.mark.parametrize(("name", "language"), LANGUAGES.items())
class TestModel:
    def test_it_is_a_few_megabytes_and_says_what_it_is(self, name: str, language: str) -> None:
        files = {path.name: path.stat().st_size for path in (BUILT_IN / name).iterdir()}
        assert sum(files.values()) < 9_000_000
        card = (BUILT_IN / name / "MODEL_CARD.md").read_text("utf-8")
        for word in ("licence", "validation loss", "experiment=", "Intended use", "Limits", language):
            assert word in card, word
        assert read_bundle(BUILT_IN / name).training["length"] >= 1024

    def test_it_writes_what_other_programs_read(self, name: str, language: str, tmp_path: Path) -> None:
        music_model = musicgen.load(name)
        assert music_model.language.name == language
        piece = music_model.generate(bars=4, seed=1)
        piece.save(tmp_path / "piece.mid")
        assert sum(message.type == "note_on" for message in mido.MidiFile(tmp_path / "piece.mid")) > 10
        assert piece.errors == 0

    def test_it_knows_more_than_nothing_of_music_that_it_has_not_seen(self, name: str, language: str) -> None:  # noqa: ARG002
        music_model = musicgen.load(name)
        tongue = music_model.language
        losses = []
        for piece in gather(tongue, compose_songs(tongue, 6, 8, 0), 0, None, {}).pieces("train"):
            tokens = torch.as_tensor(piece[:300].astype("int64"))
            times = torch.from_numpy(tongue.clock(piece[: len(tokens) - 1]))[None]
            with torch.no_grad():
                logits = music_model.model(tokens[None, :-1], music_model.model.draw(0), times=times)
            losses.append(F.cross_entropy(logits[0], tokens[1:]))
        assert torch.stack(losses).mean() < 0.7 * torch.tensor(float(music_model.model.config.vocab_size)).log()
