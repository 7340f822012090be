from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pieces import BOTH, EXTENDED, REMI, random_piece, scores

from musicgen.data.prepare import find_songs
from musicgen.languages import Remi, TokenError, Tokens, quantise
from musicgen.midi import Score, TimeSignature, Track, make_notes, make_tempos, read_midi
from musicgen.midi.write import write_midi

VOCABULARY = REMI.vocabulary


def test_the_vocabulary_is_the_papers() -> None:
    sizes = {family: len(ids) for family, ids in VOCABULARY.ids.items()}
    assert sizes == {"PAD": 1, "EOS": 1, "Bar": 1, "Beat": 16, "Tempo": 65, "Chord": 133} | {
        "Pitch": 88,
        "Velocity": 24,
        "Duration": 32,
    }
    for name in ("Bar", "Beat_15", "Tempo_32", "Tempo_224", "Chord_N_N", "Chord_F#_/o7", "Pitch_21", "Pitch_108"):
        assert name in VOCABULARY
    for name in ("Velocity_40", "Velocity_86", "Duration_0.5", "Duration_1", "Duration_16", "EOS", "PAD"):
        assert name in VOCABULARY
    assert VOCABULARY.to_names(VOCABULARY.to_ids(VOCABULARY.names)) == list(VOCABULARY.names)


@BOTH
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 400))
def test_what_the_grammar_accepts_comes_back_from_a_score(remi: Remi, seed: int, length: int) -> None:
    tokens = random_piece(seed, length, remi)
    assert np.array_equal(remi.encode(remi.decode(tokens)).tokens, tokens)


@BOTH
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_the_grammar_accepts_comes_back_from_a_midi_file(
    remi: Remi, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "piece.mid"
    tokens = random_piece(seed, 300, remi)
    write_midi(remi.decode(tokens), path)
    assert np.array_equal(remi.encode(read_midi(path)).tokens, tokens)


def comes_back(tokens: Tokens, remi: Remi) -> bool:
    try:
        return np.array_equal(remi.encode(remi.decode(tokens)).tokens, tokens)
    except TokenError:
        return False


@BOTH
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_the_grammar_accepts_nothing_else(remi: Remi, seed: int, data: st.DataObject) -> None:
    """A piece with a token changed, moved or gone is accepted if and only if encoding could have written it."""
    tokens = random_piece(seed, 40, remi)
    place, other = (data.draw(st.integers(0, len(tokens) - 1)) for _ in range(2))
    match data.draw(st.sampled_from(["change", "delete", "insert", "swap"])):
        case "change":
            tokens[place] = data.draw(st.integers(0, len(remi.vocabulary) - 1))
        case "delete":
            tokens = np.delete(tokens, place)
        case "insert":
            tokens = np.insert(tokens, place, data.draw(st.integers(0, len(remi.vocabulary) - 1)))
        case _:
            tokens[[place, other]] = tokens[[other, place]]
    accepted = not remi.grammar.errors(tokens)
    assert accepted == comes_back(tokens, remi)


@BOTH
@settings(max_examples=150, deadline=None)
@given(score=scores())
def test_decoding_gives_the_quantised_score_and_nothing_else(remi: Remi, score: Score) -> None:
    try:
        quantised, report = quantise(score, remi.tokens)
    except TokenError:
        assume(False)
    tokens, same_report = remi.encode(score)
    assert remi.decode(tokens) == quantised
    assert same_report == report
    assert remi.grammar.errors(tokens) == []
    assert report.notes == len(score.notes) == len(quantised.notes) + report.merged + report.dropped
    again, nothing = quantise(quantised, remi.tokens)
    assert again == quantised
    assert (nothing.moved, nothing.clamped, nothing.trimmed, nothing.merged, nothing.dropped) == (0, 0, 0, 0, 0)


def test_what_quantising_did_is_counted() -> None:
    # at 480 ticks per beat: on the grid; off it; too loud; its twin; cut by the next; the next; off the keyboard
    notes = make_notes(
        [0, 130, 480, 470, 960, 1200, 0],
        [60, 250, 600, 540, 1440, 1320, 120],
        [60, 62, 64, 64, 65, 65, 5],
        [64, 64, 110, 64, 64, 64, 64],
    )
    padding = make_notes([1920] * 30, [2040] * 30, list(range(30, 60)), 64)
    quantised, report = quantise(Score(480, np.concatenate([notes, padding])))
    assert (report.notes, report.moved, report.clamped, report.trimmed) == (37, 2, 1, 1)
    assert (report.merged, report.dropped, report.skipped_bars, report.rescaled) == (1, 1, 0, False)
    told = "37 notes, 2 moved (10 ms on average), 1 clamped, 1 trimmed, 1 merged, 1 outside a piano's keyboard left out"
    assert str(report) == told
    columns = [quantised.notes[name][:5].tolist() for name in ("start", "end", "pitch", "velocity")]
    assert columns == [[0, 120, 480, 960, 1200], [60, 240, 600, 1200, 1320], [60, 62, 64, 65, 65], [64, 64, 86, 64, 64]]


def test_a_tick_is_not_moved_and_drums_are_named() -> None:
    notes = make_notes([1, 481, 0, 4], [240, 720, 240, 240], [60, 62, 36, 5], 64, [0, 0, 1, 0])
    report = quantise(Score(480, notes, (Track("Piano"), Track("Drums", 0, True))))[1]
    assert (report.moved, report.shift, report.dropped, report.drums) == (0, 0.0, 2, 1)
    assert str(report) == "4 notes, 1 of drums left out, 1 outside a piano's keyboard left out"
    one = quantise(Score(480, notes[:1]))[1]
    assert str(one) == "1 note"


def test_shifts_are_in_milliseconds_at_the_tempo_and_in_any_metre() -> None:
    starts = [1440 * bar + 15 for bar in range(6)]
    notes = make_notes(starts, [start + 240 for start in starts], [60] * 6, 64)
    signatures = (TimeSignature(0, 3, 4), TimeSignature(3 * 1440, 6, 8))
    for bpm, shift in ((60, 15 / 480), (240, 15 / 480 / 4)):
        score = Score(480, notes, tempos=make_tempos([(0, bpm)]), time_signatures=signatures)
        report = quantise(score, EXTENDED.tokens)[1]
        assert (report.moved, report.shift) == (6, pytest.approx(1000 * shift, abs=0.001))


def test_a_loud_song_keeps_its_relative_dynamics() -> None:
    velocity = np.linspace(70, 120, 40).astype(int)
    notes = make_notes(list(range(0, 4800, 120)), list(range(60, 4860, 120)), 60 * np.ones(40, int), velocity)
    quantised, report = quantise(Score(480, notes))
    assert report.rescaled
    written = quantised.notes["velocity"]
    assert (np.diff(written) >= 0).all()
    assert len(np.unique(written)) > 20
    assert (written.min(), written.max()) == (40, 86)


def test_leading_bars_go_and_what_was_in_force_stays() -> None:
    score = Score(
        480,
        make_notes([2 * 1920 + 480], [2 * 1920 + 960], [60], 64),
        tempos=make_tempos([(0, 90.0), (1920, 100.0), (3 * 1920, 80.0)]),
    )
    tokens, report = REMI.encode(score)
    assert report.skipped_bars == 2
    assert VOCABULARY.to_names(tokens) == [
        "Bar", "Beat_0", "Tempo_101", "Beat_4", "Pitch_60", "Velocity_64", "Duration_4", "Bar", "EOS",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (Score(480, make_notes([], [], [], [])), "no notes"),
        (Score(480, make_notes([0], [1], [3], 64)), "no notes on a piano's keyboard"),
        (Score(480, make_notes([0], [1], [60], 64), time_signatures=(TimeSignature(0, 3, 4),)), r"3/4 from beat 1 on"),
    ],
)
def test_what_cannot_be_said_is_refused_with_a_reason(score: Score, reason: str) -> None:
    with pytest.raises(TokenError, match=reason):
        REMI.encode(score)


