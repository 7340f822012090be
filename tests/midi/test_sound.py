"""The sound of a score: in tune, in time, as loud as it may be, and a sentence for every soundfont that is none."""

from __future__ import annotations

import functools
import io
import os
import stat
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.languages.remi.synthetic import compose
from musicgen.midi import synthesis
from musicgen.midi.score import NOTE, Score, Track, make_notes, make_tempos
from musicgen.midi.sound import default_soundfont, render_wav

RATE = 22_050  # half the work of the default


def listen(data: bytes, rate: int = RATE) -> NDArray[np.float64]:
    """Left and right, from -1 to 1."""
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (2, 2, rate)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2).T / 32768


def play(score: Score) -> NDArray[np.float64]:
    return listen(render_wav(score, sample_rate=RATE))


def note(pitch: int, program: int = 0, start: int = 960, end: int = 2880, velocity: int = 100) -> Score:
    """At 120 beats per minute, the first of two seconds is silent."""
    return Score(480, make_notes([start], [end], [pitch], velocity), (Track("a", program),))


def level(signal: NDArray[np.float64], start: float, end: float) -> float:
    return float(np.sqrt((signal[:, int(start * RATE) : int(end * RATE)] ** 2).mean()))


@pytest.mark.parametrize("program", [0, 4, 24, 73])
def test_notes_are_in_tune(program: int) -> None:
    pitches = [45, 57, 60, 69, 84]
    starts = [1920 * number for number in range(len(pitches))]
    played = play(
        Score(480, make_notes(starts, [start + 960 for start in starts], pitches, 100), (Track("a", program),))
    )
    for number, pitch in enumerate(pitches):
        check_pitch(played[0, int((2 * number + 0.05) * RATE) : int((2 * number + 0.8) * RATE)], pitch)


def check_pitch(signal: NDArray[np.float64], pitch: int) -> None:
    spectrum = np.abs(np.fft.rfft(signal * np.hanning(len(signal)), 1 << 18))
    wanted = 440 * 2 ** ((pitch - 69) / 12)
    frequencies = np.arange(len(spectrum)) * RATE / (1 << 18)
    # Harmonics may be louder than the note itself, but all energy is on them.
    nearest = np.rint(frequencies / wanted).clip(1)
    on_harmonics = np.abs(1200 * np.log2(np.maximum(frequencies, 1) / (nearest * wanted))) < 35
    assert (spectrum[on_harmonics] ** 2).sum() > 0.8 * (spectrum**2).sum()
    near = np.abs(frequencies / wanted - 1) < 0.03
    assert abs(1200 * np.log2(frequencies[near][spectrum[near].argmax()] / wanted)) < 25
    assert spectrum[near].max() > 0.2 * spectrum.max()


def test_a_note_sounds_from_its_start_to_its_end_and_dies_away() -> None:
    signal = play(note(69, 19))  # an organ, which is as loud as long as it is held
    assert np.abs(signal[:, : int(0.99 * RATE)]).max() < 1e-3
    assert level(signal, 1, 1.1) > 0.05
    assert level(signal, 2.8, 3) > 0.05
    assert level(signal, 3.3, 3.5) < 0.1 * level(signal, 2.8, 3)
    assert 3 <= signal.shape[1] / RATE <= 3 + synthesis.TAIL


def test_the_peak_is_just_below_full_scale_however_many_notes_there_are() -> None:
    chord = make_notes([0] * 40, [480] * 40, list(range(40, 80)), 127)
    for score in (note(60, velocity=1), Score(480, chord)):
        assert np.abs(play(score)).max() == pytest.approx(synthesis.PEAK, abs=1e-3)


def test_louder_notes_are_louder() -> None:
    score = Score(480, make_notes([0, 1920], [960, 2880], [60, 60], [40, 120]))
    signal = play(score)
    assert level(signal, 2, 2.5) > 3 * level(signal, 0, 0.5) > 0


def test_sounds_come_when_the_tempo_map_says() -> None:
    score = note(60, start=960, end=1200).replace(tempos=make_tempos([(0, 60.0), (480, 240.0)]))
    signal = play(score)
    first = np.flatnonzero(np.abs(signal).max(0) > 0.01)[0] / RATE
    assert first == pytest.approx(1.25, abs=0.03)


