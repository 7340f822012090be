"""How fills are judged: by oracles that loop, and the whole command on a small model."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from gapped import EXTENDED

from musicgen.cli.main import main
from musicgen.data.prepare import compose_songs, gather
from musicgen.evaluation.infill.excerpts import make_excerpt, note_f1, pitch_class_similarity, trigram_losses
from musicgen.languages import Groove
from musicgen.languages.registry import save_tokenizer
from musicgen.model import PerformerConfig, PerformerLM

CORPUS = gather(Groove(), compose_songs(Groove(), 12, 8, 0), 0, None, {"source": "synthetic_grooves"})
PIECES = [CORPUS.tokens(song) for song in CORPUS.songs()]
EXCERPTS = [item for number, piece in enumerate(PIECES) if (item := make_excerpt(EXTENDED, number, piece, 1, 2))]


def test_an_excerpt_knows_its_gap_and_what_follows() -> None:
    item = EXCERPTS[0]
    assert EXTENDED.grammar.errors(item.gapped) == []
    beats = EXTENDED.clock(item.plain)
    assert np.array_equal(item.inside(item.plain), (beats >= 8) & (beats < 12))
    assert np.array_equal(item.after(item.plain), (beats >= 12) & (beats < 28))
    fill = int((item.gapped == EXTENDED.infill.fill).argmax())
    assert item.inside(item.gapped, fill).sum() >= len(item.notes(item.score))
    assert not item.inside(item.gapped, fill)[: fill + 1].any()
    assert make_excerpt(EXTENDED, 0, PIECES[0], 5, 2) is None


def test_the_true_bars_in_place_of_the_gap_are_the_piece() -> None:
    for item in EXCERPTS:
        assert np.array_equal(item.with_bars(item.score), item.plain)
        empty = item.score.replace(notes=item.score.notes[:0])
        silent = item.with_bars(empty)
        assert item.notes(EXTENDED.decode(silent)) == set()
        assert note_f1(item.notes(item.score), item.notes(item.score)) == 1


def test_trigrams_are_probabilities_counted_around_the_gap() -> None:
    item = EXCERPTS[0]
    losses = trigram_losses(item)
    assert len(losses) == item.inside(item.plain).sum()
    assert (losses > 0).all()
    assert losses.max() <= math.log(len(EXTENDED.vocabulary) / 0.05) + 1e-9
    assert losses.mean() < math.log(len(EXTENDED.vocabulary))


def test_likeness_of_notes() -> None:
    one, other = {(0, 60, 0), (0, 64, 4), (1, 36, 0)}, {(0, 60, 0), (0, 76, 4)}
    assert note_f1(one, other) == pytest.approx(2 / 5)
    assert note_f1(set(), set()) == 0
    assert pitch_class_similarity(one, other, [False, True]) == pytest.approx(1)  # an octave does not count
    assert math.isnan(pitch_class_similarity(one, {(1, 36, 0)}, [False, True]))


def test_the_command_measures_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    size = {"num_layers": 1, "num_heads": 2, "d_model": 32, "d_ff": 32, "num_features": 16}
    (tmp_path / "corpus").mkdir()
    CORPUS.write(tmp_path / "corpus")
    for language in (EXTENDED, Groove()):
        model = PerformerLM(PerformerConfig(len(language.vocabulary), pe="rope", positions="time", **size))  # type: ignore[arg-type]
        model.eval().save_bundle(tmp_path / language.name)
        save_tokenizer(language, tmp_path / language.name)
    asked = [f"data={tmp_path}/corpus", "split=train", "songs=2", "gap=1", "context=2", "draws=1", "rank=3"]
    assert main(["evaluate", "infill", f"model={tmp_path}/{EXTENDED.name}", *asked, f"out={tmp_path}/out"]) == 0
    with (tmp_path / "out" / "loss.csv").open() as file:
        rows = {row["given"]: float(row["loss"]) for row in csv.DictReader(file)}
    guess = math.log(len(EXTENDED.vocabulary))
    assert rows["both sides"] == pytest.approx(guess, abs=0.5)
    assert rows["left side"] == pytest.approx(guess, abs=0.5)
    with (tmp_path / "out" / "similarity.csv").open() as file:
        likeness = {row["in the gap"]: float(row["F1"]) for row in csv.DictReader(file)}
    assert likeness["true bars"] == 1
    assert 0 <= likeness["fill"] < 1
    with (tmp_path / "out" / "seam.csv").open() as file:
        seams = {row["in the gap"]: float(row["loss"]) for row in csv.DictReader(file)}
    assert seams["best of 3 fills"] < seams["fill"] + 0.01  # which is one of the three
    assert (tmp_path / "out" / "infill.png").is_file()
    capsys.readouterr()
    assert main(["evaluate", "infill", f"model={tmp_path}/groove", *asked, f"out={tmp_path}/no"]) == 2
    assert "was trained without gaps" in capsys.readouterr().err
