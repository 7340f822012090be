from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from trios import GROOVE, bands, random_groove, trio_notes

from benchmarks.plain_groove import encode_plainly
from musicgen.languages import TokenError, Tokens, quantise_trio
from musicgen.languages.groove.quantise import TRIO, choose_trio
from musicgen.midi import Score, TimeSignature, Track, make_notes, read_midi, write_midi
from musicgen.midi.read import parse_file
from musicgen.midi.score import NOTE, Notes

VOCABULARY = GROOVE.vocabulary
COLUMNS = ["start", "end", "pitch", "track"]


def test_the_vocabulary_is_the_papers_id_by_id() -> None:
    shifts = [(0, tick) for tick in range(1, 12)] + [(1, tick) for tick in range(12)] + [(2, 0)]
    notes = [(track, pitch) for track in (1, 2, 3) for pitch in range(128)]
    names = [f"NoteOn_{track}_{pitch}" for track, pitch in notes]
    names += [f"NoteOff_{track}_{pitch}" for track, pitch in notes]
    names += [f"Shift_{beats}_{tick}" for beats, tick in shifts]
    assert VOCABULARY.names == (*names, "EOS", "BOS")
    assert (len(VOCABULARY), GROOVE.end, GROOVE.first) == (794, 792, 793)


@pytest.mark.parametrize(
    ("start", "end", "shifts"),
    [
        (0, 36, ["Shift_2_0", "Shift_1_0"]),
        (11, 47, ["Shift_2_0", "Shift_1_11"]),
        (3, 27, ["Shift_2_0", "Shift_0_3"]),
        (3, 24, ["Shift_2_0"]),
        (3, 12, ["Shift_1_0"]),
        (3, 4, ["Shift_0_4"]),
        (11, 60, ["Shift_2_0", "Shift_2_0", "Shift_1_0"]),
        (5, 53, ["Shift_2_0", "Shift_2_0", "Shift_0_5"]),
    ],
)
def test_shifts_are_the_published_ones(start: int, end: int, shifts: list[str]) -> None:
    names = VOCABULARY.to_names(GROOVE.encode_notes(make_notes([start], [end], [60], 64)))
    on = names.index("NoteOn_1_60")
    assert names[on + 1 : -2] == shifts
    assert names[on - 1] == (f"Shift_0_{start}" if start else "BOS")


def test_a_chord_off_the_beat_needs_one_shift() -> None:
    notes = make_notes([3, 3, 3], [6, 6, 6], [67, 60, 64], 64, [2, 2, 0])
    assert VOCABULARY.to_names(GROOVE.encode_notes(notes)) == [
        "BOS", "Shift_0_3", "NoteOn_1_64", "NoteOn_3_60", "NoteOn_3_67",
        "Shift_0_6", "NoteOff_1_64", "NoteOff_3_60", "NoteOff_3_67", "EOS",
    ]  # fmt: skip


def test_what_sounds_ends_where_it_is_struck_again() -> None:
    notes = make_notes([0, 6, 6, 12], [20, 8, 9, 12], [60, 60, 60, 60], 64, 2)
    assert VOCABULARY.to_names(GROOVE.encode_notes(notes)) == [
        "BOS", "NoteOn_3_60", "Shift_0_6", "NoteOff_3_60", "NoteOn_3_60", "Shift_0_9", "NoteOff_3_60",
        "Shift_1_0", "NoteOn_3_60", "Shift_0_1", "NoteOff_3_60", "EOS",
    ]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(notes=trio_notes())
def test_encoding_is_what_a_loop_writes_and_the_grammar_accepts(notes: Notes) -> None:
    tokens = GROOVE.encode_notes(notes)
    assert tokens.tolist() == encode_plainly(notes)
    assert GROOVE.grammar.errors(tokens) == []
    assert np.array_equal(GROOVE.encode_notes(GROOVE.decode(tokens).notes), tokens)


@settings(max_examples=60, deadline=None)
@given(notes=trio_notes(), end=st.integers(1, 300))
def test_what_is_cut_off_is_not_there(notes: Notes, end: int) -> None:
    assume((notes["start"] < end).any())
    whole = GROOVE.decode(GROOVE.encode_notes(notes)).notes
    part = whole[whole["start"] < end]
    part["end"] = np.minimum(part["end"], end)
    assert np.array_equal(GROOVE.decode(GROOVE.encode_notes(notes, end=end)).notes, part)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 400))
