"""The sustain pedals of a file, by channel: a pedal holds every note of its channel, in whatever track it stands.

Piano files often have a track for each hand and the pedal in one of them, or in a track of its own. Our parser gives
a pedal only to the notes of the same track and does not report channels, so they are read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from musicgen.midi.score import PEDAL, Pedals

SUSTAIN, DOWN = 64, 64
"""The controller of the sustain pedal, and its lowest value that means down."""
_SUSTAIN_CHANGE = re.compile(rb"[\xb0-\xbf]\x40")
_NOTE_ON, _CONTROL, _META, _SYSEX, _PORT = 0x90, 0xB0, 0xFF, (0xF0, 0xF7), 0x21
_ONE_BYTE = (0xC0, 0xD0)  # messages with one byte of data; the others have two

Channel = tuple[int, int]
"""A port and a channel of it."""


class _Chunk(NamedTuple):
    """What a track chunk holds: the channels of its notes, and the changes of the pedals, as (tick, is down)."""

    channels: set[Channel]
    pedals: list[tuple[Channel, tuple[int, bool]]]


def pedals_of_channels(data: bytes, tracks: int) -> Pedals | None:
    """The pedals of each track of notes, from all tracks.

    Args:
        data: A MIDI file; its chunks are known to be whole.
        tracks: How many tracks of notes the parser found.

    Returns:
        Changes of pedals; None if the parser's own are right (there is one track, or none has a pedal), or if it
        cannot be said which channel each of its tracks is.
    """
    if data.count(b"MTrk") < 2 or not _SUSTAIN_CHANGE.search(data):
        return None
    try:
        chunks = [_read(chunk) for chunk in track_chunks(data)]
    except IndexError:  # an event is cut off
        return None
    channels = [chunk.channels for chunk in chunks if chunk.channels]
    if len(channels) != tracks or any(len(each) > 1 for each in channels):
        return None
    changes: dict[Channel, list[tuple[int, bool]]] = {}
    for chunk in chunks:
        for channel, change in chunk.pedals:
            changes.setdefault(channel, []).append(change)
    rows = [(tick, number, down) for number, (key,) in enumerate(channels) for tick, down in changes.get(key, [])]
    pedals = np.empty(len(rows), PEDAL)
    for name, column in zip(("tick", "track", "is_down"), zip(*rows, strict=True), strict=False):
        pedals[name] = column
    return pedals


def track_chunks(data: bytes) -> Iterator[bytes]:
    """The track chunks of a MIDI file, which are known to be whole."""
    place = 8 + int.from_bytes(data[4:8], "big")
    while place + 8 <= len(data):
        size = int.from_bytes(data[place + 4 : place + 8], "big")
        if data[place : place + 4] == b"MTrk":
            yield data[place + 8 : place + 8 + size]
        place += 8 + size


def _read(chunk: bytes) -> _Chunk:
    """Read the events of a track chunk."""
    found = _Chunk(set(), [])
    place = tick = status = port = 0
    while place < len(chunk):
        delta, place = _number(chunk, place)
        tick += delta
        if chunk[place] == _META or chunk[place] in _SYSEX:  # some programs keep the running status across these
            meta = chunk[place + 1] if chunk[place] == _META else None
            size, place = _number(chunk, place + (1 if meta is None else 2))
            if meta == _PORT and size:
                port = chunk[place]
            place += size
            continue
        if chunk[place] & 0x80:
            status, place = chunk[place], place + 1
        kind, channel = status & 0xF0, (port, status & 0x0F)
        first, second = chunk[place], 0 if kind in _ONE_BYTE else chunk[place + 1]
        place += 1 if kind in _ONE_BYTE else 2
        if kind == _NOTE_ON and second:
            found.channels.add(channel)
        elif kind == _CONTROL and first == SUSTAIN:
            found.pedals.append((channel, (tick, second >= DOWN)))
    return found


def _number(chunk: bytes, place: int) -> tuple[int, int]:
    """A number of any length, seven bits to a byte, and the place after it."""
    value = chunk[place] & 0x7F
    while chunk[place] & 0x80:
        place += 1
        value = value << 7 | chunk[place] & 0x7F
    return value, place + 1
