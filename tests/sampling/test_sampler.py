"""Pieces do not depend on their company, and can be streamed, forked, rewound and taken up again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from musicgen.errors import UserError
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import write_midi
from musicgen.midi.chord import Chord
from musicgen.sampling import (
    MusicModel,
    Piece,
    PieceInProgress,
    Request,
    Session,
    load_bookmark,
    save_bookmark,
)


def pieces_of(music_model: MusicModel, n: int, batch: int, **request: object) -> dict[tuple[int, int], Piece]:
    session = Session(music_model, Request(**request), batch)  # type: ignore[arg-type]
    pieces = [Piece.from_progress(step.piece) for step in session.run(n) if step.is_last]
    return {(piece.seed, piece.variation): piece for piece in pieces}


def finished(session: Session, n: int = 1, keep_states: bool = False) -> list[PieceInProgress]:
    return [step.piece for step in session.run(n, keep_states) if step.is_last]


def test_a_seed_is_the_same_piece_in_any_batch(trained: MusicModel) -> None:
    together = pieces_of(trained, 9, 9, bars=3)
    for batch in (1, 3, 4):
        assert pieces_of(trained, 9, batch, bars=3) == together  # pieces come and go at other times
    assert pieces_of(trained, 1, 16, bars=3, seed=5)[5, 0] == together[5, 0]
    assert len({piece.tokens for piece in together.values()}) == 9


def test_a_prompt_and_its_continuation_are_the_same_in_any_batch(trained: MusicModel) -> None:
    request = {"bars": 4, "prompt": compose(3, 4), "prompt_bars": 2}
    together = pieces_of(trained, 5, 5, **request)
    assert pieces_of(trained, 5, 2, **request) == together
    first = together[0, 0]
    assert first.prompt_bars == 2
    assert len({piece.tokens for piece in together.values()}) == 5
    prompt = Session(trained, Request(**request)).prompt  # type: ignore[arg-type]
    assert prompt is not None
    assert all(piece.tokens[: len(prompt.tokens)] == tuple(prompt.tokens) for piece in together.values())


def test_the_log_likelihood_of_bars_is_that_of_the_parallel_model(trained: MusicModel) -> None:
    piece = trained.generate(bars=4, prompt=compose(3, 4), prompt_bars=2, seed=1)
    tokens = torch.tensor(piece.tokens)[None]
    with torch.no_grad():
        logits = trained.model(tokens[:, :-1], trained.model.draw(0))
    nats = -torch.nn.functional.cross_entropy(logits[0].double(), tokens[0, 1:], reduction="none").numpy()
    bars = np.minimum(np.cumsum(np.array(piece.tokens) == 2)[:-1] - 1, 3)
    assert np.allclose(np.bincount(bars, nats), piece.likelihood, rtol=1e-4)
    assert all(0 <= share <= 1 for share in piece.masked_probability)
    assert piece.masked_probability[:2] == (0, 0)


def test_tokens_and_bars_stream_as_they_come(trained: MusicModel) -> None:
    whole = trained.generate(bars=3, seed=4)
    assert (2, *trained.stream(bars=3, seed=4)) == whole.tokens
    assert len(list(trained.stream_bars(bars=4, prompt=compose(3, 4), prompt_bars=2))) == 2
    bars = list(trained.stream_bars(bars=3, seed=4))
    assert len(bars) == 3
    assert np.array_equal(np.sort(np.concatenate([bar.notes for bar in bars])), np.sort(whole.score.notes))
    assert all((bar.notes["start"] // 1920 == number).all() for number, bar in enumerate(bars))
    stream = trained.stream(tokens=10**9, seed=4)  # nothing is waited for
    assert [next(stream) for _ in range(20)] == list(whole.tokens[1:21])


def test_variations_share_what_comes_before_the_fork_and_no_more(trained: MusicModel) -> None:
    plain = pieces_of(trained, 2, 16, bars=5)
    forked = pieces_of(trained, 2, 3, bars=5, fork_at=3, variations=4)
    assert sorted(forked) == [(seed, variation) for seed in range(2) for variation in range(4)]
    for seed in range(2):
        shared = int(np.flatnonzero(np.array(plain[seed, 0].tokens) == 2)[3])
        assert forked[seed, 0] == plain[seed, 0]
        assert len({forked[seed, v].tokens[: shared + 1] for v in range(4)}) == 1
        assert len({forked[seed, v].tokens for v in range(4)}) == 4
        assert all(forked[seed, v].bars == 5 for v in range(4))


def test_variations_and_pieces_taken_up_again_keep_the_chord_loop(trained: MusicModel, tmp_path: Path) -> None:
    request = {"bars": 6, "chords": "C Am F G", "prompt": compose(3, 4), "prompt_bars": 1}
    forked = pieces_of(trained, 1, 16, fork_at=3, variations=2, **request)
    loop = [Chord.from_chart(name) for name in ("C", "Am", "F", "G", "C")]
    for piece in forked.values():
        marks = {mark.tick // 1920: mark.chord for mark in piece.score.chords if mark.tick >= 1920}
        assert [marks[bar] for bar in range(1, 6)] == loop
    (piece,) = finished(Session(trained, Request(**request)), keep_states=True)  # type: ignore[arg-type]
    save_bookmark(piece.bookmark(3), tmp_path / "state", trained.sha256)
    again = trained.generate(bars=6, chords="C Am F G", from_state=tmp_path / "state")
    assert again.tokens == tuple(piece.tokens)


def test_a_fork_right_after_a_prompt(trained: MusicModel) -> None:
    request = {"bars": 4, "prompt": compose(3, 4), "prompt_bars": 2, "fork_at": 2, "variations": 3}
    assert len({piece.tokens for piece in pieces_of(trained, 1, 16, **request).values()}) == 3


def test_a_piece_taken_up_again_at_any_bar_is_the_unbroken_piece(trained: MusicModel, tmp_path: Path) -> None:
    request = {"bars": 5, "prompt": compose(3, 4), "prompt_bars": 1}
    (piece,) = finished(Session(trained, Request(**request, seed=3)), keep_states=True)  # type: ignore[arg-type]
    assert sorted(piece.states) == [1, 2, 3, 4, 5]
    whole = trained.generate(**request, seed=3)
    for bars in (1, 2, 4):
        path = tmp_path / f"{bars}.state"
        save_bookmark(piece.bookmark(bars), path, trained.sha256)
        again = trained.generate(bars=5, seed=3, from_state=path)
        assert again.tokens == whole.tokens
        assert np.allclose(again.likelihood, whole.likelihood)
        assert again.prompt_bars == 1
        assert trained.generate(bars=5, seed=4, from_state=path).tokens != whole.tokens


def test_a_piece_goes_on_where_it_stopped(trained: MusicModel, tmp_path: Path) -> None:
    (piece,) = finished(Session(trained, Request(bars=2)))
    assert list(piece.states) == [2]  # one is kept, whatever the length
    save_bookmark(piece.bookmark(2), tmp_path / "state", trained.sha256)
    longer = trained.generate(bars=4, from_state=tmp_path / "state")
    assert longer.bars == 4
    assert longer.tokens[: len(piece.tokens) - 1] == tuple(piece.tokens[:-1])  # all but the end


def test_states_of_a_batch_are_each_piece_s_own(trained: MusicModel, tmp_path: Path) -> None:
    pieces = finished(Session(trained, Request(bars=4)), n=3, keep_states=True)
    for piece in pieces:
        save_bookmark(piece.bookmark(2), tmp_path / "state", trained.sha256)
        assert trained.generate(bars=4, seed=piece.seed, from_state=tmp_path / "state").tokens == tuple(piece.tokens)


def test_every_token_has_a_chance_of_its_own(untrained: MusicModel) -> None:
    """Logits of a model that knows nothing are nearly even: one chance for all would be one token again and again."""
    piece = untrained.generate(tokens=200, grammar=False, temperature=1.0, top_p=1.0)
    assert len(set(piece.tokens)) > len(piece.tokens) / 3


def test_free_sampling_counts_its_mistakes_and_the_grammar_makes_none(untrained: MusicModel) -> None:
    free = untrained.generate(tokens=200, grammar=False, temperature=1.0, top_p=1.0)
    assert free.errors > 30
    assert max(free.masked_probability) < 0.01  # but padding nothing is masked
    kept = untrained.generate(tokens=200, temperature=1.0, top_p=1.0)
    assert kept.errors == 0
    assert min(kept.masked_probability) > 0.3


def test_any_midi_file_is_a_prompt_or_says_why_not(trained: MusicModel, tmp_path: Path) -> None:
    from musicgen.midi.score import Score, TimeSignature, Track, make_notes

    one = make_notes([777], [800], [60], 127)
    cases = {
        "one": (Score(480, one), None),
        "high": (Score(480, make_notes([0], [480], [120], 64)), "piano's keyboard"),
        "drums": (Score(480, one, (Track("Kit", 0, True),)), "no notes but drums"),
        "empty": (Score(480, one[:0]), "no notes"),
        "march": (Score(480, one, time_signatures=(TimeSignature(0, 2, 4),)), None),
        "waltz": (Score(480, one, time_signatures=(TimeSignature(0, 3, 4),)), "not in 4/4"),
    }
    for name, (score, reason) in cases.items():
        path = tmp_path / f"{name}.mid"
        write_midi(score, path)
        if reason is None:
            piece = trained.generate(bars=2, prompt=path)
            assert piece.bars == 2
            assert piece.marks == [(1920, "Continuation")]
        else:
            with pytest.raises(UserError, match=reason) as error:
                trained.generate(bars=2, prompt=path)
            assert str(path) in str(error.value)


def test_requests_that_cannot_be_are_sentences(trained: MusicModel, untrained: MusicModel, tmp_path: Path) -> None:
    (piece,) = finished(Session(trained, Request(bars=2)))
    state, text = tmp_path / "a.state", tmp_path / "text.state"
    save_bookmark(piece.bookmark(2), state, trained.sha256)
    text.write_text("not a state")
    for request, words in (
        ({"barss": 3}, "did you mean 'bars'"),
        ({"temperature": -1}, "temperature=-1"),
        ({"prompt_bars": 3}, "prompt_bars=3: give the file too"),
        ({"prompt": compose(0, 4), "prompt_bars": 0}, "prompt_bars=0"),
        ({"prompt": compose(0, 4), "from_state": state}, "prompt= and from_state="),
        ({"variations": 2}, "fork_at=BARS"),
        ({"fork_at": 2, "bars": 4}, "fork_at=2: also give the number of continuations"),
        ({"fork_at": 4, "bars": 4}, "takes less than the 4 bars"),
        ({"fork_at": 1, "prompt": compose(0, 4), "bars": 8}, "takes 4 or more"),
        ({"from_state": state, "bars": 2}, "no longer than the prompt"),
        ({"from_state": text}, "not a state file"),
        ({"from_state": tmp_path / "none"}, "no such state file"),
    ):
        with pytest.raises(UserError) as error:
            trained.generate(**request)
        assert words in str(error.value), request
    with pytest.raises(UserError, match="another model"):
        untrained.generate(from_state=state)
    load_bookmark(state, trained.sha256, trained.language, trained.model)


def test_a_state_whose_contents_do_not_fit_is_refused(trained: MusicModel, tmp_path: Path) -> None:
    (piece,) = finished(Session(trained, Request(bars=3)))
    good, path = piece.bookmark(3), tmp_path / "bad.state"
    layers = good.state.layers
    nan = replace(layers[0], memory=layers[0].memory * float("nan"))
    for bad in (
        replace(good, tokens=(2, 9999)),
        replace(good, tokens=()),
        replace(good, ends=(1, 2, 3)),
        replace(good, likelihood=()),
        replace(good, masked_probability=(0.0,)),
        replace(good, prompt_bars=-3),
        replace(good, state=replace(good.state, layers=(nan, *layers[1:]))),
    ):
        save_bookmark(bad, path, trained.sha256)
        with pytest.raises(UserError, match="damaged") as error:
            trained.generate(bars=5, from_state=path)
        assert "bad.state" in str(error.value)


def test_the_noise_of_a_state_is_kept(trained: MusicModel, tmp_path: Path) -> None:
    (piece,) = finished(Session(trained, Request(bars=4, draw=7)), keep_states=True)
    save_bookmark(piece.bookmark(2), tmp_path / "state", trained.sha256)
    assert trained.generate(bars=4, from_state=tmp_path / "state").tokens == tuple(piece.tokens)
    with pytest.raises(UserError, match="has draw=7"):
        trained.generate(bars=4, from_state=tmp_path / "state", draw=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("bars", 1.5), ("bars", "1"), ("seed", 1.5), ("top_k", 2.5), ("temperature", "1"), ("seed", True)],
)
def test_values_of_the_wrong_kind_are_refused_at_once(trained: MusicModel, key: str, value: object) -> None:
    for call in (trained.stream, trained.stream_bars, lambda **request: trained.generate_many(1, **request)):
        with pytest.raises(UserError, match=f"^{key}="):
            call(**{key: value})
    with pytest.raises(UserError, match="n=0: takes"):
        trained.generate_many(0)
