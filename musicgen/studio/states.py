"""Where takes can be forked: the model's states at bar lines, cached, or read again from tokens."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

from musicgen.languages.constraints import Constraints
from musicgen.languages.language import Prompt
from musicgen.midi.bars import BarLines
from musicgen.model import State
from musicgen.sampling.bookmark import Bookmark
from musicgen.sampling.music_model import MusicModel
from musicgen.sampling.tempo_changes import EARLIER, note_tempo, until_bar
from musicgen.studio.take import Take

MOST_BYTES = 32 << 20
"""About 160 bars of the built-in models. Older ones are read again, which takes a fraction of a second."""


class States:
    """The latest states of takes at bar lines. The oldest are forgotten.

    Args:
        most_bytes: How much memory they may take.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._size, self._lock = most_bytes, 0, threading.Lock()
        self._states: OrderedDict[tuple[str, int], State] = OrderedDict()

    def put(self, take: str, bars: int, state: State) -> None:
        """Keep the state of a take after some bars."""
        with self._lock:
            old = self._states.pop((take, bars), None)
            self._states[take, bars] = state
            self._size += state.nbytes - (0 if old is None else old.nbytes)
            while self._size > self._most:
                _, oldest = self._states.popitem(last=False)
                self._size -= oldest.nbytes

    def get(self, take: str, bars: int) -> State | None:
        """The state of a take after some bars, if it is still known."""
        with self._lock:
            state = self._states.get((take, bars))
            if state is not None:
                self._states.move_to_end((take, bars))
            return state

    def bookmark(self, take: Take, bars: int, music_model: MusicModel) -> Bookmark:
        """A take after some bars. If its state is not known, the model reads the tokens again."""
        piece, state = take.written, self.get(take.id, bars)
        tokens = tuple(piece.tokens[: piece.ends[bars - 1]])
        if state is None:
            state = music_model.begin(Prompt(tokens, bars, {}, ""), take.draw).state
            self.put(take.id, bars, state)
        return Bookmark(
            tokens,
            state,
            tuple(piece.ends[:bars]),
            tuple(piece.likelihood[:bars]),
            tuple(piece.masked_probability[:bars]),
            min(piece.prompt_bars, bars),
            until_bar(piece.setting, bars),
            piece.variation,
        )


def with_tempo(bookmark: Bookmark, take: Take, constraints: Constraints) -> Bookmark:
    """A bookmark of a take that goes on under other constraints: the bars so far keep their tempo."""
    bars, then = len(bookmark.ends), take.written.constraints
    later = [tempo for bar, tempo, *_ in take.written.setting.get(EARLIER, ()) if bar > bars]
    if later:  # the tempo changed after the place of the bookmark
        then = replace(then, tempo=later[0] and tuple(later[0]))
    if then.tempo == constraints.tempo:
        return bookmark
    tick = BarLines(take.written.rendering.decode(bookmark.tokens)).tick(bars)
    return replace(bookmark, setting=note_tempo(bookmark.setting, bars, tick, then))
