"""Marker texts with a meaning in our MIDI files, besides chords: bars by number, sections, and the end of a prompt."""

from __future__ import annotations

import re

from musicgen.midi.score import Score

CONTINUATION = "Continuation"
"""The marker where a prompt ends and the continuation begins."""
_BAR = re.compile(r"Bar \d+\Z")
_SECTION = re.compile(r"Section ([A-Z])\Z")


def bar_text(number: int) -> str:
    """The marker of a bar, counted from 1."""
    return f"Bar {number}"


def is_bar(text: str) -> bool:
    """Whether a marker names a bar."""
    return _BAR.match(text) is not None


def section_text(letter: str) -> str:
    """The marker of a section."""
    return f"Section {letter}"


def section_letter(text: str) -> str:
    """The letter of a section whose marker it is; empty if it is another marker."""
    match = _SECTION.match(text)
    return match[1] if match else ""


def continuation_start(score: Score) -> int:
    """The tick where the prompt of a piece ends; 0 without such a marker."""
    return max((tick for tick, text in score.markers if text == CONTINUATION), default=0)
