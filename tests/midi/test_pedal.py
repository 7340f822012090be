"""A pedal lengthens the notes that end while it is down, and no others."""

from __future__ import annotations

import mido
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musicgen.languages.prompt import load_prompt
from musicgen.midi import read_midi
from musicgen.midi.pedal import hold
from musicgen.midi.score import PEDAL, Score, Track, make_notes
from musicgen.request import PromptReading

PITCHES, LENGTH = 4, 40


def played(pedals: list[tuple[int, int, bool]], *notes: tuple[int, int, int, int]) -> Score:
    start, end, pitch, track = zip(*notes, strict=True)
    tracks = (Track("Left"), Track("Right"), Track("Drums", is_drum=True))
    return Score(
        8, make_notes([*start], [*end], [*pitch], 64, [*track]), tracks, pedals=np.array(sorted(pedals), PEDAL)
    )


def sounding(score: Score) -> set[tuple[int, int, int]]:
    """Every tick at which a key of a track sounds, one tick at a time: the slow truth."""
    heard = set()
    for track, pitch in {(int(note["track"]), int(note["pitch"])) for note in score.notes}:
        down, keys, is_ringing = False, 0, False
        for tick in range(score.end):
            for row in score.pedals[(score.pedals["tick"] == tick) & (score.pedals["track"] == track)]:
                down = bool(row["is_down"])
            own = score.notes[(score.notes["track"] == track) & (score.notes["pitch"] == pitch)]
            keys = int(((own["start"] <= tick) & (tick < own["end"])).sum())
            has_pedal = down and not score.tracks[track].is_drum
            is_ringing = keys > 0 or (is_ringing and has_pedal)
            if is_ringing:
                heard.add((tick, track, pitch))
    return heard


notes = st.tuples(st.integers(0, LENGTH), st.integers(1, 8), st.integers(60, 59 + PITCHES), st.integers(0, 2)).map(
    lambda note: (note[0], note[0] + note[1], note[2], note[3])
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(notes, min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, LENGTH), st.integers(0, 2), st.booleans()), max_size=8),
)
def test_what_sounds_with_pedals_is_what_the_held_notes_sound(
    notes: list[tuple[int, int, int, int]], pedals: list[tuple[int, int, bool]]
) -> None:
    keys: dict[tuple[int, int], int] = {}
    apart = []  # a key that is down cannot be struck
    for note in sorted(notes):
        if keys.get(note[2:], 0) <= note[0]:
            apart.append(note)
            keys[note[2:]] = note[1]
    score = played(pedals, *apart)
    longer, held = hold(score)
    assert not len(longer.pedals)
    assert sounding(longer) == sounding(score)
    assert (np.sort(longer.notes["start"]) == np.sort(score.notes["start"])).all()
    grown = longer.notes["end"].sum() - score.notes["end"].sum()
    assert held.notes * held.beats * 8 == pytest.approx(grown)


def test_a_note_is_held_until_the_pedal_is_released_or_its_key_is_struck_again() -> None:
    score = played([(0, 0, True), (20, 0, False)], (0, 2, 60, 0), (8, 10, 60, 0), (8, 9, 60, 1), (24, 30, 60, 0))
    longer, held = hold(score)
    assert longer.notes[["start", "end", "track"]].tolist() == [(0, 8, 0), (8, 20, 0), (8, 9, 1), (24, 30, 0)]
    assert held == (2, (6 + 10) / 2 / 8)


def test_pedals_are_read_from_files_and_can_be_left_out(tmp_path: object) -> None:
    file = mido.MidiFile(ticks_per_beat=480)
    track = mido.MidiTrack()
    file.tracks.append(track)
    for kind, number, value, time in [
        ("control_change", 64, 64, 0), ("note_on", 60, 80, 0), ("note_off", 60, 0, 240),
        ("control_change", 64, 63, 240), ("note_on", 62, 80, 0), ("control_change", 64, 127, 10),
        ("note_off", 62, 0, 0), ("note_on", 64, 80, 0), ("note_off", 64, 0, 480),
    ]:  # fmt: skip
        names = ("control", "value") if kind == "control_change" else ("note", "velocity")
        track.append(mido.Message(kind, time=time, **dict(zip(names, (number, value), strict=True))))
    path = f"{tmp_path}/pedal.mid"
    file.save(path)
    assert read_midi(path).pedals.tolist() == [(0, 0, True), (480, 0, False), (490, 0, True)]
    held, _, words = load_prompt(path, PromptReading())
    assert held.notes["end"].tolist() == [480, 970, 970]  # the last pedal is never released
    assert words == "2 notes of the file held by the pedal"
    left, _, words = load_prompt(path, PromptReading(pedal=False))
    assert left.notes["end"].tolist() == [240, 490, 970]
    assert words == ""
