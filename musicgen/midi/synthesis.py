"""A small soundfont synthesiser: it turns the notes of a `Score` into sound.

Design note: this is our own, two hundred lines of numpy, because symusic plays most of the soundfont of pretty_midi at
wrong pitches: it ignores the root keys of zones, filters, and tuning beyond a semitone. Ours renders all notes of one
key from one looped, filtered tone, so a song takes a second. It has no vibrato, reverb or chorus.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.midi.score import Score

Signal = NDArray[np.float32]

LONGEST_NOTE = 60.0
"""The longest note in seconds. Longer notes end there, which limits memory."""
TAIL = 4.0
"""Seconds for the last notes to fade."""
PEAK = 10 ** (-1 / 20)
"""One decibel below full scale, because resampling in a player may add a little."""
SILENCE = 1e-4

_TABLES = {
    b"phdr": [("name", "S20"), ("program", "<u2"), ("bank", "<u2"), ("bag", "<u2"), ("unused", "V12")],
    b"pbag": [("generator", "<u2"), ("modulator", "<u2")],
    b"pgen": [("kind", "<u2"), ("amount", "<i2")],
    b"inst": [("name", "S20"), ("bag", "<u2")],
    b"ibag": [("generator", "<u2"), ("modulator", "<u2")],
    b"igen": [("kind", "<u2"), ("amount", "<i2")],
    b"shdr": [
        *[("name", "S20"), ("start", "<u4"), ("end", "<u4"), ("loop_start", "<u4"), ("loop_end", "<u4")],
        *[("rate", "<u4"), ("root", "u1"), ("correction", "i1"), ("link", "<u2"), ("type", "<u2")],
    ],
}  # fmt: skip
"""The tables of a soundfont, in the layout of its specification (2.01)."""

# Generators, as the specification calls the parameters of a zone, and their numbers.
_START, _END, _LOOP_START, _LOOP_END = (0, 4), (1, 12), (2, 45), (3, 50)  # in samples, and in 32768 samples
_CUTOFF, _RESONANCE, _ENVELOPE_TO_CUTOFF, _PAN, _ATTENUATION = 8, 9, 11, 17, 48
_FILTER_ENVELOPE, _VOLUME_ENVELOPE = 25, 33  # the first of: delay, attack, hold, decay, sustain, release
_INSTRUMENT, _KEYS, _VELOCITIES, _COARSE, _FINE, _SAMPLE, _MODE, _SCALE, _ROOT = 41, 43, 44, 51, 52, 53, 54, 56, 58
_DEFAULTS = {_CUTOFF: 13_500, _SCALE: 100, _ROOT: -1, _KEYS: 127 << 8, _VELOCITIES: 127 << 8}
_DEFAULTS |= {first + part: -12_000 for first in (_FILTER_ENVELOPE, _VOLUME_ENVELOPE) for part in (0, 1, 2, 3, 5)}
_NOT_ADDED = {_KEYS, _VELOCITIES, _SAMPLE, _MODE, _SCALE, _ROOT}
_DRUM_BANK = 128


def synthesise(score: Score, soundfont: str, sample_rate: int) -> NDArray[np.int16]:
    """The sound of a score, shape (frames, 2). All notes of an instrument and key are cut from the same tones."""
    font = _SoundFont(soundfont)
    notes = score.notes
    end = score.duration
    mix = np.zeros((2, int((end + TAIL) * sample_rate)), np.float32)
    starts = np.rint(score.seconds(notes["start"]) * sample_rate).astype(np.int64)
    lengths = score.seconds(notes["end"]) - score.seconds(notes["start"])
    lengths = np.maximum(np.rint(lengths.clip(0, LONGEST_NOTE) * sample_rate).astype(np.int64), 1)
    key = notes["track"].astype(np.int64) * 128 + notes["pitch"]
    order = np.argsort(key, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        first = notes[group[0]]
        track, pitch = score.tracks[first["track"]], int(first["pitch"])
        for zone in font.zones(track.program, track.is_drum):
            low, high = zone.range(_VELOCITIES)
            velocities = notes["velocity"][group].clip(1, 127)
            played = (velocities >= low) & (velocities <= high)
            if not zone.covers(pitch) or not played.any():
                continue
            voice = _Voice(font, zone, pitch, int(lengths[group][played].max()), sample_rate)
            for start, length, velocity in zip(
                *(column[played].tolist() for column in (starts[group], lengths[group], velocities)), strict=True
            ):
                voice.add(mix, start, length, (velocity / 127) ** 2)  # the specification's curve
    loud = np.flatnonzero(np.abs(mix[:, int(end * sample_rate) :]).max(0) > SILENCE * np.abs(mix).max())
    last = int(end * sample_rate) + (int(loud[-1]) + 1 if len(loud) else 0)
    return to_integers(mix[:, :last], soundfont)


class _Zone(NamedTuple):
    """A sample and its parameters, from the preset and the instrument."""

    generators: dict[int, int]
    sample: Any

    def value(self, kind: int) -> int:
        return self.generators.get(kind, _DEFAULTS.get(kind, 0))

    def address(self, kinds: tuple[int, int]) -> int:
        return self.value(kinds[0]) + 32768 * self.value(kinds[1])

    def range(self, kind: int) -> tuple[int, int]:
        return self.value(kind) & 0xFF, self.value(kind) >> 8 & 0xFF

    def covers(self, pitch: int) -> bool:
        low, high = self.range(_KEYS)
        return low <= pitch <= high

    def seconds(self, kind: int, pitch: int = 60) -> float:
        """A time of an envelope in seconds. Hold and decay may be shorter for higher keys."""
        by_key = self.value({27: 31, 28: 32, 35: 39, 36: 40}.get(kind, -1)) if pitch != 60 else 0
        return float(2 ** (np.clip(self.value(kind) + by_key * (60 - pitch), -12_000, 8_000) / 1200))

    def envelope(self, first: int, pitch: int, seconds: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """How far an envelope has risen in its attack and fallen in its decay, both from 0 to 1."""
        delay, attack, hold, decay = (self.seconds(first + part, pitch) for part in range(4))
        seconds = seconds - delay
        return (seconds / attack).clip(0, 1), ((seconds - attack - hold) / decay).clip(0, 1)


class _SoundFont:
    """The tables of an .sf2 file, and its samples, which are memory-mapped."""

    def __init__(self, path: str) -> None:
        data = np.memmap(path, np.uint8, "r")
        if bytes(data[:4]) != b"RIFF" or bytes(data[8:12]) != b"sfbk":
            raise UserError(f"{path}: not a soundfont (it does not begin like one)")
        chunks = {
            name: data[start : start + size]
            for _, begin, length in _chunks(data, 12, len(data))
            for name, start, size in _chunks(data, begin + 4, begin + length)
        }
        if missing := [name.decode() for name in (b"ifil", b"smpl", *_TABLES) if name not in chunks]:
            raise UserError(f"{path}: not a whole soundfont (its part {missing[0]!r} is missing)")
        if chunks[b"ifil"][0] != 2:
            raise UserError(f"{path}: its samples are compressed; give an .sf2, or choose synthesiser=fluidsynth")
        self.tables = {name: np.frombuffer(chunks[name], np.dtype(fields)) for name, fields in _TABLES.items()}
        self.samples = chunks[b"smpl"][: len(chunks[b"smpl"]) // 2 * 2].view("<i2")

    @functools.cache  # noqa: B019  (the child process ends after the call)
    def zones(self, program: int, is_drum: bool) -> list[_Zone]:
        """The zones of a preset. If the font lacks it: of the first preset of the bank, or of the first of all."""
        presets = self.tables[b"phdr"][:-1]
        banks = presets["bank"] == _DRUM_BANK if is_drum else presets["bank"] == 0
        wanted = [*np.flatnonzero(banks & (presets["program"] == program)), *np.flatnonzero(banks)]
        if not is_drum:  # otherwise a piano would play the drums
            wanted += range(len(presets))
        if not wanted:
            return []
        found = []
        for preset in self._bags(b"phdr", b"pbag", b"pgen", int(wanted[0]), _INSTRUMENT):
            for own in self._bags(b"inst", b"ibag", b"igen", preset[_INSTRUMENT], _SAMPLE):
                values = {
                    kind: own.get(kind, _DEFAULTS.get(kind, 0)) + (0 if kind in _NOT_ADDED else preset.get(kind, 0))
                    for kind in {*own, *preset}
                }
                for kind in (_KEYS, _VELOCITIES):
                    pair = [item.get(kind, _DEFAULTS[kind]) for item in (own, preset)]
                    values[kind] = max(item & 0xFF for item in pair) | min(item >> 8 & 0xFF for item in pair) << 8
                found.append(_Zone(values, self.tables[b"shdr"][own[_SAMPLE]]))
        return found

    def _bags(self, heads: bytes, bags: bytes, generators: bytes, index: int, target: int) -> Iterator[dict[int, int]]:
        """The generators of each zone of a preset or instrument. A first zone without a target holds for all."""
        first, last = self.tables[heads]["bag"][index : index + 2].tolist()
        common: dict[int, int] = {}
        for bag in range(first, last):
            begin, end = self.tables[bags]["generator"][bag : bag + 2].tolist()
            zone = common | dict(self.tables[generators][begin:end].tolist())
            if target in zone:
                yield zone
            elif bag == first:
                common = zone


def _chunks(data: NDArray[np.uint8], place: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, first byte and size of each chunk between two places."""
    while place + 8 <= end:
        size = int.from_bytes(bytes(data[place + 4 : place + 8]), "little")
        yield bytes(data[place : place + 4]), place + 8, size
        place += 8 + size + size % 2


