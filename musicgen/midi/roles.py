"""The role of a track (bass, drums, other) in a MIDI file.

Design note: the role is the track's instrument name, a standard MIDI event that programs show or ignore, and that
leaves the track's own name alone. Our parser does not report it, so it is read here, from the events with which a track
begins. It is matched to parsed tracks by name, program and channel; where that is ambiguous, the role stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from musicgen.midi.channels import track_chunks
from musicgen.midi.score import Part, Track

DRUM_CHANNEL = 9
"""Channel 10, as people count."""
PARTS: tuple[Part, ...] = get_args(Part)
_META, _TRACK_NAME, _INSTRUMENT_NAME, _PROGRAM_CHANGE = 0xFF, 0x03, 0x04, 0xC0


def read_roles(data: bytes) -> dict[Track, Part]:
    """The roles that a MIDI file gives to its tracks, which have no role themselves.

    Args:
        data: The file; its chunks are known to be whole.
    """
    if not any(bytes([_META, _INSTRUMENT_NAME, len(part)]) + part.encode() in data for part in PARTS):
        return {}
    found: dict[Track, set[str]] = {}
    for chunk in track_chunks(data):
        track, role = _opening(chunk)
        found.setdefault(track, set()).add(role)
    sure = {track: role for track, (role, *others) in found.items() if not others and role in PARTS}
    return {track: role for track, role in sure.items() if (role == "drums") == track.is_drum}


def _opening(chunk: bytes) -> tuple[Track, str]:
    """A track and its instrument name, from its first texts and its first program."""
    texts = dict[int, bytes]()
    for status, kind, text in _first_events(chunk):
        if status == _META:
            texts.setdefault(kind, text)
        else:
            is_drum = status & 0x0F == DRUM_CHANNEL
            name = texts.get(_TRACK_NAME, b"").decode("utf-8", "replace")
            return Track(name, kind, is_drum), texts.get(_INSTRUMENT_NAME, b"").decode("ascii", "replace")
    return Track(), ""


def _first_events(chunk: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Status, first byte and text of the meta events and the first program change at the very beginning."""
    place = 0
    while place + 3 < len(chunk) and chunk[place] == 0:
        status, kind = chunk[place + 1 : place + 3]
        if status != _META:
            if status & 0xF0 == _PROGRAM_CHANGE:
                yield status, kind, b""
            return
        size, place = chunk[place + 3] & 0x7F, place + 4
        while chunk[place - 1] & 0x80 and place < len(chunk):  # seven bits to a byte, and the last has no eighth
            size, place = size << 7 | chunk[place] & 0x7F, place + 1
        yield status, kind, chunk[place : place + size]
        place += size
