"""Fills of pop piano keep every rule and change nothing outside the gap."""

from __future__ import annotations

import numpy as np
import odd_files
import pytest
import torch
from pieces import EXTENDED

from musicgen.errors import UserError
from musicgen.languages.constraints import parse_constraints
from musicgen.languages.infill import Gap, parse_gaps
from musicgen.languages.language import PLAINLY
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.key import Key
from musicgen.midi.read import parse_midi
from musicgen.midi.score import Notes, Score, TimeSignature, make_notes
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.sampling import MusicModel

WISHES: list[dict[str, object]] = [
    {}, {"key": "C", "polyphony": 3}, {"pitches": "48-72", "tempo": "90-130"}, {"chords": "C Am", "polyphony": 2},
]  # fmt: skip


@pytest.fixture(scope="module")
def model() -> MusicModel:
    torch.manual_seed(0)
    config = PerformerConfig(
        len(EXTENDED.vocabulary), num_layers=1, num_heads=2, d_model=32, d_ff=32, num_features=16, pe="rope",
        positions="time",
    )  # fmt: skip
    return MusicModel(PerformerLM(config).eval(), EXTENDED, "untrained", "3" * 64)


def outside(score: Score, gap: Gap) -> Notes:
    """The notes that do not begin in a gap of a piece in 4/4."""
    bar = score.notes["start"] // (4 * score.ticks_per_beat)
    return score.notes[(bar < gap.first) | (bar >= gap.end)]


@pytest.mark.parametrize("seed", range(8))
def test_random_fills_keep_every_rule_and_change_nothing_outside(model: MusicModel, seed: int) -> None:
    original = EXTENDED.complete(compose(seed, 8))
    gap, wishes = Gap(seed % 6, 1 + seed % 2), WISHES[seed % 4]
    piece = model.fill(original, str(gap), seed=seed, **wishes)
    assert EXTENDED.grammar.errors(piece.tokens) == []
    assert (piece.errors, piece.bars, sum(piece.sizes)) == (0, 8, len(piece.tokens))
    before, after = outside(original, gap), outside(piece.score, gap)
    same = ["start", "pitch", "velocity", "track"]
    assert np.array_equal(before[same], after[same])
    late = before["start"] >= 4 * gap.end * original.ticks_per_beat
    assert np.array_equal(before[late], after[late])
    new = piece.score.notes[~np.isin(piece.score.notes[same], after[same])]
    assert len(new)
    if "key" in wishes:
        key = Key.parse("C")
        assert key is not None
        assert set((new["pitch"] % 12).tolist()) <= key.pitch_classes
    if "pitches" in wishes:
        assert ((new["pitch"] >= 48) & (new["pitch"] <= 72)).all()
    at_end = [tempo for tick, tempo in original.tempos.tolist() if tick <= 4 * gap.end * original.ticks_per_beat][-1]
    kept = [tempo for tick, tempo in piece.score.tempos.tolist() if tick <= 4 * gap.end * original.ticks_per_beat][-1]
    assert kept == at_end


@pytest.mark.parametrize("fill", ["1-3", "6-8"])
@pytest.mark.parametrize("polyphony", [1, 3])
def test_even_the_laziest_player_begins_and_ends_a_piece_with_a_note(fill: str, polyphony: int) -> None:
    infill, vocabulary = EXTENDED.infill, EXTENDED.vocabulary
    read = infill.read(compose(1, 8), parse_gaps(fill, ()), PLAINLY)
    tokens, leads = infill.begin(read.piece, read.gaps)
    mask = EXTENDED.mask(parse_constraints(bars=8, polyphony=polyphony), tokens, 0, {**read.setting, **leads})
    for number in range(200):
        allowed = np.flatnonzero(mask.mask()).tolist()
        # A bar line as soon as possible, and now and then a note that is as long as possible.
        wants_note = number % 5 and any(vocabulary.names[token].startswith("Beat") for token in allowed)
        token = allowed[-1] if wants_note or vocabulary["Bar"] not in allowed else vocabulary["Bar"]
        mask.advance(token)
        tokens.append(token)
        if mask.is_complete:
            break
    assert mask.is_complete
    assert EXTENDED.grammar.errors(infill.put_in(tokens)) == []


def test_held_notes_that_leave_no_room_are_an_error(model: MusicModel) -> None:
    notes = make_notes([0, 3 * 1920], [4 * 1920, 4 * 1920], [48, 60], 64)
    with pytest.raises(UserError, match="leave no room for another"):
        model.fill(Score(480, notes), "4", polyphony=1)


def test_bars_are_counted_as_tokens_count_them_after_an_incomplete_first_bar(model: MusicModel) -> None:
    original = parse_midi(odd_files.pickup())  # its first bar has one beat, and becomes a whole one
    piece = model.fill(original, "3", seed=1)
    before, after = original.notes.copy(), outside(piece.score, Gap(2, 1))
    before["start"] += 3 * original.ticks_per_beat
    before["end"] += 3 * original.ticks_per_beat
    before = outside(original.replace(notes=before), Gap(2, 1))
    assert np.array_equal(before, after)
    new = piece.score.notes["start"][~np.isin(piece.score.notes, after)]
    assert len(new)
    assert piece.prompt_report.endswith("the first bar (1/4) begins with a rest; 4 bars, 3 to fill")
    assert ((new >= 8 * 480) & (new < 12 * 480)).all()


def test_neighbours_are_one_gap_and_a_gap_has_one_metre(model: MusicModel) -> None:
    original = compose(3, 8)
    assert (
        model.fill(original, "3,4", seed=1, polyphony=1).tokens
        == model.fill(original, "3-4", seed=1, polyphony=1).tokens
    )
    changed = original.replace(time_signatures=(TimeSignature(0, 4, 4), TimeSignature(4 * 1920, 3, 4)))
    with pytest.raises(UserError, match="the metre changes in these bars"):
        model.fill(changed, "4-5")