class _Voice:
    """One key of an instrument: its tone with and without the envelope, and its release."""

    def __init__(self, font: _SoundFont, zone: _Zone, pitch: int, frames: int, rate: int) -> None:
        release = max(zone.seconds(_VOLUME_ENVELOPE + 5), 0.02)  # an instant release would click
        ending = np.arange(int(min(0.8 * release, TAIL) * rate)) / (release * rate)
        self.release = (10 ** (-5 * ending)).astype(np.float32)  # 100 dB in all
        tone = _filter(zone, pitch, _tone(font, zone, pitch, frames + len(self.release), rate), rate)
        pan = (np.clip(zone.value(_PAN), -500, 500) / 1000 + 0.5) * np.pi / 2
        # The original hardware used 0.4 of the attenuation, and fonts are made for it.
        gain = 10 ** (-0.4 * max(zone.value(_ATTENUATION), 0) / 200)
        self.gains = (float(np.cos(pan) * gain), float(np.sin(pan) * gain))
        risen, fallen = zone.envelope(_VOLUME_ENVELOPE, pitch, np.arange(len(tone)) / rate)
        quieter = np.minimum(100 * fallen, np.clip(zone.value(_VOLUME_ENVELOPE + 4), 0, 1440) / 10)  # decibels
        self.tone = tone
        self.levels = (risen * 10 ** (-quieter / 20)).astype(np.float32)
        self.held = tone * self.levels

    def add(self, mix: Signal, start: int, length: int, gain: float) -> None:
        """Add a note to a mix. It is cut at the end of the mix."""
        held = self.held[: min(length, mix.shape[1] - start)]
        ending = self.tone[length : min(length + len(self.release), mix.shape[1] - start)]
        for row, side in zip(mix, self.gains, strict=True):
            row[start : start + len(held)] += held * np.float32(gain * side)
            if len(ending):
                level = gain * side * float(self.levels[length - 1])
                row[start + length : start + length + len(ending)] += (
                    ending * self.release[: len(ending)] * np.float32(level)
                )


