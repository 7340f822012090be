"""The guide of grooves without a model: random choices from its masks, whatever is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from asked import improvise
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.errors import UserError
from musicgen.midi.score import Score, Track, make_notes, make_tempos
from musicgen.sampling.constraints import parse_constraints
from musicgen.sampling.groove_dialect import GrooveDialect, clock
from musicgen.tokens.groove import Groove
from musicgen.tokens.groove_quantise import TRIO

DIALECT, LANGUAGE = GrooveDialect(), Groove()
VOCABULARY = LANGUAGE.vocabulary
BAR = 480 * 4


def random_trio(generator: np.random.Generator, bars: int, notes: int = 30) -> Score:
    """A piece of some instruments, on the grid and off it."""
    start = generator.integers(0, bars * BAR, notes)
    track = generator.integers(0, 3, notes)
    tracks = (Track("Low", 33), Track("Kit", 0, True), Track("High", 25))
    return Score(
        480,
        make_notes(
            start, start + generator.integers(1, 2000, notes), generator.integers(30, 90, notes), 90 + track, track
        ),
        tracks,
        make_tempos([(0, 97.0)]),
    )


def random_request(generator: np.random.Generator) -> dict[str, Any]:
    request: dict[str, Any] = {}
    kind = generator.integers(3)
    if kind == 0:
        request["bars"] = int(generator.integers(1, 7))
    elif kind == 1:
        request["seconds"] = float(np.exp(generator.uniform(np.log(0.02), np.log(15))))
    else:
        request["tokens"] = int(generator.integers(1, 200))
    if generator.random() < 0.4:
        request["key"] = str(generator.choice(["C", "Am", "F#m"]))
    if generator.random() < 0.4:
        low = int(generator.integers(0, 120))
        request["pitches"] = f"{low}-{min(127, low + int(generator.choice([0, 1, 12, 40])))}"
    if generator.random() < 0.4:
        request["polyphony"] = int(generator.integers(1, 5))
    if generator.random() < 0.4:
        request["tempo"] = str(generator.choice(["120", "90-130", "60"]))
    if generator.random() < 0.4:
        request["tracks"] = str(generator.choice(["bass", "drums other", "other,bass", "drums"]))
    return request


def check(request: dict[str, Any], seed: int, prompt_bars: int) -> bool:
    """Improvise under a request and see that it is kept; False if it was refused."""
    generator = np.random.default_rng(seed)
    begun, setting = [LANGUAGE.begin], dict[str, Any]()
    prompt = None
    if prompt_bars:
        prompt = DIALECT.read_prompt(random_trio(generator, 4), prompt_bars)
        begun, prompt_bars, setting = list(prompt.tokens), prompt.bars, dict(prompt.setting)
    try:
        constraints = parse_constraints(**request)
        DIALECT.guide(constraints, begun, prompt_bars, setting)
    except UserError:
        return False
    guide = DIALECT.guide(constraints, begun, prompt_bars, setting)
    tokens = improvise(guide, begun, VOCABULARY, generator)
    assert guide.bars == int(clock(tokens)[-1]) // 48
    assert not LANGUAGE.grammar.errors(tokens), request
    rendering = DIALECT.rendering(constraints, setting)
    score = rendering.decode(tokens)
    assert LANGUAGE.encode_notes(LANGUAGE.decode(tokens).notes).tolist() == tokens, request
    new = score.notes[score.notes["start"] >= prompt_bars * BAR]
    pitched = new[~score.is_drum(new)]
    assert set(pitched["pitch"].tolist()) <= constraints.pitch_set(), request
    assert (new["end"] - new["start"] <= np.where(score.is_drum(new), 480, 2 * BAR)).all(), request
    held = score.notes[score.notes["start"] < prompt_bars * BAR]
    assert (held["end"] <= prompt_bars * BAR + np.where(score.is_drum(held), 480, 2 * BAR)).all(), request
    if constraints.bars is not None:
        assert score.end == constraints.bars * BAR, request
    if constraints.seconds is not None:
        assert constraints.seconds - 60 / rendering.tempo / 12 - 1e-5 < score.duration <= constraints.seconds + 1e-5
    if constraints.tracks is not None:
        names = {TRIO[number].name.lower() for number in set(new["track"].tolist())}
        assert names <= set(constraints.tracks), request
    if constraints.polyphony is not None:
        for tick in np.unique(new["start"]).tolist():
            assert ((score.notes["start"] <= tick) & (score.notes["end"] > tick)).sum() <= constraints.polyphony
    if constraints.tempo is not None:
        assert constraints.tempo[0] <= score.tempos["bpm"][0] <= constraints.tempo[1]
    if constraints.tokens is not None:
        assert len(tokens) < max(constraints.tokens, len(begun)) + 200
    if prompt is not None:
        assert tokens[: len(begun)] == begun
        assert [track.program for track in score.tracks] == [33, 0, 25]
        assert (score.notes["velocity"] == np.array(setting["velocities"])[score.notes["track"]]).all()
        assert set(setting["velocities"]) <= {90, 91, 92}
    return True


@pytest.mark.parametrize("prompt_bars", [0, 1, 2])
def test_any_player_keeps_to_any_constraints_and_always_has_a_choice(prompt_bars: int) -> None:
    generator = np.random.default_rng(prompt_bars)
    kept = sum(check(random_request(generator), 1000 * prompt_bars + n, prompt_bars) for n in range(150))
    assert kept > 70


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 9), max_size=40))
def test_decoding_as_tokens_come_is_decoding_the_whole(seed: int, cuts: list[int]) -> None:
    generator = np.random.default_rng(seed)
    begun = [LANGUAGE.begin]
    tokens = improvise(DIALECT.guide(parse_constraints(tokens=60), begun, 0, {}), begun, VOCABULARY, generator)
    rendering = DIALECT.rendering(parse_constraints(bars=1), {})
    decoder, parts, place, before = rendering.decoder(), [], 0, 0
    for cut in [*cuts, len(tokens)]:
        part, until = decoder.feed(tokens[place : place + cut])
        assert (part.notes["start"] < until).all()
        assert (part.notes["start"] >= before).all()
        place, before = place + cut, until
        parts.append(part)
    parts.append(decoder.close())
    notes = np.concatenate([part.notes for part in parts])
    whole = rendering.decode(tokens)
    assert whole == whole.replace(notes=notes)
    assert np.array_equal(np.concatenate([part.tempos for part in parts]), whole.tempos)


def test_a_piece_that_is_long_enough_ends_whatever_the_player_likes() -> None:
    for favourite in ("Shift_2_0", "NoteOn_2_40", "Shift_0_1"):
        guide, tokens = DIALECT.guide(parse_constraints(tokens=40), [LANGUAGE.begin], 0, {}), [LANGUAGE.begin]
        while not guide.is_complete:
            mask = guide.mask()
            liked = VOCABULARY[favourite]
            tokens.append(liked if mask[liked] else int(np.flatnonzero(mask)[0]))
            guide.advance(tokens[-1])
            assert len(tokens) < 100, favourite  # as many notes as there are tokens may have to end


def test_a_player_who_ends_nothing_is_made_to_after_two_bars_and_at_the_drums_after_a_beat() -> None:
    guide, tokens = DIALECT.guide(parse_constraints(bars=6), [LANGUAGE.begin], 0, {}), [LANGUAGE.begin]
    wanted = [VOCABULARY[f"NoteOn_{key}"] for key in ("1_40", "2_36", "3_60")]
    while not guide.is_complete:
        mask = guide.mask()
        liked = [token for token in [*wanted, VOCABULARY["Shift_2_0"], VOCABULARY["Shift_1_5"]] if mask[token]]
        tokens.append(liked[0] if liked else int(np.flatnonzero(mask)[-1]))
        guide.advance(tokens[-1])
    notes = LANGUAGE.decode(tokens).notes
    lengths = {
        track: sorted(set((part["end"] - part["start"]).tolist()))
        for track in range(3)
        if len(part := notes[notes["track"] == track])
    }
    assert lengths[0][-1] == lengths[2][-1] == 96
    assert lengths[1][-1] == 12
    assert notes["end"].max() == 6 * 48


def test_what_sounds_at_the_end_of_a_prompt_goes_on_and_nothing_new_comes_before() -> None:
    score = Score(
        480, make_notes([0, 480], [4000, 900], [40, 60], 80, [0, 2]), (Track("B", 33), Track("D", 0, True), Track("P"))
    )
    prompt = DIALECT.read_prompt(score, 1)
    assert VOCABULARY.to_names(prompt.tokens) == [
        "BOS",
        "NoteOn_1_40",
        "Shift_1_0",
        "NoteOn_3_60",
        "Shift_0_11",
        "NoteOff_3_60",
    ]
    guide = DIALECT.guide(parse_constraints(bars=2), prompt.tokens, prompt.bars, prompt.setting)
    allowed = VOCABULARY.to_names(np.flatnonzero(guide.mask()))
    assert allowed == ["Shift_2_0"]  # to tick 36; the bar line is at 48
    guide.advance(VOCABULARY["Shift_2_0"])
    allowed = VOCABULARY.to_names(np.flatnonzero(guide.mask()))
    assert allowed == [f"Shift_1_{tick}" for tick in range(12)] + ["Shift_2_0"]
    guide.advance(VOCABULARY["Shift_1_0"])
    assert "NoteOff_1_40" in VOCABULARY.to_names(np.flatnonzero(guide.mask()))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"chords": "C G"}, "chords=: a model of grooves is told no chords"),
        ({"tracks": "piano"}, "tracks=piano: this model plays bass, drums, other"),
        ({"seconds": 0.001}, "too short for a note"),
        ({"key": "C", "pitches": "61-61"}, "no pitch is in both"),
        ({"tempo": 1}, "tempo=1: takes 10 to 500"),
        ({"tempo": "100-1000"}, "tempo=100-1000: takes 10 to 500"),
    ],
)
def test_a_contradiction_is_a_sentence(request_: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        DIALECT.guide(parse_constraints(**request_), [LANGUAGE.begin], 0, {})
    assert words in str(error.value)
