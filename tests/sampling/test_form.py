"""Sections that return are the same music, end in their own way, and break no rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked import broken
from pieces import BOTH, random_piece

from musicgen.errors import UserError
from musicgen.languages import Remi
from musicgen.languages.constraints import parse_constraints
from musicgen.midi import Score
from musicgen.midi.bars import BarLines
from musicgen.midi.read import parse_midi
from musicgen.sampling import MusicModel, Piece, Session
from musicgen.sampling.form import repeat
from musicgen.sampling.gallery import Gallery, Wanted
from musicgen.sampling.music_model import make_request


def notes_of(score: Score, first: int, last: int, shift: int = 0) -> set[tuple[int, int]]:
    """When notes begin in some bars, counted from their beginning, and their pitches."""
    lines = BarLines(score)
    start, end = lines.tick(first), lines.tick(last)
    inside = score.notes[(score.notes["start"] >= start) & (score.notes["start"] < end)]
    return {(int(note["start"]) - start + shift, int(note["pitch"])) for note in inside}


@BOTH
def test_bars_again_leave_what_was_there_and_are_valid(remi: Remi) -> None:
    repeated, notes = 0, 0
    for seed in range(12):
        piece = random_piece(seed, 200, remi).tolist()[:-1]  # up to its last bar line
        bars = int(remi.complete_bars(piece)[-1])
        first, size = seed % max(bars - 1, 1), 1 + seed % 3
        if first + size > bars:
            continue
        tokens = repeat(remi, piece, first, size, parse_constraints(bars=1))
        assert tokens[: len(piece)] == piece
        assert not remi.grammar.errors(tokens, complete=False)
        new = int(remi.complete_bars(tokens)[-1]) - bars
        assert 0 <= new <= size
        score = remi.decode(tokens)
        original = notes_of(score, first, first + new)
        assert notes_of(score, bars, bars + new) <= original
        repeated += new
        notes += len(original)
    assert repeated > 5
    assert notes > 50


def make(model: MusicModel, batch: int, n: int = 3, **request: Any) -> list[Piece]:
    session = Session(model, make_request(**request), batch)
    return sorted((session.piece(step) for step in session.run(n) if step.is_last), key=lambda piece: piece.seed)


def test_sections_that_return_are_the_same_music_with_another_end(trained: MusicModel) -> None:
    request: dict[str, Any] = {"form": "aaba", "section_bars": 4, "polyphony": 3, "key": "C"}
    pieces = make(trained, 3, **request)
    assert make(trained, 1, **request) == pieces  # a seed is the same piece in any batch
    for piece in pieces:
        assert piece.errors == 0
        assert piece.bars == 16
        assert [section.letter for section in piece.sections] == list("AABA")
        assert [section.bar for section in piece.sections] == [0, 4, 8, 12]
        assert broken(parse_constraints(bars=16, key="C", polyphony=3), piece.score, 16) == []
        repeated = [section.repeated for section in piece.sections]
        assert repeated[0] == repeated[2] == 0
        for section in (piece.sections[1], piece.sections[3]):
            assert section.repeated <= 3
            again = notes_of(piece.score, section.bar, section.bar + section.repeated)
            assert again <= notes_of(piece.score, 0, section.repeated)
        assert piece.record()["sections"][1] == {"bar": 4, "letter": "A", "repeated": repeated[1]}
    assert sum(section.repeated for piece in pieces for section in piece.sections) >= 15
    ends = {
        tuple(sorted(notes_of(piece.score, 7, 8))) == tuple(sorted(notes_of(piece.score, 3, 4))) for piece in pieces
    }
    assert False in ends


def test_the_likelihood_of_repeated_bars_is_that_of_the_model(trained: MusicModel) -> None:
    (piece,) = make(trained, 1, 1, form="AA", section_bars=4, polyphony=3)
    nats, _ = trained.read(piece.tokens)
    bars = np.minimum(trained.language.complete_bars(piece.tokens)[:-1], 7)
    assert np.allclose(np.bincount(bars, nats), piece.likelihood, rtol=1e-3)


def test_a_form_streams_and_its_file_and_record_name_the_sections(trained: MusicModel, tmp_path: Path) -> None:
    request: dict[str, Any] = {"form": "ABA", "section_bars": 2, "polyphony": 2, "seed": 4}
    whole = trained.generate(**request)
    assert (trained.language.first, *trained.stream(**request)) == whole.tokens
    assert len(list(trained.stream_bars(**request))) == 6
    session = Session(trained, make_request(**request))
    gallery = Gallery(tmp_path, trained, {}, session.name(1), Wanted(picture=True))
    for step in session.run():
        gallery.add(step)
    score = parse_midi((tmp_path / "piece_0.mid").read_bytes())
    marks = [(tick, text) for tick, text in score.markers if text.startswith("Section")]
    assert marks == whole.marks
    assert [text for _, text in marks] == ["Section A", "Section B", "Section A"]
    assert [item["letter"] for item in json.loads((tmp_path / "piece_0.json").read_text())["sections"]] == list("ABA")
    page = gallery.write_page().read_text()
    assert "ABA, 1 bars repeated" in page or "ABA, 0 bars repeated" in page


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"form": "A1"}, "form=A1: takes a letter for each section"),
        ({"form": ""}, "form=: takes a letter"),
        ({"form": "AABA", "bars": 5}, "bars=5 and form=AABA: this form has 32 bars"),
        ({"form": "AB", "seconds": 5.0}, "seconds= and form=AB"),
        ({"form": "AB", "fork_at": 2, "variations": 2}, "fork_at= and form=AB"),
        ({"form": "AB", "section_bars": 1}, "section_bars=1"),
        ({"form": "AB", "section_bars": 4, "chords": "C F G"}, "3 chords do not fit into sections of 4 bars"),
        ({"form": "AB", "grammar": False}, "form=AB and grammar=false"),
    ],
)
def test_a_form_that_cannot_be_is_a_sentence(request_: dict[str, Any], words: str, untrained: MusicModel) -> None:
    with pytest.raises(UserError) as error:
        Session(untrained, make_request(**request_))
    assert words in str(error.value)


def test_grooves_have_no_forms_yet(untrained_groove: MusicModel) -> None:
    with pytest.raises(UserError, match="models of grooves have no forms yet"):
        untrained_groove.generate(form="AABA")
