"""Pieces carry their own wishes: they share batches, change on the way, start from memory, come and go."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from asked import broken, random_request

from musicgen.errors import UserError
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.bars import BarLines
from musicgen.midi.read import parse_midi
from musicgen.model import PerformerLM, State
from musicgen.sampling import (
    MusicModel,
    Piece,
    PieceInProgress,
    Request,
    Sampler,
    SamplingConfig,
    Session,
    Step,
    parse_constraints,
    save_bookmark,
)
from musicgen.sampling.gallery import Gallery, Wanted
from musicgen.sampling.live import bar_by_bar
from musicgen.sampling.music_model import make_request

BARS = 5
Models = dict[str, MusicModel]


@pytest.fixture
def models(untrained: MusicModel, untrained_groove: MusicModel) -> Models:
    return {"remi": untrained, "groove": untrained_groove}


def one(music_model: MusicModel, keep_states: bool = False, **request: Any) -> PieceInProgress:
    (piece,) = Session(music_model, make_request(**request)).pieces(1, keep_states)
    return piece


def finish(music_model: MusicModel, *pieces: PieceInProgress, batch: int = 16) -> None:
    for _ in Sampler(music_model.model, batch).run(pieces):
        pass


def steps_with_change(music_model: MusicModel, piece: PieceInProgress, token: int, **change: Any) -> Iterator[Step]:
    """Write a piece, and change it after so many of its own tokens."""
    for number, step in enumerate(Sampler(music_model.model).run([piece])):
        yield step
        if number == token:
            piece.change(**change)


def test_requests_with_nothing_in_common_share_a_batch(trained: MusicModel) -> None:
    start = one(trained, keep_states=True, bars=4, seed=8)
    finish(trained, start)
    requests: list[dict[str, Any]] = [
        {"bars": 3, "seed": 5},
        {"bars": 2, "key": "Am", "temperature": 0.5, "top_p": 1.0},
        {"tokens": 90, "grammar": False, "draw": 7},
        {"seconds": 4.0, "polyphony": 2, "top_k": 9, "draw": 7, "seed": 1},
        {"bars": 4, "prompt": compose(3, 4), "prompt_bars": 2, "chords": "C Am"},
        {"bars": 5, "from_state": start.bookmark(2), "temperature": 0.0},
        {"bars": 2, "min_p": 0.2, "draw": -3},
    ]
    alone = [trained.generate(**request).tokens for request in requests]
    for batch in (3, 16):
        pieces = [one(trained, **request) for request in requests]
        finish(trained, *pieces, batch=batch)
        assert [tuple(piece.tokens) for piece in pieces] == alone


@pytest.mark.parametrize("name", ["remi", "groove"])
def test_a_change_holds_from_the_next_bar_and_leaves_what_is_written(name: str, models: Models) -> None:
    music_model, generator = models[name], np.random.default_rng(5)
    changed = 0
    usual = {"bars": BARS, "polyphony": 3}  # grooves of many notes take a model that knows nothing long
    while changed < (20 if name == "remi" else 10):
        first, second = (usual | random_request(generator) | {"bars": BARS} for _ in range(2))
        for request in (first, second):
            for other in ("seconds", "tokens", *(["chords"] if name == "groove" else [])):
                request.pop(other, None)
        sampling = SamplingConfig(float(generator.choice([0.3, 0.7, 2.0])))
        try:
            plain = one(music_model, True, **first, seed=changed)
            piece = one(music_model, True, **first, seed=changed)
            constraints = parse_constraints(**second)
            piece.change(constraints)
        except UserError:
            continue
        piece = one(music_model, True, **first, seed=changed)
        finish(music_model, plain)
        before = int(generator.integers(len(plain.tokens) - 3))
        list(steps_with_change(music_model, piece, before, constraints=constraints, sampling=sampling))
        bars = int(np.searchsorted(plain.ends, before + 2)) + 1  # complete when it happens
        if bars >= BARS:
            assert piece.tokens == plain.tokens
            continue
        assert piece.refusal == ""
        kept = plain.ends[bars - 1]
        assert piece.tokens[:kept] == plain.tokens[:kept]
        settings = {"temperature": sampling.temperature, "top_p": 1.0, "seed": changed}
        again = music_model.generate(from_state=plain.bookmark(bars), **second, **settings)
        assert tuple(piece.tokens) == again.tokens
        finished = Piece.from_progress(piece)
        assert finished.errors == 0
        assert finished.bars == BARS
        if name == "remi":
            loop = constraints.chords
            if loop is not None:  # it goes on where it would be had it been there from the beginning
                constraints = replace(constraints, chords=loop[bars % len(loop) :] + loop[: bars % len(loop)])
            assert broken(constraints, finished.score, finished.bars, bars) == [], (first, second)
        else:
            new = finished.score.notes[finished.score.notes["start"] >= BarLines(finished.score).tick(bars)]
            melodic = new["pitch"][new["track"] != 1].tolist()
            assert set(melodic) <= constraints.pitch_set()
        changed += 1


@pytest.mark.parametrize("name", ["remi", "groove"])
@pytest.mark.parametrize("at_bar_line", [True, False])
def test_a_tempo_changes_at_the_bar_line_in_scores_files_and_streams(
    name: str, at_bar_line: bool, models: Models, tmp_path: Path
) -> None:
    music_model = models[name]
    plain = one(music_model, bars=4, tempo=100.5)
    bar = BarLines(plain.rendering.decode([])).tick(1)
    finish(music_model, plain)
    token = plain.ends[1] - 2 - (not at_bar_line)  # the token that completes the second bar, or the one before
    change = {"constraints": parse_constraints(bars=4, tempo=151.25)}
    gallery = Gallery(tmp_path, music_model, {}, lambda _: "piece", Wanted(picture=False))
    piece = one(music_model, True, bars=4, tempo=100.5)
    for step in steps_with_change(music_model, piece, token, **change):
        gallery.add(step)
    gallery.close()
    finished = Piece.from_progress(piece)
    tempos = [(0, 100.5), (2 * bar, 151.25)]
    assert finished.score.tempos.tolist() == tempos
    finished.save(tmp_path / "saved.mid")
    assert (tmp_path / "piece.mid").read_bytes() == (tmp_path / "saved.mid").read_bytes()
    read = parse_midi((tmp_path / "piece.mid").read_bytes()).tempos
    assert np.allclose([list(tempo) for tempo in read.tolist()], tempos, atol=1e-3)
    streamed = one(music_model, bars=4, tempo=100.5)
    bars = list(bar_by_bar(steps_with_change(music_model, streamed, token, **change), 0))
    assert [tempo for part in bars for tempo in part.tempos.tolist()] == tempos
    notes = np.concatenate([part.notes for part in bars])
    assert np.array_equal(np.sort(notes), np.sort(finished.score.notes))
    # The tempos before are saved with the state.
    save_bookmark(piece.bookmark(3), tmp_path / "state", music_model.sha256)
    again = music_model.generate(bars=4, tempo=151.25, from_state=tmp_path / "state")
    assert again.score.tempos.tolist() == tempos
    assert again.tokens == finished.tokens


def test_a_change_that_cannot_be_kept_is_refused_and_the_piece_goes_on(models: Models) -> None:
    for music_model in models.values():
        plain = one(music_model, bars=BARS, polyphony=3)
        finish(music_model, plain)
        piece = one(music_model, bars=BARS, polyphony=3)
        with pytest.raises(UserError, match="tracks="):
            piece.change(parse_constraints(bars=BARS, tracks="kazoo"))
        with pytest.raises(UserError, match="whose tempo changes"):
            piece.change(parse_constraints(seconds=9, tempo=99))
        list(steps_with_change(music_model, piece, plain.ends[2], constraints=parse_constraints(bars=2)))
        assert "no longer than" in piece.refusal
        assert piece.tokens == plain.tokens


def test_a_bookmark_in_memory_is_as_good_as_a_file(trained: MusicModel, untrained: MusicModel, tmp_path: Path) -> None:
    piece = one(trained, True, bars=4, seed=3)
    finish(trained, piece)
    bookmark = piece.bookmark(2)
    save_bookmark(bookmark, tmp_path / "state", trained.sha256)
    for state in (bookmark, tmp_path / "state"):
        assert trained.generate(bars=4, seed=3, from_state=state).tokens == tuple(piece.tokens)
    twin = MusicModel(copy.deepcopy(trained.model), trained.language)
    assert twin.generate(bars=4, seed=3, from_state=bookmark).tokens == tuple(piece.tokens)
    with pytest.raises(UserError, match="another model"):
        untrained.generate(bars=4, from_state=bookmark)
    with pytest.raises(UserError, match="has draw=0"):
        trained.generate(bars=4, from_state=bookmark, draw=1)


@pytest.mark.parametrize("name", ["remi", "groove"])
def test_a_state_that_is_as_long_as_the_piece_is_refused(name: str, models: Models) -> None:
    piece = one(models[name], bars=3)
    finish(models[name], piece)
    for length in ({"bars": 2}, {"bars": 3}, {"tokens": 10}):
        with pytest.raises(UserError, match="no longer than"):
            models[name].generate(from_state=piece.bookmark(3), **length)


def test_pieces_come_and_go_while_others_are_written(trained: MusicModel) -> None:
    alone = {seed: trained.generate(bars=3, seed=seed).tokens for seed in range(4)}
    pieces = [one(trained, bars=3, seed=seed) for seed in range(4)]
    sampler = Sampler(trained.model, batch_size=2)
    for piece in pieces[:3]:
        sampler.add(piece)
    for _ in range(10):
        assert [step.piece for step in sampler.step()] == pieces[:2]
    pieces[0].cancel()
    assert [step.piece for step in sampler.step()] == pieces[1:3]  # its row is free at the next token
    assert len(pieces[0].tokens) == 11
    pieces[3].cancel()
    sampler.add(pieces[3])  # nobody wants it: it never enters
    written = list(sampler.run())
    assert {step.piece for step in written} == set(pieces[1:3])
    assert [tuple(piece.tokens) for piece in pieces[1:3]] == [alone[1], alone[2]]
    assert len(pieces[3].tokens) == 1
    assert sampler.step() == []
    sampler.add(one(trained, bars=3, seed=3))
    assert (2, *(step.token for step in sampler.run())) == alone[3]
    assert sampler.room == 2


def test_pieces_are_taken_when_there_is_room(trained: MusicModel) -> None:
    taken: list[int] = []

    def coming() -> Iterator[PieceInProgress]:
        for seed in range(9):
            taken.append(seed)
            yield one(trained, bars=1, seed=seed)

    steps = Sampler(trained.model, 3).run(coming())
    next(steps)
    assert taken == [0, 1, 2]
    assert sum(step.is_last for step in steps) == 9


def test_a_fork_at_the_very_end_has_no_variations(untrained: MusicModel) -> None:
    whole = one(untrained, tokens=10**9, seed=2)
    steps = Sampler(untrained.model).run([whole])
    while whole.bars < 2:
        next(steps)
    request = {"tokens": whole.ends[1], "fork_at": 2, "variations": 3, "seed": 2}
    (piece,) = untrained.generate_many(1, **request)
    assert piece.bars == 2


@pytest.mark.parametrize("name", ["remi", "groove"])
def test_a_model_of_musical_time_is_told_when_each_token_happens(
    name: str, models: Models, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    language, config = models[name].language, models[name].model.config
    music_model = MusicModel(PerformerLM(replace(config, pe="rope", positions="time", short_conv=4)).eval(), language)
    model = music_model.model
    told: dict[int, float] = {}
    calls = {"step": model.step, "prefill": model.prefill}

    def step(tokens: torch.Tensor, state: State, times: torch.Tensor) -> Any:
        assert times.shape == tokens.shape
        told.update(zip(state.positions, times.tolist(), strict=True))
        return calls["step"](tokens, state, times)

    def prefill(tokens: torch.Tensor, state: State, times: torch.Tensor) -> Any:
        assert times.shape == tokens.shape
        told.update(enumerate(times[0].tolist()))
        return calls["prefill"](tokens, state, times)

    prompt = music_model.generate(bars=2, seed=4, polyphony=3).score
    monkeypatch.setattr(model, "step", step)
    monkeypatch.setattr(model, "prefill", prefill)
    piece = one(music_model, True, bars=4, prompt=prompt, polyphony=9)
    finish(music_model, piece)
    clock = language.clock(piece.tokens).tolist()
    assert [told[place] for place in range(len(piece.tokens) - 1)] == clock[:-1]
    told.clear()
    save_bookmark(piece.bookmark(3), tmp_path / "state", "")
    finish(music_model, one(music_model, bars=4, polyphony=9, from_state=tmp_path / "state"))
    assert [told[place] for place in sorted(told)] == clock[piece.ends[2] - 1 : -1]


def test_a_gallery_of_continuations_is_what_saving_gives(untrained_groove: MusicModel, tmp_path: Path) -> None:
    prompt = untrained_groove.generate(bars=2, seed=4, polyphony=3).score
    session = Session(untrained_groove, Request(bars=4, prompt=prompt, polyphony=9))
    wanted = Wanted(picture=False, pieces="pieces", continuations="continuations")
    gallery = Gallery(tmp_path, untrained_groove, {}, lambda piece: f"style/{piece.seed}", wanted)
    for step in session.run(3):
        gallery.add(step)
        if step.is_last:
            Piece.from_progress(step.piece).save(tmp_path / f"{step.piece.seed}.mid")
    assert gallery.complete == ["style/0", "style/1", "style/2"]
    for seed in range(3):
        whole = (tmp_path / "pieces" / "style" / f"{seed}.mid").read_bytes()
        assert whole == (tmp_path / f"{seed}.mid").read_bytes()
        given, new = parse_midi(whole), parse_midi((tmp_path / f"continuations/style/{seed}.mid").read_bytes())
        later = given.notes[given.notes["start"] >= 2 * 1920]
        assert np.array_equal(later["start"] - 2 * 1920, new.notes["start"])
    assert 'href="pieces/style/0.mid"' in gallery.write_page().read_text("utf-8")


def test_a_gallery_leaves_nothing_of_a_piece_that_is_not_complete(untrained: MusicModel, tmp_path: Path) -> None:
    session = Session(untrained, Request(bars=4))
    gallery = Gallery(tmp_path, untrained, {}, lambda piece: f"style/{piece.seed}", Wanted(pieces="pieces"))
    steps = session.run(2)
    for _ in range(40):
        gallery.add(next(steps))
    gallery.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", ["generate", "stream", "stream_bars"])
def test_what_gives_one_piece_takes_no_variations(write: str, untrained: MusicModel) -> None:
    with pytest.raises(UserError, match=r"^variations=2: is for generate_many"):
        getattr(untrained, write)(bars=3, fork_at=1, variations=2)


@pytest.mark.parametrize("damage", [{"tokens": ()}, {"tokens": (99_999,)}, {"state": None}, {"prompt_bars": 9}])
def test_a_damaged_bookmark_is_one_sentence(damage: dict[str, Any], untrained: MusicModel) -> None:
    piece = one(untrained, True, bars=3)
    finish(untrained, piece)
    with pytest.raises(UserError, match=r"^from_state: a damaged bookmark"):
        untrained.generate(bars=4, from_state=replace(piece.bookmark(2), **damage))
