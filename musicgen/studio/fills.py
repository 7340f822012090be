"""Bars of a take written anew, with what follows respected.

Design note: a model that was trained with gaps sees what follows and fills the gap. Any other model continues what
comes before, and the takes are ranked by how likely the bars after the gap then are. Both give whole pieces in tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from musicgen.languages.infill import Gap
from musicgen.languages.splice import Span, splice
from musicgen.midi.bars import BarLines
from musicgen.sampling.bookmark import Bookmark, bar_ends
from musicgen.sampling.choose import SamplingConfig
from musicgen.sampling.in_progress import PieceInProgress
from musicgen.sampling.music_model import MusicModel
from musicgen.studio.states import States
from musicgen.studio.take import Stored, Take

BLIND = "The model does not see what follows these bars; the takes are ranked by how well it fits."
SEEING = "The model saw what comes before and after these bars; the takes are ranked by how well it fits."


@dataclass
class Filling:
    """A take whose bars are being written anew.

    Attributes:
        piece: What the sampler writes.
        original: The take that is changed.
        gap: The bars.
        music_model: The model.
        draw: The seed of the positional noise.
        group: The takes that are ranked together.
    """

    piece: PieceInProgress
    original: Stored
    gap: Gap
    music_model: MusicModel
    draw: int
    group: list[Take] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the bars are written."""
        return self.piece.is_complete or (self.music_model.language.infill is None and self.piece.bars >= self.gap.end)

    def result(self) -> tuple[Stored, float]:
        """The whole piece, and the log-likelihood of what follows the gap, in nats."""
        language, piece = self.music_model.language, self.piece
        tokens = self._tokens()
        nats, _ = self.music_model.read(tokens, self.draw)
        complete = language.complete_bars(tokens)
        ends = bar_ends(complete)
        sums = np.bincount(complete[:-1], nats, minlength=len(ends) + 1)[: len(ends) + 1]
        stored = replace(
            self.original,
            tokens=tokens,
            ends=ends,
            likelihood=tuple(sums.tolist()),
            masked_probability=(0.0,) * len(sums),
            seed=piece.seed,
            variation=piece.variation,
            prompt_bars=min(self.original.prompt_bars, self.gap.first),
        )
        return stored, float(sums[self.gap.end :].sum())

    def _tokens(self) -> tuple[int, ...]:
        language = self.music_model.language
        if language.infill is not None:
            piece = np.asarray(self.original.tokens)
            return tuple(language.infill.finish(piece, [self.gap], self.piece.tokens).tolist())
        original, written = (language.decode(tokens) for tokens in (self.original.tokens, self.piece.tokens))
        tracks = [(number,) for number in range(len(original.tracks))]
        lines, beat = BarLines(original), original.ticks_per_beat
        span = Span(lines.tick(self.gap.first) / beat, lines.tick(self.gap.end) / beat)
        whole = splice(original, written, [span], tracks, language.grid, has_tempo=bool(original.chords))
        return tuple(language.encode(whole).tokens.tolist())


def begin_filling(
    parent: Take, gap: Gap, music_model: MusicModel, states: States, sampling: SamplingConfig, variation: int
) -> Filling:
    """Get ready to write bars of a take anew.

    Raises:
        UserError: The constraints of the take cannot be kept.
    """
    original = parent.written if isinstance(parent.written, Stored) else Stored.from_progress(parent.written)
    language, infill = music_model.language, music_model.language.infill
    bars = len(original.ends)
    constraints = replace(original.constraints, bars=max(bars, gap.end + 1), seconds=None, tokens=None)
    if infill is not None:
        tokens, leads = infill.begin(np.asarray(original.tokens), [gap])
        _, state = music_model.read(tokens, parent.draw)
        bookmark = Bookmark(tuple(tokens), state, setting={**original.setting, **leads})
        constraints = replace(constraints, bars=bars)
    elif gap.first:
        bookmark = states.bookmark(parent, gap.first, music_model)
    else:
        bookmark = music_model.begin(None, parent.draw)
    piece = PieceInProgress(language, bookmark, constraints, sampling, original.seed, variation)
    return Filling(piece, original, gap, music_model, parent.draw)
