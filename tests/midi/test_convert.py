"""A score comes back from the objects of other packages as it went."""

from __future__ import annotations

import io

import miditoolkit
import muspy
import numpy as np
import pretty_midi
import pytest
from hypothesis import given, settings
from score_strategies import scores

from musicgen.midi.chord import NO_CHORD, Chord
from musicgen.midi.convert import (
    from_miditoolkit,
    from_muspy,
    from_pretty_midi,
    to_miditoolkit,
    to_muspy,
    to_pretty_midi,
)
from musicgen.midi.score import BEAT, ChordMark, Score, TimeSignature, Track, make_notes, make_tempos
from musicgen.midi.write import clean, midi_bytes

WALTZ = Score(
    ticks_per_beat=480,
    notes=make_notes([0, 480, 960, 1440], [1440, 960, 1440, 2000], [48, 64, 67, 38], [80, 60, 64, 127], [0, 1, 1, 2]),
    tracks=(Track("Bass", 32), Track("ピアノ", 0), Track("Drums", 0, is_drum=True)),
    tempos=make_tempos([(0, 120.0), (960, 75.0), (1440, 123.456)]),
    time_signatures=(TimeSignature(0, 3, 4), TimeSignature(1440, 6, 8)),
    chords=(ChordMark(0, Chord(9, "M7")), ChordMark(1440, NO_CHORD)),
    beats=np.array([(0, True), (470, False), (975, False), (1444, True)], BEAT),
)


def by_time(score: Score) -> Score:
    """The same with time signatures and chords in order of time, as a score ought to have them."""
    return score.replace(
        time_signatures=tuple(sorted(score.time_signatures, key=lambda item: item.tick)),
        chords=tuple(sorted(score.chords, key=lambda item: item.tick)),
    )


@settings(max_examples=60, deadline=None)
@given(score=scores(earliest=0).map(by_time))
def test_miditoolkit_gives_back_the_same_score(score: Score) -> None:
    assert from_miditoolkit(to_miditoolkit(score)) == score


@settings(max_examples=60, deadline=None)
@given(score=scores().map(by_time))
def test_muspy_gives_back_the_same_score(score: Score) -> None:
    assert from_muspy(to_muspy(score)) == score


@settings(max_examples=60, deadline=None)
@given(score=scores(earliest=0, shortest=0).map(by_time))
def test_pretty_midi_gives_back_the_same_ticks_and_the_tempos_of_a_file(score: Score) -> None:
    back = from_pretty_midi(to_pretty_midi(score))
    assert back.replace(tempos=score.tempos) == score
    ticks = np.arange(0, 4000, 7)
    file = score.replace(tempos=clean(score).tempos)
    np.testing.assert_allclose(back.seconds(ticks), file.seconds(ticks), rtol=1e-5)


def test_a_score_with_all_that_a_score_can_have_survives_each() -> None:
    assert from_miditoolkit(to_miditoolkit(WALTZ)) == WALTZ
    assert from_muspy(to_muspy(WALTZ)) == WALTZ
    back = from_pretty_midi(to_pretty_midi(WALTZ))
    assert back.replace(tempos=WALTZ.tempos) == WALTZ
    assert back.tempos["tick"].tolist() == WALTZ.tempos["tick"].tolist()
    np.testing.assert_allclose(back.tempos["bpm"], WALTZ.tempos["bpm"], rtol=1e-6)
    assert back.tempos["bpm"].tolist()[:2] == [120.0, 75.0]  # whole microseconds a beat come back to the last bit


def test_pretty_midi_thinks_in_the_seconds_of_the_score() -> None:
    midi = to_pretty_midi(WALTZ)
    times = [[note.start, note.end] for instrument in midi.instruments for note in instrument.notes]
    notes = np.sort(WALTZ.notes, order=["track", "start"])
    np.testing.assert_allclose(times, WALTZ.seconds(np.stack([notes["start"], notes["end"]], axis=1)), rtol=1e-6)
    np.testing.assert_allclose(midi.get_end_time(), WALTZ.duration, rtol=1e-6)


