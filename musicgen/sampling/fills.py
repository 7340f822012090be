"""Filling gaps: bars of a piece are written anew, with what comes before and after them known.

A fill is one piece in progress. Its tokens begin with the whole piece around the gaps. When it is complete, the piece
without gaps is read once more, so that each bar has its likelihood, and fills can be ranked by how well the given bars
after them follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from musicgen.errors import UserError
from musicgen.languages.infill import Gap, Infill, parse_gaps
from musicgen.languages.language import Prompt
from musicgen.languages.rendering import Decoder, Rendering
from musicgen.languages.splice import Span, splice
from musicgen.midi.score import Score
from musicgen.sampling.bookmark import Bookmark, bar_ends
from musicgen.sampling.in_progress import PieceInProgress
from musicgen.sampling.piece import Piece
from musicgen.sampling.sampler import Sampler

if TYPE_CHECKING:
    from musicgen.sampling.music_model import MusicModel, Request

ALONE = ("bars", "seconds", "tokens", "from_state", "prompt_bars", "fork_at")
"""Options that mean nothing where bars are filled."""


@dataclass(frozen=True)
class SplicedRendering:
    """How a piece sounds whose bars were filled: outside the gaps as it was, note by note.

    Attributes:
        rendering: How the tokens sound.
        infill: The gaps of the language.
        original: The piece.
        gaps: The gaps, as the user counts bars.
        offset: Empty bars of the piece that tokens leave out.
    """

    rendering: Rendering
    infill: Infill
    original: Score
    gaps: Sequence[Gap]
    offset: int

    @property
    def spans(self) -> list[Span]:
        """The gaps in beats of the piece."""
        parts = self.infill.parts
        return [
            Span(*self.infill.beats(self.original, gap), parts.index(gap.part) if gap.part else -1) for gap in self.gaps
        ]

    def decode(self, tokens: Sequence[int]) -> Score:
        """The music of a whole piece, without gaps."""
        filled, language = self.rendering.decode(tokens), self.infill.language
        tracks = self.infill.tracks(self.original)
        offset = self.infill.beats(self.original, Gap(0, self.offset))[1] if self.offset else 0.0
        return splice(self.original, filled, self.spans, tracks, language.grid, offset, self.infill.has_tempo)

    def decoder(self) -> Decoder:
        """A fill is heard when it is complete."""
        raise NotImplementedError("a fill has no music before it is complete")


class FillSession:
    """A request to fill gaps that is ready: everything is read and checked, and nothing is sampled yet.

    Attributes:
        prompt: The piece up to its first `Fill`.
        constraints, sampling: What the fills keep to, and how their tokens are chosen.

    Raises:
        UserError: The request cannot be met; the message says why.
    """

    def __init__(self, music_model: MusicModel, request: Request, batch_size: int = 16) -> None:
        self.music_model, self.request, self.batch_size = music_model, request, batch_size
        language = music_model.language
        infill = language.infill
        if infill is None:
            raise UserError(
                f"fill={request.fill}: the model {music_model.name} was trained without gaps; "
                "take one that was trained with data.infill"
            )
        if request.prompt is None:
            raise UserError(f"fill={request.fill}: give the file too, prompt=FILE.mid")
        for name in ALONE:
            if getattr(request, name) is not None:
                raise UserError(f"{name}= and fill=: a piece that is filled keeps its length; leave out one")
        if not request.grammar:
            raise UserError("grammar=false and fill=: it is the grammar that keeps a fill in its bars; leave out one")
        self._infill = infill
        self.gaps = parse_gaps(str(request.fill), infill.parts)
        self._gapped = read = infill.read(request.prompt, self.gaps, request)
        tokens, leads = infill.begin(read.piece, read.gaps)
        self.prompt = Prompt(tokens, read.bars, {**read.setting, **leads}, read.report)
        self.sampling = request.sampling(music_model.sampling)
        self.constraints = replace(request.constraints(), bars=self.prompt.bars)
        language.mask(self.constraints, self.prompt.tokens, 0, self.prompt.setting)  # refuses what cannot be done

    def progress(self, n: int = 1) -> Iterator[PieceInProgress]:
        """Fills with `n` seeds in a row, ready to be written."""
        _, state = self.music_model.read(self.prompt.tokens, self.request.draw or 0)
        bookmark = Bookmark(tuple(self.prompt.tokens), state, setting=self.prompt.setting)
        for number in range(n):
            seed = self.request.seed + number
            yield PieceInProgress(self.music_model.language, bookmark, self.constraints, self.sampling, seed)

    def pieces(self, n: int = 1) -> Iterator[Piece]:
        """The piece with its gaps filled, `n` times, as they are finished; with `rank`, the best of them first."""
        rank = self.request.rank
        if rank is not None and rank < n:
            raise UserError(f"rank={rank}: takes {n} or more, the pieces that are wanted")
        sampler = Sampler(self.music_model.engine, self.batch_size)
        steps = sampler.run(self.progress(rank or n))
        finished = (self.piece(step.piece) for step in steps if step.is_last)
        if rank is None:
            yield from finished
            return
        ranked = sorted(finished, key=lambda piece: (-(piece.following or 0.0), piece.seed))
        yield from ranked[:n]

    def piece(self, progress: PieceInProgress) -> Piece:
        """The whole piece of a fill that is complete, with the likelihood of each bar."""
        music_model, language = self.music_model, self.music_model.language
        tokens = tuple(self._infill.finish(self._gapped.piece, self._gapped.gaps, progress.tokens).tolist())
        nats, _ = music_model.read(tokens, self.request.draw or 0)
        complete = language.complete_bars(tokens)
        bars = self.prompt.bars
        ends = np.append(np.array(bar_ends(complete), np.int64)[: bars - 1], len(tokens))
        sizes = np.diff(ends, prepend=0)
        likelihood = np.bincount(np.minimum(complete[:-1], bars - 1), nats, minlength=bars)
        offset = self.prompt.setting.get("skipped", 0)
        inside = np.zeros(bars, np.bool_)
        for gap in self.gaps:
            inside[gap.first - offset : gap.end - offset] = True
        after = np.arange(bars) >= self.gaps[0].first - offset
        masked = sum(progress.masked_probability) / max(len(progress.tokens) - len(self.prompt.tokens), 1)
        rendering = SplicedRendering(progress.rendering, self._infill, self._gapped.score, self.gaps, offset)
        return Piece(
            tokens,
            progress.seed,
            progress.variation,
            tuple(sizes.tolist()),
            tuple(likelihood.tolist()),
            tuple(np.where(inside, masked, 0.0).tolist()),
            0,
            0,
            len(language.grammar.errors(tokens)),
            rendering,
            tuple(map(str, self.gaps)),
            float(likelihood[after & ~inside].sum()),
            self.prompt.report,
        )
