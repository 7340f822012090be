"""Endings without a model: random choices from the masks lead home, whatever else is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from asked import broken, improvise, random_request
from pieces import BOTH, EXTENDED, REMI

from musicgen.errors import UserError
from musicgen.languages import Remi
from musicgen.languages.constraints import Constraints, parse_constraints
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.bars import BarLines
from musicgen.midi.chord import Chord
from musicgen.midi.key import Key, heard_key
from musicgen.midi.score import Score


def play(constraints: Constraints, begun: Sequence[int], seed: int, remi: Remi, prompt_bars: int = 0) -> list[int]:
    """A piece by a random player."""
    mask = remi.mask(constraints, begun, prompt_bars, {})
    return improvise(mask, list(begun), remi.vocabulary, np.random.default_rng(seed))


def key_of(score: Score, bars: int) -> Key:
    """The key that is heard before the last two bars."""
    notes = score.notes[score.notes["start"] < BarLines(score).tick(bars - 2)]
    key = heard_key(np.bincount(notes["pitch"] % 12, notes["end"] - notes["start"], minlength=12))
    assert key is not None
    return key


def faults(score: Score, bars: int, home: Chord) -> list[str]:
    """What is not as a cadence on a chord should be."""
    lines = BarLines(score)
    before, start, end = lines.tick(bars - 2), lines.tick(bars - 1), score.end
    last = score.notes[score.notes["start"] >= start]
    sounding = score.notes[score.notes["end"] == end]
    earlier = ((score.notes["start"] >= before) & (score.notes["start"] < start)).sum()
    return [
        name
        for name, holds in {
            "one chord": len(set(last["start"].tolist())) == 1,
            "long": 2 * (end - last["start"].min()) >= end - start,
            "sounds to the end": bool((last["end"] == end).all()),
            "tonic lowest": int(sounding["pitch"].min()) % 12 == home.root,
            "tones": set((sounding["pitch"] % 12).tolist()) <= home.pitch_classes,
            "not busier": len(last) <= max(3, earlier),
        }.items()
        if not holds
    ]


@BOTH
def test_a_piece_ends_with_a_long_chord_on_the_tonic_of_the_key_that_is_heard(remi: Remi) -> None:
    for seed in range(12):
        bars = 4 + seed % 3
        tokens = play(parse_constraints(bars=bars), [remi.first], seed, remi)
        score = remi.decode(tokens)
        key = key_of(score, bars)
        assert faults(score, bars, Chord(key.root, "m" if key.is_minor else "M")) == []
        assert score.chords[-1].chord == Chord(key.root, "m" if key.is_minor else "M")


@BOTH
@pytest.mark.parametrize(
    ("asked", "home"),
    [
        ({"key": "F#m"}, Chord(6, "m")),
        ({"key": "Bb", "polyphony": 2}, Chord(10, "M")),
        ({"key": "C", "pitches": "C5-C6"}, Chord(0, "M")),
        ({"chords": "C Am F G7"}, Chord(0, "M")),
        ({"key": "C", "polyphony": 1, "tempo": "90-100"}, Chord(0, "M")),
    ],
)
def test_home_is_the_key_or_the_chord_that_is_asked_for(asked: dict[str, Any], home: Chord, remi: Remi) -> None:
    constraints = parse_constraints(bars=5, **asked)
    for seed in range(4):
        score = remi.decode(play(constraints, [remi.first], seed, remi))
        assert faults(score, 5, home) == []
        assert broken(constraints, score, 5) == []


@BOTH
def test_every_other_constraint_is_kept_and_there_is_always_a_choice(remi: Remi) -> None:
    generator, kept, home = np.random.default_rng(1), 0, 0
    metres = () if remi is REMI else ("3/4", "6/8", "7/8", "7/4", "3/8")
    for seed in range(60):
        request = random_request(generator, seconds=30, metres=metres)
        if "seconds" not in request:
            request = {**request, "bars": int(generator.integers(4, 7)), "tokens": None}
        begun, prompt_bars = [remi.first], 0
        if seed % 3 == 0:
            prompt = remi.read_prompt(compose(seed, 4), 1 + seed % 2)
            begun, prompt_bars = list(prompt.tokens), prompt.bars
        try:
            constraints = parse_constraints(**request)
            remi.mask(constraints, begun, prompt_bars, {})
        except UserError:
            continue
        tokens = play(constraints, begun, seed, remi, prompt_bars)
        score, bars = remi.decode(tokens), int(remi.complete_bars(tokens)[-1])
        assert not remi.grammar.errors(tokens), request
        assert broken(constraints, remi.rendering(constraints, {}).decode(tokens), bars, prompt_bars) == [], request
        kept += 1
        home += "one chord" not in faults(score, bars, Chord(0, "M"))
    assert kept > 30
    assert home > 15


@BOTH
def test_a_piece_that_is_taken_up_again_ends_in_the_same_way(remi: Remi) -> None:
    constraints = parse_constraints(bars=5, key=None, polyphony=4)
    tokens = play(constraints, [remi.first], 3, remi)
    unbroken = remi.mask(constraints, tokens[:1], 0, {})
    bars = remi.complete_bars(tokens)
    for place, token in enumerate(tokens[1:], start=1):
        if bars[place - 1] >= 3 and bars[place - 1] < 5:
            again = remi.mask(constraints, tokens[:place], 0, {})
            assert np.array_equal(again.mask(), unbroken.mask())
            assert np.array_equal(again.bias(), unbroken.bias(), equal_nan=False) or again.bias() is None
        unbroken.advance(token)


def test_an_open_ending_short_pieces_and_lengths_in_tokens_are_not_led() -> None:
    for request in ({"bars": 6, "ending": "open"}, {"bars": 3}, {"tokens": 120}):
        tokens = play(parse_constraints(**request), [EXTENDED.first], 5, EXTENDED)
        constraints = parse_constraints(**request)
        mask, free = (
            EXTENDED.mask(one, tokens[:1], 0, {})
            for one in (constraints, parse_constraints(**{**request, "ending": "open"}))
        )
        for token in tokens[1:]:
            assert np.array_equal(mask.mask(), free.mask())
            assert mask.bias() is None
            mask.advance(token)
            free.advance(token)


def test_before_the_last_bar_the_dominant_and_tones_of_the_key_are_likelier() -> None:
    words = REMI.vocabulary
    constraints = parse_constraints(bars=5, key="C")
    tokens = play(constraints, [REMI.first], 0, REMI)
    mask = REMI.mask(constraints, tokens[:1], 0, {})
    bars = REMI.complete_bars(tokens)
    for place, token in enumerate(tokens[1:]):
        bias = mask.bias()
        assert (bias is not None) <= (bars[place] >= 3)
        if bars[place] == 3 and bias is not None:
            assert bias[words["Chord_G_7"]] > bias[words["Chord_C_M"]] >= 0
            assert bias[words["Pitch_60"]] > bias[words["Pitch_61"]] == 0
        mask.advance(token)
