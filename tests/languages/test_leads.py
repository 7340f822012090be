"""The lead of a fill: bars before a gap that go with it, and are given."""

from __future__ import annotations

import numpy as np
import pytest
from gapped import EXTENDED as GROOVES
from gapped import bars_of, piano_gaps, random_gaps
from pieces import EXTENDED as PIANO
from pieces import random_piece
from trios import random_groove

from musicgen.languages import Language, Tokens
from musicgen.languages.constraints import Constraints
from musicgen.languages.groove.synthetic import compose_groove
from musicgen.languages.infill import LEADS, LONGEST_GAP, MOST_LEAD, Gap
from musicgen.languages.remi.synthetic import compose


def example(language: Language, seed: int) -> tuple[Tokens, tuple[Gap, ...]]:
    """A random piece and gaps in it."""
    if language is GROOVES:
        piece = random_groove(seed, 300)
        return piece, random_gaps(seed, bars_of(piece))[-(seed % 3) - 1 :]
    piece = random_piece(seed, 300, PIANO)
    gaps = piano_gaps(seed, int(PIANO.complete_bars(piece)[-1]))
    return piece, tuple(gap for gap in gaps if PIANO.infill.can_take_out(piece, [gap]))[: seed % 3 + 1] or (Gap(0, 1),)


@pytest.mark.parametrize("language", [PIANO, GROOVES], ids=["piano", "grooves"])
@pytest.mark.parametrize("seed", range(20))
def test_leads_are_given_and_the_true_bars_after_them_give_the_piece(language: Language, seed: int) -> None:
    piece, gaps = example(language, seed)
    infill = language.infill
    assert infill is not None
    tokens, setting = infill.begin(piece, gaps)
    whole = infill.put_in(infill.take_out(piece, gaps))
    wider = infill.widen(whole, gaps)
    for gap, wide, (bars, _) in zip(gaps, wider, setting[LEADS], strict=True):
        assert wide == Gap(gap.first - bars, gap.bars + bars, gap.part)
        assert 0 <= bars <= min(MOST_LEAD, LONGEST_GAP - gap.bars)
    truth = infill.take_out(whole, wider).tolist()
    assert truth[: len(tokens)] == tokens
    assert language.grammar.errors(truth) == []
    mask = language.mask(Constraints(bars=1), tokens, 0, setting)
    given = 0
    for token in truth[len(tokens) :]:
        if mask.is_given:
            assert np.flatnonzero(mask.mask()).tolist() == [token]
            given += 1
        mask.advance(token)
    assert mask.is_complete
    assert given == sum(len(lead) for _, lead in setting[LEADS])
    finished = infill.finish(piece, gaps, truth)
    before, after = (infill.take_out(each, gaps).tolist() for each in (piece, finished))
    assert after[: after.index(infill.fill)] == before[: before.index(infill.fill)]
    if len(gaps) == 1:  # notes of a fill end where the next lead begins
        assert np.array_equal(finished, whole)


@pytest.mark.parametrize("language", [PIANO, GROOVES], ids=["piano", "grooves"])
def test_in_plain_music_the_lead_is_as_long_as_it_can_be(language: Language) -> None:
    score = compose_groove(1, 2, 12) if language is GROOVES else compose(1, 12)
    piece = language.encode(score).tokens
    assert language.infill is not None
    leads = [language.infill.begin(piece, [gap])[1][LEADS][0][0] for gap in (Gap(0, 2), Gap(1, 2), Gap(6, 2))]
    assert leads == [0, 1, MOST_LEAD]
