from __future__ import annotations

import numpy as np
import pytest
from gapped import EXTENDED, bars_of, gapped_groove, gapped_walk, random_gaps
from hypothesis import given, settings
from hypothesis import strategies as st
from trios import GROOVE, random_groove

from musicgen.languages import Tokens
from musicgen.languages.groove.codec import decode_report, encode_notes
from musicgen.languages.groove.gaps import cut_notes, joined
from musicgen.languages.groove.time import BAR
from musicgen.languages.infill import Gap
from musicgen.midi.score import make_notes

WORDS, GRAMMAR, INFILL = EXTENDED.vocabulary, EXTENDED.grammar, EXTENDED.infill
seeds = st.integers(0, 2**32)
NOTE = ["NoteOn_1_40", "Shift_0_6", "NoteOff_1_40"]


def gaps_of(tokens: Tokens) -> list[Gap]:
    """The gaps of a sequence, as its grammar reads them."""
    state, gaps, part = GRAMMAR.start(), list[Gap](), ""
    for token in tokens.tolist():
        state.advance(token)
        family, value = GRAMMAR.meaning[token]
        if family == "Gap":
            gaps.append(Gap(state.counters.gaps[-1].start // BAR, value + 1, part))
        part = INFILL.parts[value] if family == "Part" else ""
    return gaps


def test_the_ids_of_the_paper_keep_their_meaning() -> None:
    assert WORDS.names[: len(GROOVE.vocabulary)] == GROOVE.vocabulary.names
    assert WORDS.names[len(GROOVE.vocabulary) :] == (
        "Part_bass", "Part_drums", "Part_other", *(f"Gap_{bars}" for bars in range(1, 17)), "Fill",
    )  # fmt: skip
    piece = random_groove(3, 200)
    assert GRAMMAR.errors(piece) == []
    assert np.array_equal(EXTENDED.clock(piece), GROOVE.clock(piece))
    assert np.array_equal(EXTENDED.decode(piece).notes, GROOVE.decode(piece).notes)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, length=st.integers(10, 250))
def test_filling_back_in_gives_the_piece_and_the_grammar_accepts_what_was_taken_out(seed: int, length: int) -> None:
    piece = random_groove(seed, length)
    gaps = random_gaps(seed, bars_of(piece))
    tokens = INFILL.take_out(piece, gaps)
    assert GRAMMAR.errors(tokens) == []
    assert gaps_of(tokens) == list(gaps)
    start, stop, key, missing = cut_notes(decode_report(piece)[0].notes, gaps)
    whole = INFILL.put_in(tokens)
    assert np.array_equal(whole, encode_notes(joined(start, stop, key)))
    assert np.array_equal(INFILL.take_out(whole, gaps), tokens)
    assert np.array_equal(EXTENDED.decode(tokens).notes, GROOVE.decode(whole).notes)
    if not any((stop[missing < 0] > BAR * gap.first).any() for gap in gaps):  # nothing that stays sounds at a gap
        lasts = GROOVE.decode(piece).notes
        assert len(lasts) == len(start)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, length=st.integers(10, 80))
def test_everything_that_the_grammar_accepts_is_written_by_taking_bars_out(seed: int, length: int) -> None:
    tokens = gapped_walk(seed, length)
    gaps = gaps_of(tokens)
    assert gaps
    assert np.array_equal(INFILL.take_out(INFILL.put_in(tokens), gaps), tokens)


@settings(max_examples=3, deadline=None)
@given(seed=seeds)
def test_the_mask_says_what_the_validator_says(seed: int) -> None:
    state = GRAMMAR.start()
    for token in gapped_groove(seed, 60).tolist():
        mask = state.mask()
        assert mask.tolist() == [state.admits(other) for other in range(len(WORDS))]
        assert mask[token]
        state.advance(token)


def test_moved_bars_keep_their_time() -> None:
    notes = make_notes(BAR * np.arange(6), BAR * np.arange(6) + 6, [36, 38, 40, 41, 43, 45], 64, 0)
    names = WORDS.to_names(INFILL.take_out(encode_notes(notes), [Gap(2, 2)]))
    assert names == [
        "BOS", "NoteOn_1_36", "Shift_0_6", "NoteOff_1_36", "Shift_2_0", "Shift_2_0", "NoteOn_1_38", "Shift_0_6",
        "NoteOff_1_38", "Shift_2_0", "Shift_2_0", "Gap_2", "NoteOn_1_43", "Shift_0_6", "NoteOff_1_43", "Shift_2_0",
        "Shift_2_0", "NoteOn_1_45", "Shift_0_6", "NoteOff_1_45", "Fill", "NoteOn_1_40", "Shift_0_6", "NoteOff_1_40",
        "Shift_2_0", "Shift_2_0", "NoteOn_1_41", "Shift_0_6", "NoteOff_1_41", "EOS",
    ]  # fmt: skip
    times = dict(zip(names, EXTENDED.clock(WORDS.to_ids(names)).tolist(), strict=True))
    assert [times[name] for name in ("Gap_2", "NoteOn_1_43", "Fill", "NoteOn_1_40", "NoteOn_1_41")] == [
        16,
        16,
        8,
        8,
        12,
    ]