def _tone(font: _SoundFont, zone: _Zone, pitch: int, frames: int, rate: int) -> Signal:
    """A sample at the speed of its key, looped if the zone says so."""
    sample = zone.sample
    start, end = int(sample["start"]) + zone.address(_START), int(sample["end"]) + zone.address(_END)
    data = font.samples[max(start, 0) : max(end, 0)].astype(np.float32) / 32768
    if not len(data):
        return np.zeros(0, np.float32)
    loop_start, loop_end = (
        int(sample[name]) + zone.address(kinds) - start
        for name, kinds in (("loop_start", _LOOP_START), ("loop_end", _LOOP_END))
    )
    root = zone.value(_ROOT) if 0 <= zone.value(_ROOT) <= 127 else min(int(sample["root"]), 127)
    cents = (pitch - root) * zone.value(_SCALE) + 100 * zone.value(_COARSE) + zone.value(_FINE)
    cents += int(sample["correction"])
    positions = np.arange(frames) * (2 ** (cents / 1200) * int(sample["rate"]) / rate)
    if zone.value(_MODE) & 1 and 0 <= loop_start < loop_end - 1 < len(data):
        beyond = positions >= loop_end
        positions[beyond] = loop_start + (positions[beyond] - loop_start) % (loop_end - loop_start)
    else:
        positions = positions[positions < len(data) - 1]
    # Cubic interpolation: linear interpolation would add a hiss to low notes.
    whole = positions.astype(np.int64)
    part = (positions - whole).astype(np.float32)
    before, here, there, after = (data.take(whole + shift, mode="clip") for shift in (-1, 0, 1, 2))
    slope, next_slope = (there - before) / 2, (after - here) / 2
    rest = here - there
    curve = here + part * (slope + part * (-3 * rest - 2 * slope - next_slope + part * (2 * rest + slope + next_slope)))
    return curve.astype(np.float32)