def test_drums_are_played_by_the_kit_and_not_by_the_piano() -> None:
    notes = make_notes([0, 480], [10, 490], [38, 42], 110)
    kit, piano = (play(Score(480, notes, (Track("a", 0, drum),))) for drum in (True, False))
    spectra = [np.abs(np.fft.rfft(signal[0, : RATE // 4])) for signal in (kit, piano)]
    high = [float(spectrum[len(spectrum) // 4 :].sum() / spectrum.sum()) for spectrum in spectra]
    assert high[0] > 3 * high[1]


def test_a_piece_is_as_long_as_its_score_is_heard_throughout_and_is_the_same_twice() -> None:
    score = compose(2, 8)
    data = render_wav(score)
    signal = listen(data, 44_100)
    assert score.duration <= signal.shape[1] / 44_100 + 0.01 <= score.duration + synthesis.TAIL + 0.02
    seconds = [np.abs(signal[:, at * 44_100 : (at + 1) * 44_100]).max() for at in range(int(score.duration))]
    assert min(seconds) > 0.01
    assert render_wav(score) == data


def test_what_cannot_be_played_is_left_out_and_a_score_without_notes_is_a_sentence() -> None:
    bad = make_notes([-5, 0, 0, 0], [10, 0, 9, 9], [60, 60, 128, -1], 90)
    with pytest.raises(UserError, match="no notes"):
        render_wav(Score(480, bad))
    with pytest.raises(UserError, match="no notes"):
        render_wav(Score(480, np.empty(0, NOTE)))
    many = tuple(Track(str(program), program) for program in range(30))  # more than a MIDI file has channels
    row = make_notes([0] * 30, [480] * 30, [60] * 30, 300, np.arange(30))
    assert np.abs(play(Score(480, np.concatenate([row, bad]), many))).max() > 0.5


def test_a_piece_of_hours_is_refused() -> None:
    with pytest.raises(UserError, match="too long"):
        render_wav(note(60, end=480 * 120 * 61))


@functools.cache
def broken_fonts() -> dict[str, bytes]:
    whole = default_soundfont().read_bytes()
    tables = whole.index(b"pdta")
    damaged = whole[: tables + 5000] + bytes(value ^ 0xA5 for value in whole[tables + 5000 :])
    return {
        "empty": b"",
        "text": b"this is a text and not a soundfont, however long it is",
        "header": whole[:12],
        "cut": whole[: len(whole) // 2],
        "tables cut": whole[: tables + 3000],
        "damaged": damaged,
        "compressed": whole.replace(b"ifil\x04\x00\x00\x00\x02", b"ifil\x04\x00\x00\x00\x03", 1),
        "silent": whole[: whole.index(b"smpl") + 8] + bytes(tables - whole.index(b"smpl") - 16) + whole[tables - 8 :],
    }


@pytest.mark.parametrize("kind", list(broken_fonts()))
def test_a_broken_soundfont_is_a_sentence_that_names_it(kind: str, tmp_path: Path) -> None:
    font = tmp_path / "my font.sf2"
    font.write_bytes(broken_fonts()[kind])
    with pytest.raises(UserError, match=r"my font\.sf2: ") as caught:
        render_wav(note(60), font)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["nowhere.sf2", ".", "/dev/null", "x" * 300])
def test_a_soundfont_that_is_not_there_is_a_sentence(path: str) -> None:
    with pytest.raises(UserError, match="no such soundfont"):
        render_wav(note(60), Path(path))


def test_a_soundfont_of_ones_own_may_lack_the_instrument(tmp_path: Path) -> None:
    font = tmp_path / "own.sf2"
    data = bytearray(default_soundfont().read_bytes())
    heads = data.index(b"phdr") + 8
    count = int.from_bytes(data[heads - 4 : heads], "little") // 38
    for place in range(heads, heads + 38 * (count - 1), 38):
        data[place + 20 : place + 24] = b"\x07\x00\x05\x00"  # every preset is program 7 of bank 5
    font.write_bytes(data)
    assert np.abs(listen(render_wav(note(60), font, RATE))).max() > 0.5
    drums = Score(480, make_notes([0], [10], [38], 90), (Track("a", 0, True),))
    with pytest.raises(UserError, match="no sound"):
        render_wav(drums, font)


FAKE = """#!{python}
import math, struct, sys
arguments = sys.argv[1:]
{body}
rate = int(arguments[arguments.index("-r") + 1])
with open(arguments[-1], "rb") as midi, open(arguments[-2], "rb") as font:
    assert midi.read(4) == b"MThd" and font.read(4) == b"RIFF"
with open(arguments[arguments.index("-F") + 1], "wb") as file:
    file.write(b"".join(struct.pack("<hh", n % 100, -(n % 100)) for n in range(rate)))
"""


def install(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "fluidsynth"
    program.write_text(FAKE.format(python=sys.executable, body=body))
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(folder) + os.pathsep + os.environ["PATH"])


def test_fluidsynth_is_used_if_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "", monkeypatch)
    signal = listen(render_wav(note(60), None, RATE, "fluidsynth"))
    assert signal.shape == (2, RATE)
    assert np.abs(signal).max() == pytest.approx(synthesis.PEAK, abs=1e-3)


def test_a_fluidsynth_that_fails_or_is_not_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "sys.exit('bad font')", monkeypatch)
    with pytest.raises(UserError, match=r"TimGM6mb.*bad font"):
        render_wav(note(60), None, RATE, "fluidsynth")
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="there is no program fluidsynth"):
        render_wav(note(60), None, RATE, "fluidsynth")
