"""Odd files as prompts and in corpora: what can be used is kept, and the rest is refused with a true reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import odd_files
import pytest
from odd_files import FILES

from musicgen.data.prepare import find_songs, read_files
from musicgen.errors import UserError
from musicgen.languages import ExtendedRemi, Groove, Language, Remi
from musicgen.languages.comparison import compare
from musicgen.languages.song import Song
from musicgen.midi.read import MidiError, parse_midi

EXTENDED, PAPER, GROOVE = ExtendedRemi(), Remi(), Groove()
NOT_COMMON = "not in 4/4 ({} from beat 1 on)"
REFUSED: dict[str, dict[str, str]] = {
    "two_signatures": dict.fromkeys(("remi", "groove"), NOT_COMMON.format("3/4")),
    "mixed_metres": dict.fromkeys(("remi", "groove"), NOT_COMMON.format("5/8")),
    "waltz_band": dict.fromkeys(("remi", "groove"), NOT_COMMON.format("3/4")),
    "strange_metre": dict.fromkeys(("remi", "groove"), NOT_COMMON.format("11/16"))
    | {"remi-extended": "not in a metre that tokens can say (11/16 from beat 1 on)"},
    "no_notes": dict.fromkeys(("remi", "remi-extended", "groove"), "no notes"),
    "hanging": dict.fromkeys(("remi", "remi-extended", "groove"), "no notes"),
    "only_drums": dict.fromkeys(("remi", "remi-extended"), "no notes but drums"),
}
"""Why a language refuses a file. It takes all others."""
UNREADABLE = {
    "smpte": "times in SMPTE frames, not in beats: export it with a musical time base",
    "too_long": "longer than 200,000 beats",
}
DONE = {
    "pickup": "the first bar (1/4) begins with a rest",
    "strange_metre_later": "11/16 from beat 9 on cannot be said, so only what is before it is used",
    "held_pedal": "15 notes of the file held by the pedal",
    "ten_tracks": "32 of drums left out",
}
"""What the report of extended piano says."""


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("language", [EXTENDED, PAPER, GROOVE], ids=lambda language: language.name)
def test_a_prompt_is_taken_or_refused_with_one_true_sentence(language: Language, make: Callable[[], bytes]) -> None:
    name = make.__name__
    if name in UNREADABLE:
        with pytest.raises(MidiError) as unreadable:
            parse_midi(make())
        assert str(unreadable.value) == UNREADABLE[name]
        return
    score = parse_midi(make())
    why = REFUSED.get(name, {}).get(language.name)
    if why is not None:
        with pytest.raises(UserError) as refused:
            language.read_prompt(score, None)
        assert str(refused.value) == f"the prompt: cannot be a prompt for a model of {language.name} tokens: {why}"
        return
    for bars in (None, 1):
        prompt = language.read_prompt(score, bars)
        assert language.grammar.errors(prompt.tokens, complete=False) == []
        assert bars is None or prompt.bars == 1
    if language is EXTENDED:
        assert DONE.get(name, "") in language.read_prompt(score, None).report
        assert "moved" not in language.read_prompt(score, None).report


@pytest.mark.parametrize("make", [odd_files.swing, odd_files.triplets, odd_files.mixed_metres, odd_files.tempo_ramp])
def test_swing_triplets_metres_and_tempos_are_kept(make: Callable[[], bytes]) -> None:
    score = parse_midi(make())
    decoded = EXTENDED.decode(EXTENDED.encode(score).tokens)
    for name in ("start", "end", "pitch"):
        assert np.array_equal(decoded.notes[name], score.notes[name]), name
    kept = [item for item in score.time_signatures if item.tick <= int(score.notes["start"].max())]
    assert [*decoded.time_signatures] == kept or not kept
    assert np.allclose(decoded.seconds(decoded.notes["start"]), score.seconds(score.notes["start"]), atol=0.02)


def test_a_corpus_has_a_line_for_each(tmp_path: Path) -> None:
    for make in FILES:
        (tmp_path / f"{make.__name__}.mid").write_bytes(make())
    _, found = find_songs(tmp_path, "folder", "pop_piano", "extended")
    for read in read_files(EXTENDED, tmp_path, found, 1):
        song = read if isinstance(read, Song) else read.song
        name = song.path.removesuffix(".mid")
        why = UNREADABLE.get(name) or REFUSED.get(name, {}).get(EXTENDED.name)
        assert (song.path, song.dropped) == (song.path, why)
        assert (song.notes > 0) == (why is None)


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("language", [EXTENDED, PAPER, GROOVE], ids=lambda language: language.name)
def test_a_file_and_its_tokens_are_in_the_same_bars(language: Language, make: Callable[[], bytes]) -> None:
    name = make.__name__
    if name in UNREADABLE or language.name in REFUSED.get(name, {}):
        return
    before, after, report = compare(language, parse_midi(make()))
    assert report.startswith("the prompt: ")
    assert len(before.notes) >= len(after.notes)
    places = [score.notes["start"] / score.ticks_per_beat for score in (before, after)]
    away = np.abs(places[0][:, None] - places[1]).min(1)
    assert away.max() <= 0.5 / language.grid + 1e-9


def test_a_band_in_two_four_is_a_groove() -> None:
    prompt = GROOVE.read_prompt(parse_midi(odd_files.band_in_two_four()), 4)
    assert prompt.report == "the prompt: 48 notes, 2/4 read as 4/4; 4 of 8 bars taken"
    whole = GROOVE.read_prompt(parse_midi(odd_files.strange_metre_later()), None).report
    assert "11/16 from beat 9 on cannot be said" in whole
    assert "11/16" not in GROOVE.read_prompt(parse_midi(odd_files.strange_metre_later()), 1).report
