"""Bars are written anew, and nothing else of a piece changes: neither its tokens nor the notes of its file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gapped import EXTENDED

from musicgen.cli.main import main
from musicgen.errors import UserError
from musicgen.languages.groove.quantise import TRIO, choose_trio
from musicgen.languages.groove.synthetic import compose_groove
from musicgen.languages.infill import Gap, parse_gaps
from musicgen.languages.registry import save_tokenizer
from musicgen.midi import read_midi, write_midi
from musicgen.midi.key import Key
from musicgen.midi.score import Notes, Score, Track
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.sampling import MusicModel

BARS = 8


@pytest.fixture(scope="module")
def model() -> MusicModel:
    torch.manual_seed(0)
    config = PerformerConfig(
        len(EXTENDED.vocabulary), num_layers=1, num_heads=2, d_model=32, d_ff=32, num_features=16, pe="rope",
        positions="time",
    )  # fmt: skip
    return MusicModel(PerformerLM(config).eval(), EXTENDED, "untrained", "3" * 64)


def loosely_played(seed: int) -> Score:
    """A band with a fourth instrument, off the grid, with velocities."""
    score = compose_groove(seed, seed, BARS)
    random, notes = np.random.default_rng(seed), score.notes.copy()
    notes["velocity"] = random.integers(30, 120, len(notes))
    shift = random.integers(-8, 9, len(notes))
    shift[notes["start"] < 20] = 0
    notes["start"] += shift
    notes["end"] += shift
    return score.replace(notes=notes, tracks=tuple(Track(t.name, t.program, t.is_drum, t.role) for t in score.tracks))


def outside(score: Score, gap: Gap) -> Notes:
    """Notes that do not begin in a gap, by what they are and where they begin; on the tracks of all parts."""
    tracks = np.concatenate([[*own] for own, part in zip(choose_trio(score), TRIO, strict=True)
                             if gap.part in ("", part.name.lower())])  # fmt: skip
    place = np.rint(score.notes["start"] * 12 / score.ticks_per_beat)
    inside = (place >= 48 * gap.first) & (place < 48 * gap.end) & np.isin(score.notes["track"], tracks)
    return score.notes[~inside]


@pytest.mark.parametrize("seed", range(4))
def test_random_fills_keep_every_rule_and_change_nothing_outside(model: MusicModel, seed: int) -> None:
    random = np.random.default_rng(seed)
    original = loosely_played(seed)
    first, size = int(random.integers(BARS - 3)), int(random.integers(1, 4))
    gap = Gap(first, size, ["", "", "drums", "bass"][seed % 4])
    wishes = {"key": "C", "pitches": "40-76", "polyphony": 5} if seed % 2 else {}
    piece = next(model.fill_many(1, original, str(gap), seed=seed, temperature=1.3, **wishes))
    assert EXTENDED.grammar.errors(piece.tokens) == []
    assert (piece.errors, piece.bars, len(piece.sizes), sum(piece.sizes)) == (0, BARS, BARS, len(piece.tokens))
    assert np.isfinite(piece.likelihood).all()
    before, after = outside(original, gap), outside(piece.score, gap)
    same = ["start", "pitch", "velocity", "track"]
    assert np.array_equal(before[same], after[same])
    late = before["start"] * 12 / original.ticks_per_beat >= 48 * gap.end - 0.5
    assert np.array_equal(before[late], after[late])  # what follows, note by note with its end
    new = piece.score.notes[~np.isin(piece.score.notes[same], after[same])]
    assert len(new)
    if gap.part:
        assert set(new["track"].tolist()) <= set(choose_trio(original)[EXTENDED.infill.parts.index(gap.part)])
    if wishes:
        pitched = new[~piece.score.is_drum(new)]
        key = Key.parse("C")
        assert key is not None
        assert set((pitched["pitch"] % 12).tolist()) <= key.pitch_classes
        assert ((pitched["pitch"] >= 40) & (pitched["pitch"] <= 76)).all()
    notes = piece.score.notes
    notes = notes[np.lexsort((notes["start"], notes["pitch"], notes["track"]))]
    meets = (np.diff(notes["pitch"]) == 0) & (np.diff(notes["track"]) == 0)
    ours = np.isin(notes[same], new[same])
    assert (notes["end"][:-1] <= notes["start"][1:])[meets & (ours[1:] | ours[:-1])].all()


def test_a_seed_gives_the_same_fill_alone_and_among_others(model: MusicModel) -> None:
    original = compose_groove(3, 1, BARS)
    many = {piece.seed: piece for piece in model.fill_many(3, original, "3,drums:6", seed=5, polyphony=2)}
    assert len({piece.tokens for piece in many.values()}) == 3
    assert model.fill(original, "3,drums:6", seed=7, polyphony=2) == many[7]
    assert many[7].fills == ("3", "drums:6")


def test_the_context_in_tokens_is_what_it_was(model: MusicModel) -> None:
    original = compose_groove(4, 2, BARS)
    piece = model.fill(original, (4, 5), seed=1, polyphony=2)
    gaps = [Gap(3, 2)]
    ours, theirs = (
        EXTENDED.infill.take_out(np.array(tokens), gaps).tolist()
        for tokens in (EXTENDED.encode(original).tokens, piece.tokens)
    )
    fill = EXTENDED.infill.fill
    assert ours[: ours.index(fill)] == theirs[: theirs.index(fill)]


def test_ranked_fills_come_in_the_order_of_what_follows(model: MusicModel) -> None:
    original = compose_groove(3, 1, BARS)
    best = list(model.fill_many(2, original, (3, 3), rank=4, polyphony=1))
    following = [piece.following or 0.0 for piece in best]
    assert following == sorted(following, reverse=True)
    everything = [piece.following for piece in model.fill_many(4, original, (3, 3), polyphony=1)]
    assert following == sorted((value for value in everything if value is not None), reverse=True)[:2]
    nats, _ = model.read(best[0].tokens)
    complete = EXTENDED.complete_bars(best[0].tokens)
    assert best[0].following == pytest.approx(nats[complete[:-1] >= 3].sum())


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"bars": "0-2"}, "counted from 1"),
        ({"bars": "5-3"}, "the lower number comes first"),
        ({"bars": "x"}, "not bars; write them as 9-12"),
        ({"bars": "2-4,4-5"}, "overlap"),
        ({"bars": "1-8"}, "the whole piece"),
        ({"bars": "8-9"}, "the piece has 8 bars"),
        ({"bars": "1-17"}, "at most 16 bars"),
        ({"bars": "flute:1-2"}, "this model plays bass, drums, other"),
        ({"bars": "3-4", "tracks": "bass", "tempo": 90}, "tempo"),
        ({"bars": "drums:3-4", "tracks": "bass"}, "no note is left"),
        ({"bars": "3-4", "chords": "C"}, "no chords"),
        ({"bars": "3-4", "seconds": 3}, "seconds= and fill="),
        ({"bars": "3-4", "grammar": False}, "grammar=false and fill="),
        ({"bars": "3-4", "fork_at": 2}, "fork_at= and fill="),
    ],
)
def test_what_cannot_be_filled_is_refused(model: MusicModel, request_: dict[str, object], reason: str) -> None:
    values: dict[str, object] = dict(request_)
    with pytest.raises(UserError, match=reason):
        model.fill(compose_groove(3, 1, BARS), values.pop("bars"), **values)  # type: ignore[arg-type]


def test_a_model_without_gaps_says_so(untrained_groove: MusicModel) -> None:
    with pytest.raises(UserError, match=r"fill=3-4: the model untrained groove was trained without gaps"):
        untrained_groove.fill(compose_groove(3, 1, BARS), (3, 4))
    with pytest.raises(UserError, match=r"rank=2: orders fills"):
        untrained_groove.generate(rank=2, bars=2)


def test_gaps_are_read_as_they_are_written() -> None:
    assert parse_gaps("drums:17-18, 9-12,3", ("drums",)) == (Gap(2, 1), Gap(8, 4), Gap(16, 2, "drums"))
    assert ",".join(map(str, parse_gaps("drums:17-18, 9-12,3", ("drums",)))) == "3,9-12,drums:17-18"


def test_the_command_fills_a_file(model: MusicModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model.model.save_bundle(tmp_path / "model")
    save_tokenizer(EXTENDED, tmp_path / "model")
    write_midi(compose_groove(3, 1, BARS), tmp_path / "song.mid")
    out = tmp_path / "out"
    asked = [
        f"model={tmp_path}/model",
        f"prompt={tmp_path}/song.mid",
        "fill=3-4",
        f"out={out}",
        "threads=1",
        "polyphony=1",
    ]
    assert main(["generate", *asked, "n=2", "rank=3", "picture=false"]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "index.html", "piece_0.json", "piece_0.mid", "piece_1.json", "piece_1.mid",
    ]  # fmt: skip
    records = [json.loads((out / f"piece_{number}.json").read_text()) for number in range(2)]
    assert records[0]["following"] >= records[1]["following"]
    assert records[0]["fills"] == ["3-4"]
    song, filled = read_midi(tmp_path / "song.mid"), read_midi(out / "piece_0.mid")
    assert np.array_equal(outside(song, Gap(2, 2))["start"], outside(filled, Gap(2, 2))["start"])
    assert main(["generate", *asked, "n=4", "rank=3", "overwrite=true"]) == 2
    assert "rank=3: takes 4 or more" in capsys.readouterr().err
    assert main(["generate", *asked, "states=last", "overwrite=true"]) == 2
    assert "states=last and fill=" in capsys.readouterr().err
