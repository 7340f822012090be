from __future__ import annotations

import contextlib
import io
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import mido
import numpy as np
import pytest
from miditoolkit import MidiFile

from musicgen.midi import MidiError, Score, Track, make_notes, make_tempos, read_midi
from musicgen.midi import read as reading
from musicgen.midi.read import MAX_BYTES, parse_file
from musicgen.midi.write import midi_bytes, write_midi


def piece(notes: int = 40) -> Score:
    start = np.arange(notes) * 240
    return Score(
        480,
        make_notes(start, start + 200, 40 + start // 240 % 50, 64, np.arange(notes) % 2),
        tracks=(Track("Piano"), Track("Drums", is_drum=True)),
        tempos=make_tempos([(0, 100.0), (960, 120.0)]),
    )


def raw(events: bytes, division: int = 480) -> bytes:
    """A file of one track with the given events."""
    header = b"MThd" + (6).to_bytes(4, "big") + b"\0\0\0\1" + division.to_bytes(2, "big")
    return header + b"MTrk" + len(events).to_bytes(4, "big") + events


END = b"\0\xff\x2f\0"
NOTE = b"\0\x90\x3c\x40\x60\x80\x3c\0"


@pytest.mark.parametrize("corpus", ["pop1k7", "pop909", "grooves"])
def test_the_fast_parser_reads_what_miditoolkit_reads(corpus: str, real_data: Callable[[str], Path]) -> None:
    for path in islice(sorted(real_data(corpus).rglob("*.mid")), 0, None, 97):
        ours, theirs = parse_file(str(path)), MidiFile(path)
        notes = [
            (note.start, note.end, note.pitch, note.velocity) for track in theirs.instruments for note in track.notes
        ]
        assert ours.ticks_per_beat == theirs.ticks_per_beat
        assert sorted(ours.notes[["start", "end", "pitch", "velocity"]].tolist()) == sorted(notes)
        assert ours.tempos["tick"].tolist() == [change.time for change in theirs.tempo_changes]
        assert ours.tempos["bpm"] == pytest.approx([change.tempo for change in theirs.tempo_changes])
        signatures = [(item.time, item.numerator, item.denominator) for item in theirs.time_signature_changes]
        assert list(ours.time_signatures) == signatures
        assert [(track.name, track.program, track.is_drum) for track in ours.tracks] == [
            (track.name, track.program, track.is_drum) for track in theirs.instruments
        ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"RIFF and so on", "does not begin with a MIDI header"),
        (b"MThd\0\0\0\6\0\0", "does not begin with a MIDI header"),
        (raw(NOTE + END)[:-5], "cut short"),
        (raw(NOTE + END, division=0), "zero ticks per beat"),
        (raw(NOTE + END, division=0xE728), "SMPTE"),
        (raw(b"")[:14], "no tracks"),
        (raw(b"\0\xff\x51\3\0\0\0" + NOTE + END), "tempo of zero"),
        (raw(b"\0\x90\x3c\x40\x83\xff\xff\x7f\x80\x3c\0" * 400 + END, division=1), "longer than"),
        (raw(b"\0\x90\x3c\x40" + b"\xff\xff\xff\x7f\xb0\1\1" * 4 + b"\x83\x9a\xcc\0\x80\x3c\0" + END), "longer than"),
        (raw(b"\0\xff\x58\4\0\2\x18\x08" + NOTE + END), "time signature of 0/4"),
        (raw(b"\0\x3c\x40" + NOTE + END), "malformed"),
    ],
)
def test_a_file_that_is_not_music_gets_its_reason(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.mid"
    path.write_bytes(data)
    with pytest.raises(MidiError, match=re.escape(str(path)) + ".*" + reason):
        read_midi(path)


@pytest.mark.parametrize(
    ("name", "reason"), [("none.mid", "No such file"), (".", "not a file"), ("a\0b", "not a path"), ("x" * 999, "name")]
)
def test_a_path_that_is_no_file_gets_its_reason(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(MidiError, match=reason):
        read_midi(f"{tmp_path}/{name}")


def test_a_device_and_a_pipe_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mid")
    for path in ("/dev/zero", tmp_path / "pipe.mid"):
        with pytest.raises(MidiError, match="not a file"):
            read_midi(path)


def test_a_huge_file_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.mid"
    with path.open("wb") as file:
        file.write(raw(NOTE + END))
        file.truncate(80 << 20)  # ten million notes would take as much
    with pytest.raises(MidiError, match="too large"):
        read_midi(path)


def test_a_file_full_of_notes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "many.mid"
    path.write_bytes(raw(b"\0\x90\x3c\x40" + b"\1\x3c\0\0\x3c\x40" * 2_000_000 + b"\1\x3c\0" + END))
    assert path.stat().st_size < MAX_BYTES
    with pytest.raises(MidiError, match="more than 1,000,000 notes"):
        read_midi(path)


def test_a_reader_that_dies_is_an_answer_and_the_next_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "piece.mid"
    write_midi(piece(), path)
    monkeypatch.setattr(reading, "_child", lambda: reading.SubprocessCall(die_of_it))
    with pytest.raises(MidiError, match="crashed"):
        read_midi(path)
    monkeypatch.undo()
    assert len(read_midi(path).notes) == 40


def die_of_it(*_: str) -> None:
    os.abort()


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Damage: bytes changed, cut out, put in, swapped, anywhere or in the headers; or nothing but noise."""
    damaged = bytearray(data)
    kind = chance.random()
    if kind < 0.1:
        return damaged[: chance.randrange(len(damaged))]
    if kind < 0.2:
        return chance.randbytes(chance.randrange(600))
    if kind < 0.3:
        return damaged[: 14 + chance.randrange(30)] + chance.randbytes(chance.randrange(500))
    for _ in range(chance.choice([1, 1, 2, 5, 50])):
        place = chance.randrange(len(damaged) if chance.random() < 0.7 else min(60, len(damaged)))
        match chance.randrange(4):
            case 0:
                damaged[place] = chance.randrange(256)
            case 1:
                del damaged[place : place + chance.randrange(1, 9)]
            case 2:
                damaged[place:place] = chance.randbytes(chance.randrange(1, 9))
            case _:
                damaged[place] = chance.choice([0, 0x7F, 0x80, 0x90, 0xF0, 0xF7, 0xFF])
        if len(damaged) < 20:
            break
    return bytes(damaged)


def with_lengths_made_good(data: bytes) -> bytes:
    """The same damage with a track length that fits, so that it reaches the parser."""
    if len(data) < 22:
        return data
    return data[:18] + (len(data) - 22).to_bytes(4, "big")


def originals() -> list[bytes]:
    one_track = mido.MidiFile(file=io.BytesIO(midi_bytes(piece())))
    one_track.tracks[:] = [mido.merge_tracks(one_track.tracks)]
    buffer = io.BytesIO()
    one_track.save(file=buffer)
    return [midi_bytes(piece()), buffer.getvalue(), midi_bytes(piece(3))]


def test_thousands_of_damaged_files_give_a_score_or_a_reason(tmp_path: Path) -> None:
    path, outcomes = tmp_path / "damaged.mid", Counter[str]()
    sources = originals()
    for seed in range(4000):
        chance = random.Random(seed)
        data = mutated(chance.choice(sources), chance)
        path.write_bytes(with_lengths_made_good(data) if seed % 2 else data)
        try:
            score = read_midi(path)
        except MidiError as error:
            outcomes[str(error).removeprefix(f"{path}: ")[:12]] += 1
        else:
            outcomes["read"] += 1
            assert (score.notes["start"] >= 0).all()
            assert np.isfinite(score.duration)
    assert outcomes["read"] > 200
    assert outcomes["malformed MI"] > 100
    assert len(outcomes) > 5


def test_damaged_real_files_give_a_score_or_a_reason(tmp_path: Path, real_data: Callable[[str], Path]) -> None:
    paths = sorted(real_data("pop909").rglob("*.mid"))[:3] + sorted(real_data("grooves").rglob("*.mid"))[:3]
    sources, path = [file.read_bytes() for file in paths], tmp_path / "damaged.mid"
    for seed in range(1500):
        chance = random.Random(seed)
        path.write_bytes(mutated(chance.choice(sources), chance))
        with contextlib.suppress(MidiError):
            read_midi(path)


@pytest.mark.filterwarnings("error")
def test_reading_needs_no_main_guard(tmp_path: Path) -> None:
    """A script without `if __name__ == "__main__"` can read files: the child does not run it again."""
    import subprocess
    import sys

    write_midi(piece(), tmp_path / "piece.mid")
    script = tmp_path / "script.py"
    script.write_text("from musicgen.midi import read_midi\nprint(len(read_midi('piece.mid').notes))\n")
    result = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("40\n", "")
