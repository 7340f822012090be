"""The constraint mask of grooves without a model: random choices from its masks, whatever is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from asked import improvise
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.errors import UserError
from musicgen.languages import Groove
from musicgen.languages.constraints import parse_constraints
from musicgen.languages.groove.codec import ticks_after as clock
from musicgen.languages.groove.quantise import TRIO
from musicgen.midi.score import Score, Track, make_notes, make_tempos
from musicgen.request import PromptReading

LANGUAGE = Groove()
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
    begun, setting = [LANGUAGE.first], dict[str, Any]()
    prompt = None
    if prompt_bars:
        prompt = LANGUAGE.read_prompt(random_trio(generator, 4), prompt_bars, PromptReading(grid="file"))
        begun, prompt_bars, setting = list(prompt.tokens), prompt.bars, dict(prompt.setting)
    try:
        constraints = parse_constraints(**request)
        LANGUAGE.mask(constraints, begun, prompt_bars, setting)
    except UserError:
        return False
    constraint_mask = LANGUAGE.mask(constraints, begun, prompt_bars, setting)
    tokens = improvise(constraint_mask, begun, VOCABULARY, generator)
    assert constraint_mask.bars == int(clock(tokens)[-1]) // 48
    assert not LANGUAGE.grammar.errors(tokens), request
    rendering = LANGUAGE.rendering(constraints, setting)
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
    begun = [LANGUAGE.first]
    tokens = improvise(LANGUAGE.mask(parse_constraints(tokens=60), begun, 0, {}), begun, VOCABULARY, generator)
    rendering = LANGUAGE.rendering(parse_constraints(bars=1), {})
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
        constraint_mask, tokens = LANGUAGE.mask(parse_constraints(tokens=40), [LANGUAGE.first], 0, {}), [LANGUAGE.first]
        while not constraint_mask.is_complete:
            mask = constraint_mask.mask()
            liked = VOCABULARY[favourite]
            tokens.append(liked if mask[liked] else int(np.flatnonzero(mask)[0]))
            constraint_mask.advance(tokens[-1])
            assert len(tokens) < 100, favourite  # as many notes as there are tokens may have to end


def test_a_player_who_ends_nothing_is_made_to_after_two_bars_and_at_the_drums_after_a_beat() -> None:
    constraint_mask, tokens = LANGUAGE.mask(parse_constraints(bars=6), [LANGUAGE.first], 0, {}), [LANGUAGE.first]
    wanted = [VOCABULARY[f"NoteOn_{key}"] for key in ("1_40", "2_36", "3_60")]
    while not constraint_mask.is_complete:
        mask = constraint_mask.mask()
        liked = [token for token in [*wanted, VOCABULARY["Shift_2_0"], VOCABULARY["Shift_1_5"]] if mask[token]]
        tokens.append(liked[0] if liked else int(np.flatnonzero(mask)[-1]))
        constraint_mask.advance(tokens[-1])
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
    prompt = LANGUAGE.read_prompt(score, 1)
    assert VOCABULARY.to_names(prompt.tokens) == [
        "BOS",
        "NoteOn_1_40",
        "Shift_1_0",
        "NoteOn_3_60",
        "Shift_0_11",
        "NoteOff_3_60",
    ]
    constraint_mask = LANGUAGE.mask(parse_constraints(bars=2), prompt.tokens, prompt.bars, prompt.setting)
    allowed = VOCABULARY.to_names(np.flatnonzero(constraint_mask.mask()))
    assert allowed == ["Shift_2_0"]  # to tick 36; the bar line is at 48
    constraint_mask.advance(VOCABULARY["Shift_2_0"])
    allowed = VOCABULARY.to_names(np.flatnonzero(constraint_mask.mask()))
    assert allowed == [f"Shift_1_{tick}" for tick in range(12)] + ["Shift_2_0"]
    constraint_mask.advance(VOCABULARY["Shift_1_0"])
    assert "NoteOff_1_40" in VOCABULARY.to_names(np.flatnonzero(constraint_mask.mask()))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"chords": "C G"}, "chords: models of grooves take no chords"),
        ({"tracks": "piano"}, "tracks=piano: this model plays bass, drums, other"),
        ({"seconds": 0.001}, "too short for a note"),
        ({"key": "C", "pitches": "61-61"}, "no pitch is in both"),
        ({"tempo": 1}, "tempo=1: takes 10 to 500"),
        ({"tempo": "100-1000"}, "tempo=100-1000: takes 10 to 500"),
    ],
)
def test_a_contradiction_is_a_sentence(request_: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        LANGUAGE.mask(parse_constraints(**request_), [LANGUAGE.first], 0, {})
    assert words in str(error.value)


@pytest.mark.parametrize("seed", range(4))
def test_no_instrument_of_a_prompt_rests_for_longer_than_it_did_there(seed: int) -> None:
    """A player who would never touch the bass, or who leaves everything to the bass, is made to play all."""
    beat = 480
    bass, drums = [0, 2 * beat, BAR, BAR + 3 * beat], [0, beat, 2 * beat, 3 * beat]
    start = np.array([*bass, *drums])
    notes = make_notes(start, start + 120, [40] * 4 + [36] * 4, 64, [0] * 4 + [1] * 4)
    prompt = LANGUAGE.read_prompt(Score(480, notes, (Track("Bass", 33), Track("Drums", 0, True))), 2)
    mask = LANGUAGE.mask(parse_constraints(bars=8), prompt.tokens, prompt.bars, prompt.setting)
    disliked = VOCABULARY.ids["NoteOn"]
    generator, tokens = np.random.default_rng(seed), list(prompt.tokens)
    lazy_at = disliked[128 * (seed % 2) : 128 * (seed % 2) + 128]
    while not mask.is_complete:
        choices = np.flatnonzero(mask.mask())
        liked = [token for token in choices if token not in lazy_at]
        tokens.append(int(generator.choice(liked or choices)))
        mask.advance(tokens[-1])
    times = np.asarray(clock(tokens))
    track = (np.array(tokens) - disliked.start) // 128
    for number, longest in ((0, 60), (1, 60)):  # the drums rest from the fourth beat of the prompt to its end
        played = [96, *times[(track == number) & (times >= 96) & np.isin(tokens, disliked)].tolist(), 8 * 48]
        assert np.diff(played).max() <= longest
