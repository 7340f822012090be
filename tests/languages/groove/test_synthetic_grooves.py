"""The built-in band: as many styles as anybody wants, each of them itself in every piece."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.languages.groove.synthetic import VARIANTS, compose_groove, draw_style, family_of, style_name
from musicgen.languages.groove.table import BAR, make_table
from musicgen.midi.parts import parts
from musicgen.midi.score import Score


def onsets(score: Score, track: int, bar: int) -> list[tuple[int, int]]:
    notes = make_table(score).notes
    chosen = notes[(notes["track"] == track) & (notes["start"] // BAR == bar)]
    return sorted(zip((chosen["start"] % BAR).tolist(), chosen["pitch"].tolist(), strict=True))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(0, 10**4), st.integers(1, 12))
def test_every_piece_has_bass_drums_and_two_or_three_others_and_exactly_its_bars(
    seed: int, style: int, bars: int
) -> None:
    score = compose_groove(seed, style, bars)
    assert score == compose_groove(seed, style, bars)
    found = parts(score)
    assert found[:2] == ["bass", "drums"]
    assert found.count("other") in (2, 3)
    assert set(score.notes["track"].tolist()) == set(range(len(score.tracks)))
    assert score.notes["pitch"].min() >= 24
    assert score.notes["pitch"].max() <= 90
    table = make_table(score)
    assert table.bars == bars
    assert len(table.notes) == len(score.notes)  # already on the grid, and no two are one
    assert score.end <= bars * 4 * score.ticks_per_beat


def test_a_style_is_the_same_groove_in_every_piece_and_key() -> None:
    for style in range(30):
        first, second = compose_groove(1, style, 4), compose_groove(2, style, 4)
        for bar in range(4):
            assert onsets(first, 1, bar) == onsets(second, 1, bar)
            assert [time for time, _ in onsets(first, 0, bar)] == [time for time, _ in onsets(second, 0, bar)]
    assert len({compose_groove(seed, 0, 4).notes["pitch"].tobytes() for seed in range(20)}) > 10


def test_styles_of_a_family_are_kin_and_families_differ() -> None:
    styles = [draw_style(number) for number in range(60)]
    assert len({style.drums[:3] for style in styles}) > 15
    assert len({style.bass for style in styles}) > 40
    assert {len(style.feel) for style in styles} == {2, 3, 4}
    for number in range(0, 60, VARIANTS):
        family = styles[number : number + VARIANTS]
        assert len({style.drums[:3] for style in family}) == 1
        assert len({family_of(number + place) for place in range(VARIANTS)}) == 1
        assert len(set(family)) == VARIANTS
    assert len({style_name(number) for number in range(60)}) == 60


def test_there_are_fills_and_nothing_else_changes_the_drums() -> None:
    score = compose_groove(3, 4, 16)
    bars = [onsets(score, 1, bar) for bar in range(16)]
    plain = [bar for number, bar in enumerate(bars) if number % 8 != 7]
    assert all(bar == plain[0] for bar in plain)
    assert np.any([bars[7] != plain[0], bars[15] != plain[0]])


def test_no_bars_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 bar"):
        compose_groove(0, 0, 0)
