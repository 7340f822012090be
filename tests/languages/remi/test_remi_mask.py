"""Guides without a model: random choices from their masks, whatever is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from asked import broken, improvise, random_request
from pieces import BOTH, EXTENDED, REMI, random_piece

from musicgen.errors import UserError
from musicgen.languages import Remi
from musicgen.languages.constraints import Constraints, parse_constraints
from musicgen.languages.mask import ConstraintMask
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import make_tempos
from musicgen.midi.bars import BarLines

LANGUAGE = REMI
VOCABULARY = LANGUAGE.vocabulary
METRES = {REMI.name: (), EXTENDED.name: ("3/4", "6/8", "7/8", "4/4", "7/4", "3/8")}


def make_mask(
    constraints: Constraints, tokens: Sequence[int], prompt_bars: int = 0, remi: Remi = LANGUAGE
) -> ConstraintMask:
    return remi.mask(constraints, tokens, prompt_bars, {})


def check(request: dict[str, Any], seed: int, begun: list[int], remi: Remi, prompt_bars: int = 0) -> bool:
    """Improvise under a request and see that it is kept; False if it was refused."""
    try:
        constraints = parse_constraints(**request)
        make_mask(constraints, begun, prompt_bars, remi)
    except UserError:
        return False
    tokens = improvise(
        make_mask(constraints, begun, prompt_bars, remi), begun, remi.vocabulary, np.random.default_rng(seed)
    )
    bars = remi.complete_bars(tokens)[-1]
    assert not remi.grammar.errors(tokens), request
    assert broken(constraints, remi.rendering(constraints, {}).decode(tokens), bars, prompt_bars) == [], request
    assert remi.encode(remi.decode(tokens)).tokens.tolist() == tokens, request
    if constraints.tokens is not None:
        assert len(tokens) <= max(constraints.tokens, len(begun)) + 40, request
    return True


@BOTH
@pytest.mark.parametrize("part", range(4))
def test_any_player_keeps_to_any_constraints_and_always_has_a_choice(part: int, remi: Remi) -> None:
    generator = np.random.default_rng(part)
    asked = [random_request(generator, metres=METRES[remi.name]) for _ in range(100)]
    kept = sum(check(request, 1000 * part + n, [remi.first], remi) for n, request in enumerate(asked))
    assert kept > 60


@BOTH
def test_constraints_are_kept_after_a_prompt_that_does_not_keep_to_them(remi: Remi) -> None:
    generator = np.random.default_rng(7)
    kept = 0
    for n in range(80):
        prompt = remi.read_prompt(compose(n, 4), int(generator.integers(1, 4)))
        request = random_request(generator, bars=8, metres=METRES[remi.name])
        kept += check(request, n, list(prompt.tokens), remi, prompt.bars)
    assert kept > 30


@BOTH
def test_without_constraints_the_mask_is_the_grammar_s(remi: Remi) -> None:
    constraints = parse_constraints(tokens=10_000)
    for seed in range(5):
        piece = random_piece(seed, 300, remi).tolist()
        constraint_mask, state = make_mask(constraints, piece[:1], remi=remi), remi.grammar.start()
        state.advance(piece[0])
        for token in piece[1:]:
            music = ~np.isin(np.arange(len(remi.vocabulary)), remi.meaningless[1:])  # new music has no gaps
            assert np.array_equal(constraint_mask.mask(), state.mask() & music)
            constraint_mask.advance(token)
            state.advance(token)


def test_a_real_piece_is_admitted_under_the_constraints_that_it_keeps() -> None:
    """Masks take away no more than they must: what a song does stays possible to its end."""
    for seed in range(20):
        tokens = LANGUAGE.encode(compose(seed, 8)).tokens.tolist()
        score = LANGUAGE.decode(tokens)
        assert score.end == 8 * 1920
        low, high = int(score.notes["pitch"].min()), int(score.notes["pitch"].max())
        tempo = f"{score.tempos['bpm'].min()}-{score.tempos['bpm'].max() + 1}"
        constraint_mask = make_mask(
            parse_constraints(bars=8, pitches=f"{low}-{high}", tempo=tempo, ending="open"), tokens[:1]
        )
        for token in tokens[1:]:
            assert constraint_mask.mask()[token]
            constraint_mask.advance(token)
        assert constraint_mask.is_complete


def test_free_sampling_masks_nothing_but_padding_and_stops_where_it_is_told() -> None:
    bar, end = VOCABULARY["Bar"], LANGUAGE.end
    for request, tokens in (
        ({"bars": 2}, [bar, 9, bar, bar]),
        ({"tokens": 4}, [bar, 9, 9, 9]),
        ({"tokens": 9}, [bar, 9, end]),
    ):
        constraint_mask = make_mask(parse_constraints(grammar=False, **request), tokens[:1])
        for token in tokens[1:]:
            assert not constraint_mask.is_complete
            assert constraint_mask.mask().sum() == len(VOCABULARY) - 1
            assert not constraint_mask.mask()[LANGUAGE.vocabulary["PAD"]]
            constraint_mask.advance(token)
        assert constraint_mask.is_complete
        with pytest.raises(UserError, match="no longer than what is given"):
            make_mask(parse_constraints(grammar=False, **request), tokens)


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
        ({"metre": "waltz"}, "metre=waltz: not a metre"),
        ({"metre": "3/4"}, "metre=3/4: this model takes 4/4"),
        ({"chords": "C Xm"}, "'Xm' is not a chord"),
        ({"chords": " "}, "no chord is named"),
        ({"tracks": "drums"}, "this model plays one track, piano"),
        ({"grammar": False, "key": "C"}, "grammar=false and key="),
        ({"grammar": False, "seconds": 3.0}, "grammar=false and seconds="),
    ],
)
def test_a_contradiction_is_a_sentence_before_anything_is_sampled(request_: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        make_mask(parse_constraints(**request_), [VOCABULARY["Bar"]])
    assert words in str(error.value)


def test_a_length_that_the_prompt_has_already_is_refused() -> None:
    prompt = LANGUAGE.read_prompt(compose(0, 4), None)
    for request in ({"bars": 4}, {"seconds": 1.0}, {"tokens": 50}):
        with pytest.raises(UserError, match=r"no longer than the prompt \(4 bars, "):
            make_mask(parse_constraints(**request), prompt.tokens)  # type: ignore[arg-type]


def test_a_piece_in_any_metres_is_admitted_to_its_end() -> None:
    for seed in range(20):
        tokens = random_piece(seed, 200, EXTENDED)
        bars, score = int(EXTENDED.complete_bars(tokens)[-1]), EXTENDED.decode(tokens)
        if score.end != BarLines(score).tick(bars):
            continue
        mask = make_mask(parse_constraints(bars=bars, ending="open"), tokens[:1].tolist(), remi=EXTENDED)
        for token in tokens[1:].tolist():
            assert mask.mask()[token]
            mask.advance(token)


def test_a_continuation_keeps_to_the_tempos_of_its_prompt_unless_another_is_asked_for() -> None:
    words = EXTENDED.vocabulary
    score = compose(0, 4).replace(tempos=make_tempos([(0, 120.0), (960, 124.0)]))
    prompt = EXTENDED.read_prompt(score, 3)
    for request, allowed in (({}, range(120, 125)), ({"tempo": "90-100"}, range(90, 101))):
        mask = make_mask(parse_constraints(bars=8, **request), prompt.tokens, 3, EXTENDED)
        tokens = improvise(mask, list(prompt.tokens), words, np.random.default_rng(0))
        said = [words.names[token] for token in tokens[len(prompt.tokens) :]]
        assert {int(name[6:]) for name in said if name.startswith("Tempo_")} <= set(allowed)
