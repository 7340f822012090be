"""Guides without a model: random choices from their masks, whatever is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from asked import broken, improvise, random_request

from musicgen.data.synthetic import compose
from musicgen.errors import UserError
from musicgen.sampling.constraints import Constraints, parse_constraints
from musicgen.sampling.guide import Guide
from musicgen.sampling.remi_dialect import RemiDialect
from musicgen.tokens import Remi

LANGUAGE, DIALECT = Remi(), RemiDialect()
VOCABULARY = LANGUAGE.vocabulary


def make_guide(constraints: Constraints, tokens: Sequence[int], prompt_bars: int = 0) -> Guide:
    return DIALECT.guide(constraints, tokens, prompt_bars, {})


def check(request: dict[str, Any], seed: int, begun: list[int], prompt_bars: int = 0) -> bool:
    """Improvise under a request and see that it is kept; False if it was refused."""
    try:
        constraints = parse_constraints(**request)
        make_guide(constraints, begun, prompt_bars)
    except UserError:
        return False
    tokens = improvise(make_guide(constraints, begun, prompt_bars), begun, VOCABULARY, np.random.default_rng(seed))
    bars = len(LANGUAGE.bar_starts(np.array(tokens))) - 1
    assert not LANGUAGE.grammar.errors(tokens), request
    assert broken(constraints, DIALECT.rendering(constraints, {}).decode(tokens), bars, prompt_bars) == [], request
    assert LANGUAGE.encode(LANGUAGE.decode(tokens)).tokens.tolist() == tokens, request
    if constraints.tokens is not None:
        assert len(tokens) <= max(constraints.tokens, len(begun)) + 40, request
    return True


@pytest.mark.parametrize("part", range(4))
def test_any_player_keeps_to_any_constraints_and_always_has_a_choice(part: int) -> None:
    generator = np.random.default_rng(part)
    kept = sum(check(random_request(generator), 1000 * part + n, [VOCABULARY["Bar"]]) for n in range(100))
    assert kept > 60


def test_constraints_are_kept_after_a_prompt_that_does_not_keep_to_them() -> None:
    generator = np.random.default_rng(7)
    kept = 0
    for n in range(80):
        prompt = DIALECT.read_prompt(compose(n, 4), int(generator.integers(1, 4)))
        kept += check(random_request(generator, bars=8), n, list(prompt.tokens), prompt.bars)
    assert kept > 30


def test_without_constraints_the_mask_is_the_grammar_s() -> None:
    constraints = parse_constraints(tokens=10_000)
    for seed in range(5):
        piece = LANGUAGE.encode(compose(seed, 8)).tokens.tolist()
        guide, state = make_guide(constraints, piece[:1]), LANGUAGE.grammar.start()
        state.advance(piece[0])
        for token in piece[1:]:
            assert np.array_equal(guide.mask(), state.mask())
            guide.advance(token)
            state.advance(token)


def test_a_real_piece_is_admitted_under_the_constraints_that_it_keeps() -> None:
    """Masks take away no more than they must: what a song does stays possible to its end."""
    for seed in range(20):
        tokens = LANGUAGE.encode(compose(seed, 8)).tokens.tolist()
        score = LANGUAGE.decode(tokens)
        assert score.end == 8 * 1920
        low, high = int(score.notes["pitch"].min()), int(score.notes["pitch"].max())
        tempo = f"{score.tempos['bpm'].min()}-{score.tempos['bpm'].max() + 1}"
        guide = make_guide(parse_constraints(bars=8, pitches=f"{low}-{high}", tempo=tempo), tokens[:1])
        for token in tokens[1:]:
            assert guide.mask()[token]
            guide.advance(token)
        assert guide.is_complete


def test_free_sampling_masks_nothing_but_padding_and_stops_where_it_is_told() -> None:
    bar, end = VOCABULARY["Bar"], LANGUAGE.end
    for request, tokens in (
        ({"bars": 2}, [bar, 9, bar, bar]),
        ({"tokens": 4}, [bar, 9, 9, 9]),
        ({"tokens": 9}, [bar, 9, end]),
    ):
        guide = make_guide(parse_constraints(grammar=False, **request), tokens[:1])
        for token in tokens[1:]:
            assert not guide.is_complete
            assert guide.mask().sum() == len(VOCABULARY) - 1
            assert not guide.mask()[LANGUAGE.pad]
            guide.advance(token)
        assert guide.is_complete
        with pytest.raises(UserError, match="no longer than what is given"):
            make_guide(parse_constraints(grammar=False, **request), tokens)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"bars": 0}, "bars=0"),
        ({"bars": 4, "seconds": 3.0}, "bars=4 and seconds=3"),
        ({"seconds": -1.0}, "seconds=-1"),
        ({"seconds": 0.01}, "too short for a note"),
        ({"seconds": float("inf")}, "seconds=inf"),
        ({"key": "H"}, "key=H"),
        ({"pitches": "84-48"}, "lower pitch comes first"),
        ({"pitches": "loud"}, "pitches=loud"),
        ({"pitches": "0-20"}, "pitches=0-20: none is on a piano"),
        ({"key": "C", "pitches": "61-61"}, "no pitch is in both"),
        ({"key": "C", "chords": "C E F"}, "E has G#, which is not in the key"),
        ({"polyphony": 0}, "polyphony=0"),
        ({"tempo": "fast"}, "tempo=fast"),
        ({"tempo": "130-90"}, "lower tempo comes first"),
        ({"tempo": 500}, "tempo=500: takes 32 to 224"),
        ({"tempo": "120-121"}, "tempo=120-121: no tempo of the tokens"),
        ({"chords": "C Xm"}, "'Xm' is not a chord"),
        ({"chords": " "}, "no chord is named"),
        ({"tracks": "drums"}, "this model plays one track, piano"),
        ({"grammar": False, "key": "C"}, "grammar=false and key="),
        ({"grammar": False, "seconds": 3.0}, "grammar=false and seconds="),
    ],
)
def test_a_contradiction_is_a_sentence_before_anything_is_sampled(request_: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        make_guide(parse_constraints(**request_), [VOCABULARY["Bar"]])
    assert words in str(error.value)


def test_a_length_that_the_prompt_has_already_is_refused() -> None:
    prompt = DIALECT.read_prompt(compose(0, 4), None)
    for request in ({"bars": 4}, {"seconds": 1.0}, {"tokens": 50}):
        with pytest.raises(UserError, match=r"no longer than the prompt \(4 bars, "):
            make_guide(parse_constraints(**request), prompt.tokens)  # type: ignore[arg-type]