def test_one_part_is_taken_out_under_the_others() -> None:
    notes = make_notes([0, 0, BAR, BAR, 2 * BAR], [6, 6, 54, 54, 102], [36, 40, 36, 41, 36], 64, [1, 0, 1, 0, 1])
    names = WORDS.to_names(INFILL.take_out(encode_notes(notes), [Gap(1, 1, "drums")]))
    assert names[names.index("Part_drums") :] == [
        "Part_drums", "Gap_1", "NoteOn_1_41", "Shift_0_6", "NoteOff_1_41", "Shift_2_0", "Shift_2_0", "NoteOn_2_36",
        "Shift_0_6", "NoteOff_2_36", "Fill", "NoteOn_2_36", "Shift_0_6", "NoteOff_2_36", "EOS",
    ]  # fmt: skip


def test_notes_over_the_seams() -> None:
    """Notes 40, 41: begin before a gap of one bar, and end in it, or after it. 42, 43: begin in it, and last."""
    notes = make_notes(
        [24, 24, 60, 60, 2 * BAR + 12], [60, 100, 2 * BAR + 6, 2 * BAR + 30, 2 * BAR + 30], [40, 41, 42, 43, 43], 64, 0
    )
    start, stop, key, missing = cut_notes(notes, [Gap(1, 1)])
    assert dict(zip(key.tolist(), zip(stop.tolist(), missing.tolist(), strict=True), strict=False)) == {
        40: (BAR, -1), 41: (100, -1), 42: (2 * BAR + 6, 0), 43: (2 * BAR + 30, -1),
    }  # fmt: skip
    assert stop[(key == 43) & (missing == 0)].tolist() == [2 * BAR + 12]  # where its key is struck again
    state = GRAMMAR.start()
    tokens = INFILL.take_out(encode_notes(notes), [Gap(1, 1)])
    for token in tokens[: int((tokens == INFILL.fill).argmax()) + 1].tolist():
        assert state.advance(token)
    assert state.counters.sounding[41]
    assert not state.counters.free[41]  # it is held through the gap, and ends after it
    assert not state.admits(WORDS["NoteOn_1_41"])
    assert start.shape == (len(notes),)


@pytest.mark.parametrize(
    "names",
    [
        ["BOS", *NOTE, "Gap_1"],  # not on a bar line
        ["BOS", "NoteOn_1_40", "Gap_1"],
        ["BOS", "Gap_2", "Fill", "NoteOn_1_40", "Gap_1"],  # a gap in a fill
        ["BOS", "Gap_2", *NOTE, "EOS"],  # a gap without a fill
        ["BOS", "Gap_2", "Part_bass", "Fill"],
        ["BOS", "Fill"],
        ["BOS", *NOTE, "Fill"],
        ["BOS", "Gap_1", "NoteOn_1_40", "Fill"],  # something sounds
        ["BOS", "Gap_1", "Fill", "Fill"],  # there is one gap
        ["BOS", "Gap_1", "Gap_1", "Fill", "EOS"],  # there are two
        ["BOS", "Gap_1", "Fill", "Shift_2_0", "Shift_2_0"],  # nothing begins after the gap
        ["BOS", "Part_bass", "Gap_1", "NoteOn_1_40"],  # the part that is missing
        ["BOS", "Part_bass", "Gap_1", "Gap_1"],  # in the gap
        ["BOS", "Part_bass", "Gap_1", "Fill", "NoteOn_2_40"],  # another part
        ["BOS", "Gap_1", *NOTE, "Fill", "Shift_1_6", "NoteOn_1_40", "Shift_2_0", "Shift_1_6"],  # past the next strike
    ],
)
def test_the_last_token_may_not_follow(names: list[str]) -> None:
    errors = GRAMMAR.errors(WORDS.to_ids(names), complete=False)
    assert [error.place for error in errors] == [len(names) - 1]


@settings(max_examples=30, deadline=None)
@given(seed=seeds, length=st.integers(20, 300))
def test_examples_fit_their_windows_and_are_sequences_with_gaps(seed: int, length: int) -> None:
    piece = random_groove(seed, 250)
    tokens = INFILL.example(piece, length, np.random.default_rng(seed))
    if tokens is None:  # there are too few bars, or the gaps that were drawn would cut notes
        notes, bar = EXTENDED.decode(piece).notes, 4 * EXTENDED.decode(piece).ticks_per_beat
        is_tied = notes["start"] // bar != (notes["end"] - 1) // bar
        assert is_tied.any() or EXTENDED.complete_bars(piece)[min(length, len(piece) - 1)] < 3
        return
    assert len(tokens) <= length + 1
    assert GRAMMAR.errors(tokens) == []
    assert INFILL.fill in tokens
    again = INFILL.example(piece, length, np.random.default_rng(seed))
    assert again is not None
    assert np.array_equal(tokens, again)