def test_the_packages_place_things_where_their_users_look() -> None:
    markers = to_miditoolkit(WALTZ).markers
    assert [(marker.time, marker.text) for marker in markers[:3]] == [(0, "A_M7_A"), (0, "Downbeat"), (470, "Beat")]
    music = to_muspy(WALTZ)
    assert [beat.time for beat in music.beats] == [0, 470, 975, 1444]
    assert [barline.time for barline in music.barlines] == [0, 1444]
    assert [(item.time, item.annotation, item.group) for item in music.annotations] == [
        (0, "A_M7_A", "chord"),
        (1440, "N_N_N", "chord"),
    ]
    assert [(event.text, event.time) for event in to_pretty_midi(WALTZ).text_events[:2]] == [
        ("A_M7_A", 0),
        ("Downbeat", 0),
    ]


def test_muspy_finds_nothing_wrong_with_what_it_is_given() -> None:
    to_muspy(WALTZ).validate()


def test_what_the_packages_write_has_the_ticks_of_the_score() -> None:
    expected = clean(WALTZ).notes.tolist()
    with_miditoolkit, with_pretty_midi = io.BytesIO(), io.BytesIO()
    to_miditoolkit(WALTZ).dump(file=with_miditoolkit, charset="utf-8")
    to_pretty_midi(WALTZ.replace(tracks=(Track("Bass"), Track("Piano"), Track("Drums", is_drum=True)))).write(
        with_pretty_midi
    )
    for buffer in (with_miditoolkit, with_pretty_midi):
        read = miditoolkit.MidiFile(file=io.BytesIO(buffer.getvalue()))
        assert from_miditoolkit(read).notes.tolist() == expected


@pytest.mark.parametrize("package", ["miditoolkit", "pretty_midi", "muspy"])
def test_what_a_package_reads_from_our_file_is_the_score(package: str) -> None:
    data = midi_bytes(WALTZ)
    if package == "miditoolkit":
        back = from_miditoolkit(miditoolkit.MidiFile(file=io.BytesIO(data), charset="utf-8"))
        assert back.chords == WALTZ.chords
    elif package == "pretty_midi":
        back = from_pretty_midi(pretty_midi.PrettyMIDI(io.BytesIO(data), charset="utf-8"))
    else:
        import mido

        back = from_muspy(muspy.from_mido(mido.MidiFile(file=io.BytesIO(data), charset="utf-8")))
    assert np.array_equal(back.notes, WALTZ.notes)
    assert back.tracks == WALTZ.tracks
    assert back.time_signatures == WALTZ.time_signatures
    np.testing.assert_allclose(back.tempos["bpm"], WALTZ.tempos["bpm"], rtol=1e-6)


def test_a_chord_of_muspy_becomes_its_notes() -> None:
    chord = muspy.Chord(time=24, pitches=[60, 64, 67], duration=12, velocity=70)
    music = muspy.Music(tracks=[muspy.Track(chords=[chord])])
    assert from_muspy(music).notes.tolist() == [(24, 36, pitch, 70, 0) for pitch in (67, 64, 60)]


def test_a_pretty_midi_made_by_hand_is_read_by_its_tempo_and_resolution() -> None:
    midi = pretty_midi.PrettyMIDI(resolution=100, initial_tempo=150.0)
    midi.instruments.append(pretty_midi.Instrument(4, name="Keys"))
    midi.instruments[0].notes.append(pretty_midi.Note(90, 60, 0.4, 1.0))
    score = from_pretty_midi(midi)
    assert (score.ticks_per_beat, score.tempos.tolist()) == (100, [(0, 150.0)])
    assert score.notes.tolist() == [(100, 250, 60, 90, 0)]
    assert score.tracks == (Track("Keys", 4),)