def test_what_the_grammar_accepts_comes_back(seed: int, length: int) -> None:
    tokens = random_groove(seed, length)
    score, report = GROOVE.decode_report(tokens)
    assert np.array_equal(GROOVE.encode_notes(score.notes), tokens)
    assert np.array_equal(GROOVE.encode(score).tokens, tokens)
    assert vars(report) == dict.fromkeys(vars(report), 0) | {"notes": len(score.notes)}
    assert (score.ticks_per_beat, score.tracks, len(score.tempos)) == (12, TRIO, 0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_so_it_does_from_a_midi_file(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "groove.mid"
    tokens = random_groove(seed, 300)
    write_midi(GROOVE.decode(tokens), path)
    assert np.array_equal(GROOVE.encode(read_midi(path)).tokens, tokens)


def comes_back(tokens: Tokens) -> bool:
    try:
        return np.array_equal(GROOVE.encode_notes(GROOVE.decode(tokens).notes), tokens)
    except TokenError:
        return False


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_the_grammar_accepts_nothing_else(seed: int, data: st.DataObject) -> None:
    """A piece with a token changed, moved or gone is accepted if and only if encoding could have written it."""
    tokens = random_groove(seed, 30)
    place, other = (data.draw(st.integers(0, len(tokens) - 1)) for _ in range(2))
    token = data.draw(st.one_of(st.sampled_from(tokens.tolist()), st.integers(768, 793), st.integers(0, 793)))
    match data.draw(st.sampled_from(["change", "delete", "insert", "swap"])):
        case "change":
            tokens[place] = token
        case "delete":
            tokens = np.delete(tokens, place)
        case "insert":
            tokens = np.insert(tokens, place, token)
        case _:
            tokens[[place, other]] = tokens[[other, place]]
    accepted = not GROOVE.grammar.errors(tokens)
    assert accepted == comes_back(tokens)


@pytest.mark.parametrize(
    ("notes", "reason"),
    [
        (make_notes([-1], [5], [60], 64), "begins at tick -1"),
        (make_notes([0], [5], [128], 64), "pitches 0 to 127"),
        (make_notes([0], [5], [60], 64, 3), "tracks 0 to 2"),
    ],
)
def test_what_is_no_note_of_a_trio_is_refused(notes: Notes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        GROOVE.encode_notes(notes)


def test_no_notes_are_refused() -> None:
    with pytest.raises(TokenError, match="no notes"):
        GROOVE.encode_notes(np.empty(0, NOTE))
    with pytest.raises(TokenError, match="no notes"):
        GROOVE.encode_notes(make_notes([12], [15], [60], 64), end=12)


def test_what_is_wrong_with_tokens_is_counted_and_got_over() -> None:
    names = [
        "BOS",
        "NoteOff_1_40",
        "NoteOn_1_40",
        "Shift_0_6",
        "NoteOn_1_40",
        "Shift_0_6",
        "NoteOn_3_60",
        "NoteOff_3_60",
    ]
    names += ["Shift_0_3", "Shift_1_0", "BOS", "NoteOn_2_36"]
    tokens = [*VOCABULARY.to_ids(names).tolist(), 9999, -1, GROOVE.end, VOCABULARY["NoteOn_1_50"]]
    score, report = GROOVE.decode_report(tokens)
    assert vars(report) == {
        "notes": 4, "unclosed": 2, "restruck": 1, "instant": 1,
        "spurious": 1, "null_shifts": 1, "backward_shifts": 1, "skipped": 3,
    }  # fmt: skip
    rows = [(0, 6, 40, 0), (6, 12, 40, 0), (6, 7, 60, 2), (12, 13, 36, 1)]
    assert score.notes[COLUMNS].tolist() == rows


@settings(max_examples=100, deadline=None)
@given(tokens=st.lists(st.one_of(st.integers(0, 793), st.integers(-3, 70000), st.integers(768, 791)), max_size=60))
def test_any_ids_decode_to_notes_that_last(tokens: list[int]) -> None:
    score, report = GROOVE.decode_report(tokens)
    assert report.notes == len(score.notes)
    assert (score.notes["end"] > score.notes["start"]).all()
    assert (score.notes["start"] >= 0).all()


def test_a_piece_cut_anywhere_decodes_to_its_beginning() -> None:
    tokens = random_groove(3, 200)
    whole = GROOVE.decode(tokens).notes
    for length in range(len(tokens)):
        part, report = GROOVE.decode_report(tokens[:length])
        closed = part.end + (part.end == 0)
        expected = whole[np.isin(whole[["start", "pitch", "track"]], part.notes[["start", "pitch", "track"]])]
        assert len(expected) == len(part.notes) == report.notes
        assert (part.notes["end"] <= np.maximum(expected["end"], closed)).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), semitones=st.integers(-30, 30))
def test_transposing_tokens_transposes_all_but_the_drums(seed: int, semitones: int) -> None:
    tokens = random_groove(seed, 60)
    tokens = tokens[~np.isin(tokens % 384, [1, 5, 127, 256, 383]) | (tokens >= 768)]  # leave some headroom, at times
    mapping = GROOVE.transposition(semitones)
    down, up = GROOVE.headroom(tokens)
    before, after = GROOVE.decode(tokens).notes.copy(), GROOVE.decode(mapping[tokens]).notes
    pitched = before["pitch"][before["track"] != 1]
    assert (down, up) == ((-pitched.min(), 127 - pitched.max()) if len(pitched) else (-128, 128))
    if down <= semitones <= up:
        before["pitch"] += np.where(before["track"] != 1, semitones, 0).astype(np.int16)
        assert np.array_equal(np.sort(before), np.sort(after))
        assert np.array_equal(GROOVE.transposition(-semitones)[mapping[tokens]], tokens)


@pytest.mark.parametrize("semitones", [-30, -12, -5, 0, 1, 6, 12, 127])
def test_what_leaves_the_range_is_folded_by_octaves(semitones: int) -> None:
    mapping = GROOVE.transposition(semitones).astype(int)
    ids = np.arange(len(VOCABULARY))
    assert np.array_equal(mapping[ids >= 768], ids[ids >= 768])
    track, pitch = np.divmod(ids[:768] % 384, 128)
    assert np.array_equal(mapping[:768] // 128, ids[:768] // 128)
    folded = mapping[:768] % 128 - pitch - semitones
    drums = track == 1
    inside = (pitch + semitones >= 0) & (pitch + semitones < 128)
    assert np.array_equal(mapping[:768][drums], ids[:768][drums])
    assert (folded[inside & ~drums] == 0).all()
    assert (folded[~drums] % 12 == 0).all()


@settings(max_examples=150, deadline=None)
@given(score=bands())
def test_decoding_gives_the_quantised_trio_and_nothing_else(score: Score) -> None:
    trio, report = quantise_trio(score)
    tokens, same_report = GROOVE.encode(score)
    assert GROOVE.decode(tokens) == trio
    assert same_report == report
    assert GROOVE.grammar.errors(tokens) == []
    assert report.notes == len(score.notes) == len(trio.notes) + report.merged + report.dropped
    again, nothing = quantise_trio(trio)
    assert again == trio
    assert vars(nothing) == dict.fromkeys(vars(nothing), 0) | {"notes": len(trio.notes), "metre": ""}


def test_what_quantising_did_is_counted() -> None:
    # at 96 ticks per beat, 8 to a tick: bass on the grid; struck again; its twin; drums off the grid and short;
    # piano; fewer strings
    notes = make_notes(
        [0, 48, 51, 5, 96, 192, 0],
        [96, 64, 80, 6, 192, 288, 960],
        [40, 40, 40, 36, 60, 62, 70],
        64,
        [0, 0, 0, 1, 2, 2, 3],
    )
    tracks = (Track("Bass", 32), Track("Drums", 0, True), Track("Piano", 0), Track("Strings", 48))
    score = Score(96, notes, tracks)
    trio, report = quantise_trio(score)
    assert str(report) == "7 notes, 2 moved (16 ms on average), 1 lengthened, 1 trimmed, 1 merged"
    assert report.dropped == 1
    assert choose_trio(score) == ((0,), (1,), (2,))
    assert trio.notes[COLUMNS].tolist() == [
        (0, 6, 40, 0),
        (1, 2, 36, 1),
        (6, 10, 40, 0),
        (12, 24, 60, 2),
        (24, 36, 62, 2),
    ]


def test_drums_are_one_part_and_so_are_basses() -> None:
    tracks = (Track("Kit", 0, True), Track("Walk", 32), Track("Bass", 33), Track("More", 0, True), Track("Solo", 35))
    notes = make_notes([0, 0, 12, 12, 0], [6, 12, 24, 18, 24], [36, 40, 41, 38, 70], 64, [0, 1, 2, 3, 4])
    score = Score(12, notes, tracks)
    assert choose_trio(score) == ((1, 2), (0, 3), (4,))
    assert quantise_trio(score)[0].notes["track"].tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (Score(12, np.empty(0, NOTE)), "no notes"),
        (Score(12, make_notes([0], [1], [60], 64), time_signatures=(TimeSignature(0, 3, 4),)), "3/4 from beat 1 on"),
    ],
)
def test_what_cannot_be_said_is_refused_with_a_reason(score: Score, reason: str) -> None:
    with pytest.raises(TokenError, match=reason):
        GROOVE.encode(score)


def test_every_real_groove_is_accepted_and_comes_back(real_data: Callable[[str], Path]) -> None:
    paths = list(islice(sorted(real_data("grooves").rglob("*.mid")), 0, None, 22))
    for path in paths:
        score = parse_file(path)
        tokens = GROOVE.encode(score).tokens
        trio = quantise_trio(score)[0]
        assert tokens.tolist() == encode_plainly(trio.notes)
        assert GROOVE.grammar.errors(tokens) == [], path
        assert GROOVE.decode(tokens) == trio
    assert len(paths) > 50
