"""How a piece sounds if its requested tempo changed while it was written.

Design note: a change is noted in the piece's setting, as the bar at which it happened and the tempo requested before.
So how a piece sounds follows from its constraints and its setting alone, and is saved with its states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from musicgen.languages.constraints import Constraints
from musicgen.languages.language import Language
from musicgen.languages.rendering import Rendering
from musicgen.midi.bars import BarLines
from musicgen.midi.score import Score, make_tempos

EARLIER = "earlier_tempos"
"""Key of a setting: a list of (bar at which the tempo changed, lowest and highest tempo before or None, its tick)."""
FOREVER = 1 << 40


def note_tempo(setting: Mapping[str, Any], bar: int, tick: int, constraints: Constraints) -> dict[str, Any]:
    """The setting of a piece that kept to some constraints before a bar, and now has another tempo."""
    tempo = None if constraints.tempo is None else list(constraints.tempo)
    return {**setting, EARLIER: [*setting.get(EARLIER, ()), [bar, tempo, tick]]}


def until_bar(setting: Mapping[str, Any], bars: int) -> dict[str, Any]:
    """The setting of a piece that is cut after some bars: later changes are forgotten."""
    if EARLIER not in setting:
        return {**setting}
    return {**setting, EARLIER: [change for change in setting[EARLIER] if change[0] <= bars]}


def rendering_of(language: Language, constraints: Constraints, setting: Mapping[str, Any]) -> Rendering:
    """How a piece sounds under its present constraints."""
    rendering: Rendering = language.rendering(constraints, setting)
    for bar, tempo, *ticks in reversed(setting.get(EARLIER, ())):
        earlier = replace(constraints, grammar=True, seconds=None, tokens=None, bars=1, tempo=tempo and tuple(tempo))
        tick = ticks[0] if ticks else BarLines(rendering.decode([])).tick(bar)  # older states are in 4/4
        rendering = _ChangedRendering(language.rendering(earlier, setting), rendering, tick)
    return rendering


@dataclass(frozen=True)
class _ChangedRendering:
    """Sounds in one way before a tick, and in another way from there on."""

    before: Rendering
    after: Rendering
    tick: int

    def decode(self, tokens: Sequence[int]) -> Score:
        """The music of a whole piece."""
        return self.decoder().join(self.before.decode(tokens), self.after.decode(tokens), FOREVER)

    def decoder(self) -> _ChangedDecoder:
        """A decoder that reads one token at a time."""
        return _ChangedDecoder(self)


class _ChangedDecoder:
    """Decodes tokens in both ways, and takes the right part of each."""

    def __init__(self, rendering: _ChangedRendering) -> None:
        self._before, self._after = rendering.before.decoder(), rendering.after.decoder()
        self._tick, self._has_changed = rendering.tick, False
        self._tempos: list[float | None] = [None, None]  # in force at the tick, in both ways

    def feed(self, tokens: Sequence[int]) -> tuple[Score, int]:
        """The music that has become certain, and the tick up to which everything is known."""
        (before, until), (after, _) = self._before.feed(tokens), self._after.feed(tokens)
        return self.join(before, after, until), until

    def close(self) -> Score:
        """What is left at the end of the piece."""
        return self.join(self._before.close(), self._after.close(), FOREVER)

    def join(self, before: Score, after: Score, until: int) -> Score:
        """The two parts of the music that is known up to a tick."""
        tick = self._tick
        for way, score in enumerate((before, after)):
            for bpm in score.tempos["bpm"][score.tempos["tick"] <= tick].tolist():
                self._tempos[way] = bpm
        changes = before.tempos[before.tempos["tick"] < tick].tolist()
        if until > tick and not self._has_changed:
            self._has_changed = True
            was, now = self._tempos
            if now is not None and (now != was or (before.tempos["tick"] == tick).any()):
                changes.append((tick, now))
        changes += after.tempos[after.tempos["tick"] > tick].tolist()
        first, second = before.notes, after.notes
        notes = np.concatenate([first[first["start"] < tick], second[second["start"] >= tick]])
        return before.replace(notes=notes, tempos=make_tempos(changes))