def _filter(zone: _Zone, pitch: int, tone: Signal, rate: int) -> Signal:
    """Apply the low-pass filter of a zone, whose cutoff follows an envelope, to the spectra of overlapping frames."""
    hop = 512
    centres = np.arange(len(tone) // hop + 2) * hop / rate
    risen, fallen = zone.envelope(_FILTER_ENVELOPE, pitch, centres)
    level = risen * np.maximum(1 - fallen, 1 - np.clip(zone.value(_FILTER_ENVELOPE + 4), 0, 1000) / 1000)
    cutoff = 8.176 * 2 ** ((zone.value(_CUTOFF) + zone.value(_ENVELOPE_TO_CUTOFF) * level).clip(1500, 13_500) / 1200)
    if cutoff.min(initial=np.inf) > 16_000 or not len(tone):
        return tone
    window = np.hanning(2 * hop + 1)[:-1].astype(np.float32)  # half-overlapping windows add up to 1
    padded = np.pad(tone, (hop, 2 * hop))
    result = np.zeros(len(padded) + 4 * hop, np.float32)
    frames = sliding_window_view(padded, 2 * hop)[::hop][: len(cutoff)]
    quality = 10 ** ((np.clip(zone.value(_RESONANCE), 0, 960) / 10 - 3.01) / 20)
    frequencies = np.fft.rfftfreq(4 * hop, 1 / rate)
    for place, (frame, limit) in enumerate(zip(frames, cutoff, strict=False)):
        ratio = (frequencies / limit) ** 2
        gain = 1 / np.sqrt((1 - ratio) ** 2 + ratio / quality**2)
        # Zero-padded to twice the length on both sides, so that the filter may smear in both directions.
        spread = np.fft.irfft(np.fft.rfft(np.pad(frame * window, hop)) * gain)
        result[place * hop : place * hop + 4 * hop] += spread.astype(np.float32)
    return result[2 * hop : 2 * hop + len(tone)]


def to_integers(mix: Signal, soundfont: str) -> NDArray[np.int16]:
    """Normalised 16-bit frames, shape (frames, 2), from a mix of shape (2, frames), which is changed in place."""
    peak = max(float(mix.max(initial=0)), -float(mix.min(initial=0)))
    if not 0 < peak < np.inf:
        raise UserError(f"{soundfont}: has no sound for any of the notes; give another soundfont")
    mix *= PEAK * 32767 / peak
    return np.rint(mix, out=mix).astype(np.int16).T.copy()
