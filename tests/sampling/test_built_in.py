"""The models that come with the package: small, whole, of the language they say, and better than knowing nothing."""

from __future__ import annotations

from pathlib import Path

import mido
import pytest
import torch
from torch.nn import functional as F

import musicgen
from musicgen.data.groove_prepare import compose_grooves, gather_grooves
from musicgen.data.prepare import compose_songs, gather
from musicgen.errors import UserError
from musicgen.model.bundle import read_remark
from musicgen.sampling.composer import BUILT_IN

LANGUAGES = {"pop-small": "remi", "groove-small": "groove"}


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
        assert read_remark(BUILT_IN / name, "training")["length"] == 512

    def test_it_writes_what_other_programs_read(self, name: str, language: str, tmp_path: Path) -> None:
        composer = musicgen.load(name)
        assert composer.language.name == language
        piece = composer.generate(bars=4, seed=1)
        piece.save(tmp_path / "piece.mid")
        assert sum(message.type == "note_on" for message in mido.MidiFile(tmp_path / "piece.mid")) > 10
        assert piece.errors == 0

    def test_it_knows_more_than_nothing_of_music_that_it_has_not_seen(self, name: str, language: str) -> None:
        composer = musicgen.load(name)
        if language == "remi":
            pieces = gather(compose_songs(6, 8, 0), 0, None, {}).pieces("train")
        else:
            pieces = gather_grooves(compose_grooves(6, 8, 0), 0, None, {}).pieces("train")
        losses = []
        for piece in pieces:
            tokens = torch.as_tensor(piece[:300].astype("int64"))
            with torch.no_grad():
                logits = composer.model(tokens[None, :-1], composer.model.draw(0))
            losses.append(F.cross_entropy(logits[0], tokens[1:]))
        assert torch.stack(losses).mean() < 0.7 * torch.tensor(float(composer.model.config.vocab_size)).log()
