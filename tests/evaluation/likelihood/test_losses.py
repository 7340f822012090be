from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch
from likelihood_oracle import close, constant_model, grooves, slow_losses, small_model, songs

from musicgen.data.prepare import compose_songs, gather
from musicgen.errors import UserError
from musicgen.evaluation.likelihood.losses import Passage, chunks, losses, split_pieces, whole
from musicgen.languages import Groove, Remi
from musicgen.model.performer import PREFILL_CHUNK

SHAPES = [
    {"pe": "sine"},
    {"pe": "conv", "kernel_size": 8, "gated": False},
    {"pe": "ape"},
    {"pe": "none", "decay": "fixed", "feature_map": "relu"},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["pe"])
def test_losses_are_those_of_one_step_for_each_token(shape: dict[str, object]) -> None:
    model = small_model(Remi(), **shape)
    pieces = [songs(1)[0][:330], songs(2)[1][:40], songs(2)[0][:2]]
    assert len(pieces[0]) > PREFILL_CHUNK
    draw = model.draw(5)
    for passage, found in zip(map(whole, pieces), losses(model, [whole(p) for p in pieces], draw, 2), strict=True):
        assert close(found, slow_losses(model, passage.inputs.tolist(), passage.targets.tolist(), draw))


def test_passages_are_read_each_by_itself_however_many_at_once() -> None:
    model, draw = small_model(Groove()), small_model(Groove()).draw(1)
    passages = [whole(piece[:size]) for piece, size in zip(grooves(3), (600, 2, 300), strict=True)]
    alone = [losses(model, [passage], draw, 1)[0] for passage in passages]
    for batch in (1, 2, 3, 50):
        together = losses(model, passages, draw, batch)
        assert all(close(found, expected, 1e-4) for found, expected in zip(together, alone, strict=True))


def test_a_passage_may_begin_with_what_is_not_in_the_piece() -> None:
    model, piece = small_model(Groove()), grooves(1)[0][:20]
    passage = Passage(np.append(np.uint16(Groove.first), piece[5:-1]), piece[5:])
    draw = model.draw(0)
    assert close(losses(model, [passage], draw, 1)[0], slow_losses(model, passage.inputs, passage.targets, draw))


def test_a_constant_model_loses_exactly_what_its_constants_say() -> None:
    piece = songs(1)[0]
    logits = torch.randn(len(Remi.vocabulary))
    model = constant_model(Remi(), logits)
    expected = -torch.log_softmax(logits, 0).numpy()[piece[1:]]
    np.testing.assert_allclose(losses(model, [whole(piece)], model.draw(0), 1)[0], expected, rtol=1e-6)


def test_a_song_of_any_length_is_read_in_chunks_of_bounded_size() -> None:
    model = constant_model(Remi(), torch.zeros(len(Remi.vocabulary)))
    piece = np.tile(songs(1)[0], 40)
    assert len(piece) > 10_000
    done, sizes = mock.Mock(), []
    prefill = model.prefill
    with mock.patch.object(
        model, "prefill", lambda tokens, *rest: (sizes.append(tokens.shape), prefill(tokens, *rest))[1]
    ):
        found = losses(model, [whole(piece), whole(piece[:300])], model.draw(0), 2, done)
    assert max(length for _, length in sizes) == PREFILL_CHUNK
    assert sizes[2][0] == 1  # the short one is not read on
    assert done.call_count == len(sizes) == chunks([whole(piece), whole(piece[:300])], 2)
    np.testing.assert_allclose(found[0], np.log(361), rtol=1e-6)
    assert len(found[0]) == len(piece) - 1


def test_a_split_may_be_all_songs_or_the_first_of_them() -> None:
    corpus = gather(Remi(), compose_songs(Remi(), 12, 2, 0), 0, None, {})
    assert len(split_pieces(corpus, "all", None)) == 12
    assert [len(piece) for piece in split_pieces(corpus, "train", 2)] == [len(p) for p in corpus.pieces("train")[:2]]
    assert len(split_pieces(corpus, "all", 11)) == 11
    with pytest.raises(UserError, match="split=ival"):
        split_pieces(corpus, "ival", None)
