from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pieces import REMI, random_piece, scores

from musicgen.data.layouts import find_songs, load_song
from musicgen.midi import Score, TimeSignature, make_notes, make_tempos, read_midi
from musicgen.midi.write import write_midi
from musicgen.tokens import TokenError, Tokens, quantise

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


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 400))
def test_what_the_grammar_accepts_comes_back_from_a_score(seed: int, length: int) -> None:
    tokens = random_piece(seed, length)
    assert np.array_equal(REMI.encode(REMI.decode(tokens)).tokens, tokens)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_the_grammar_accepts_comes_back_from_a_midi_file(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "piece.mid"
    tokens = random_piece(seed, 300)
    write_midi(REMI.decode(tokens), path)
    assert np.array_equal(REMI.encode(read_midi(path)).tokens, tokens)


def comes_back(tokens: Tokens) -> bool:
    try:
        return np.array_equal(REMI.encode(REMI.decode(tokens)).tokens, tokens)
    except TokenError:
        return False


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_the_grammar_accepts_nothing_else(seed: int, data: st.DataObject) -> None:
    """A piece with a token changed, moved or gone is accepted if and only if encoding could have written it."""
    tokens = random_piece(seed, 40)
    place, other = (data.draw(st.integers(0, len(tokens) - 1)) for _ in range(2))
    match data.draw(st.sampled_from(["change", "delete", "insert", "swap"])):
        case "change":
            tokens[place] = data.draw(st.integers(0, len(VOCABULARY) - 1))
        case "delete":
            tokens = np.delete(tokens, place)
        case "insert":
            tokens = np.insert(tokens, place, data.draw(st.integers(0, len(VOCABULARY) - 1)))
        case _:
            tokens[[place, other]] = tokens[[other, place]]
    accepted = not REMI.grammar.errors(tokens)
    assert accepted == comes_back(tokens)


@settings(max_examples=150, deadline=None)
@given(score=scores())
def test_decoding_gives_the_quantised_score_and_nothing_else(score: Score) -> None:
    try:
        quantised, report = quantise(score)
    except TokenError:
        assume(False)
    tokens, same_report = REMI.encode(score)
    assert REMI.decode(tokens) == quantised
    assert same_report == report
    assert REMI.grammar.errors(tokens) == []
    assert report.notes == len(score.notes) == len(quantised.notes) + report.merged + report.dropped
    again, nothing = quantise(quantised)
    assert again == quantised
    assert (nothing.moved, nothing.clamped, nothing.trimmed, nothing.merged, nothing.dropped) == (0, 0, 0, 0, 0)


def test_what_quantising_did_is_counted() -> None:
    # at 480 ticks a beat: on the grid; off it; too loud; its twin; cut by the next; the next; off the keyboard
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
    assert str(report) == "37 notes, 2 moved, 1 clamped, 1 trimmed, 1 merged, 1 dropped"
    columns = [quantised.notes[name][:5].tolist() for name in ("start", "end", "pitch", "velocity")]
    assert columns == [[0, 120, 480, 960, 1200], [60, 240, 600, 1200, 1320], [60, 62, 64, 65, 65], [64, 64, 86, 64, 64]]


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
        (Score(480, make_notes([0], [1], [3], 64)), "none on a piano's keyboard"),
        (Score(480, make_notes([0], [1], [60], 64), time_signatures=(TimeSignature(0, 3, 4),)), r"3/4 from beat 1 on"),
        (
            Score(
                480,
                make_notes([0, 9000], [1, 9001], [60, 60], 64),
                time_signatures=(TimeSignature(0, 4, 4), TimeSignature(3840, 6, 8)),
            ),
            r"6/8 from beat 9 on",
        ),
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


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), semitones=st.integers(-12, 12))
def test_transposing_tokens_transposes_the_music(seed: int, semitones: int) -> None:
    tokens = random_piece(seed, 100)
    permutation = REMI.transposition(semitones)
    assert sorted(permutation) == list(range(len(VOCABULARY)))
    assert np.array_equal(REMI.transposition(-semitones)[permutation], np.arange(len(VOCABULARY)))
    down, up = REMI.headroom(tokens)
    score = REMI.decode(tokens)
    assert (21 - score.notes["pitch"].min(), 108 - score.notes["pitch"].max()) == (down, up)
    assume(down <= semitones <= up)
    transposed = REMI.decode(permutation[tokens])
    assert REMI.grammar.errors(permutation[tokens]) == []
    assert np.array_equal(transposed.notes["pitch"], score.notes["pitch"] + semitones)
    for name in ("start", "end", "velocity"):
        assert np.array_equal(transposed.notes[name], score.notes[name])
    assert [mark.chord for mark in transposed.chords] == [mark.chord.transposed(semitones) for mark in score.chords]


@pytest.mark.parametrize("corpus", ["pop1k7", "pop909"])
def test_every_real_song_is_accepted_and_comes_back(corpus: str, real_data: Callable[[str], Path]) -> None:
    folder = real_data(corpus)
    layout, paths = find_songs(folder, "auto")
    assert layout == corpus
    kept = 0
    for path in islice(paths, 0, None, 23):
        score = load_song(folder, path, layout)
        try:
            tokens = REMI.encode(score).tokens
        except TokenError as error:
            assert "not in 4/4" in str(error)  # noqa: PT017
            continue
        kept += 1
        assert REMI.grammar.errors(tokens) == [], path
        assert REMI.decode(tokens) == quantise(score)[0]
        assert np.array_equal(REMI.encode(REMI.decode(tokens)).tokens, tokens)
    assert kept > 30