def test_a_time_signature_under_no_note_does_not_matter() -> None:
    signatures = (TimeSignature(0, 3, 4), TimeSignature(0, 4, 4), TimeSignature(9600, 3, 4))
    score = Score(480, make_notes([0, 960], [100, 1200], [60, 64], 64), time_signatures=signatures)
    assert len(REMI.encode(score).tokens)


@pytest.mark.parametrize("tokens", [[], [2], [2, 3], [200, 210], [1, 2, 3], [0, 0, 0]])
def test_scraps_of_tokens_decode_to_a_score_without_notes(tokens: list[int]) -> None:
    assert len(REMI.decode(tokens).notes) == 0


def test_a_piece_cut_anywhere_decodes_to_its_beginning() -> None:
    tokens = random_piece(3, 300)
    whole = REMI.decode(tokens).notes
    for end in range(len(tokens)):
        part = REMI.decode(tokens[:end]).notes
        assert np.array_equal(part, whole[: len(part)])


@BOTH
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), semitones=st.integers(-12, 12))
def test_transposing_tokens_transposes_the_music(remi: Remi, seed: int, semitones: int) -> None:
    tokens = random_piece(seed, 100, remi)
    permutation = remi.transposition(semitones)
    assert sorted(permutation) == list(range(len(remi.vocabulary)))
    assert np.array_equal(remi.transposition(-semitones)[permutation], np.arange(len(remi.vocabulary)))
    down, up = remi.headroom(tokens)
    score = remi.decode(tokens)
    assert (21 - score.notes["pitch"].min(), 108 - score.notes["pitch"].max()) == (down, up)
    assume(down <= semitones <= up)
    transposed = remi.decode(permutation[tokens])
    assert remi.grammar.errors(permutation[tokens]) == []
    assert np.array_equal(transposed.notes["pitch"], score.notes["pitch"] + semitones)
    for name in ("start", "end", "velocity"):
        assert np.array_equal(transposed.notes[name], score.notes[name])
    assert [mark.chord for mark in transposed.chords] == [mark.chord.transposed(semitones) for mark in score.chords]


@BOTH
@pytest.mark.parametrize("corpus", ["pop1k7", "pop909"])
def test_every_real_song_is_accepted_and_comes_back(corpus: str, remi: Remi, real_data: Callable[[str], Path]) -> None:
    folder = real_data(corpus)
    language, found = find_songs(folder)
    assert found.layout == corpus
    kept = 0
    for path in islice(found.paths, 0, None, 23):
        score = language.load(folder, path, found.layout)
        try:
            tokens = remi.encode(score).tokens
        except TokenError as error:
            assert remi is REMI
            assert "not in 4/4" in str(error)  # noqa: PT017
            continue
        kept += 1
        assert remi.grammar.errors(tokens) == [], path
        assert remi.decode(tokens) == remi.quantise(score)
        assert np.array_equal(remi.encode(remi.decode(tokens)).tokens, tokens)
    assert kept > 30
