"""The passages that are filled: the first bars of songs, with a gap in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from musicgen.languages import Language, Tokens
from musicgen.languages.infill import Gap, Infill
from musicgen.languages.splice import Span, splice
from musicgen.midi.score import Score

SMOOTHING = (0.55, 0.3, 0.1, 0.05)
"""Weights of trigrams, bigrams, single tokens, and of any token at all."""


@dataclass(frozen=True)
class Excerpt:
    """A passage of a song.

    Attributes:
        song: The number of the song.
        language: Its language.
        gapped: Its tokens with a gap, and the true bars with their lead after it.
        plain: The same without the gap.
        gap: The gap.
    """

    song: int
    language: Language
    gapped: Tokens
    plain: Tokens
    gap: Gap

    @property
    def infill(self) -> Infill:
        """The gaps of the language."""
        assert self.language.infill is not None  # noqa: S101
        return self.language.infill

    @property
    def score(self) -> Score:
        """Its music."""
        return self.language.decode(self.plain)

    @property
    def span(self) -> Span:
        """The gap in beats."""
        return Span(*self.infill.beats(self.score, self.gap))

    def inside(self, tokens: Tokens, first: int = 0) -> NDArray[np.bool_]:
        """Which tokens after a place are in the time of the gap, shape (tokens,)."""
        beats = self.language.clock(tokens)
        return (beats >= self.span.start) & (beats < self.span.end) & (np.arange(len(tokens)) > first)

    def after(self, tokens: Tokens, bars: int = 4) -> NDArray[np.bool_]:
        """Which tokens of a piece without gaps are in the bars after the gap, shape (tokens,)."""
        beats = self.language.clock(tokens)
        end = self.infill.beats(self.score, Gap(self.gap.end, bars))[1]
        return (beats >= self.span.end) & (beats < end)

    def with_bars(self, other: Score) -> Tokens:
        """Its tokens with the bars that another piece has in place of the gap."""
        tracks = [(number,) for number in range(len(other.tracks))]
        filled = splice(self.score, other, [self.span], tracks, self.language.grid, has_tempo=self.infill.has_tempo)
        return self.language.encode(filled).tokens

    def notes(self, score: Score) -> set[tuple[int, int, int]]:
        """Track, pitch and place on the grid of the notes that begin in the gap."""
        notes, grid = score.notes, self.language.grid
        place = np.rint(notes["start"] * grid / score.ticks_per_beat).astype(np.int64)
        rows = zip(notes["track"].tolist(), notes["pitch"].tolist(), place.tolist(), strict=True)
        return {row for row in rows if self.span.start * grid <= row[2] < self.span.end * grid}


def make_excerpt(language: Language, song: int, piece: Tokens, bars: int, context: int) -> Excerpt | None:
    """The first bars of a song with a gap in the middle; None if it has too few bars, or no notes in one of the three.

    Args:
        language: Its language.
        song: Its number.
        piece: Its tokens.
        bars: Bars of the gap.
        context: Bars before it, and at least four after it.
    """
    assert language.infill is not None  # noqa: S101
    gap, length = Gap(context, bars), context + bars + max(context, 4)
    if int(language.complete_bars(piece)[-1]) < length:
        return None
    plain = language.infill.put_in(language.infill.take_out(piece, [gap], length))
    gapped = language.infill.take_out(plain, language.infill.widen(plain, [gap]))
    excerpt = Excerpt(song, language, gapped, plain, gap)
    onsets = language.vocabulary.family[plain] == language.vocabulary.number(language.note_family)
    beats = language.clock(plain)
    parts = (beats < excerpt.span.start, excerpt.inside(plain), excerpt.after(plain))
    return excerpt if all((onsets & part).any() for part in parts) else None


def trigram_losses(excerpt: Excerpt) -> NDArray[np.float64]:
    """The loss of each token in the gap under trigrams counted in the bars around it, in nats."""
    tokens, size = excerpt.plain.astype(np.int64), len(excerpt.language.vocabulary)
    inside = excerpt.inside(excerpt.plain)
    counts: list[dict[tuple[int, ...], int]] = [{}, {}, {}]
    totals: list[dict[tuple[int, ...], int]] = [{}, {}, {}]
    for place in np.flatnonzero(~inside).tolist():
        for order in range(3):
            if place >= order and not inside[place - order : place].any():
                gram = tuple(tokens[place - order : place + 1].tolist())
                counts[order][gram] = counts[order].get(gram, 0) + 1
                totals[order][gram[:-1]] = totals[order].get(gram[:-1], 0) + 1
    losses = []
    for place in np.flatnonzero(inside).tolist():
        chance, weight = SMOOTHING[3] / size, SMOOTHING[3]
        for order, share in zip((2, 1, 0), SMOOTHING, strict=False):
            gram = tuple(tokens[max(place - order, 0) : place + 1].tolist())
            total = totals[order].get(gram[:-1], 0)
            if total:
                chance += share * counts[order].get(gram, 0) / total
                weight += share
        losses.append(-np.log(chance / weight))
    return np.array(losses)


def note_f1(ours: set[tuple[int, int, int]], theirs: set[tuple[int, int, int]]) -> float:
    """The harmonic mean of precision and recall of notes."""
    return 2 * len(ours & theirs) / max(len(ours) + len(theirs), 1)


def pitch_class_similarity(
    ours: set[tuple[int, int, int]], theirs: set[tuple[int, int, int]], drums: Sequence[bool]
) -> float:
    """The part that the histograms of pitch classes have in common, from 0 to 1; nan without pitched notes."""
    histograms = []
    for notes in (ours, theirs):
        classes = np.bincount([pitch % 12 for track, pitch, _ in notes if not drums[track]], minlength=12)
        if not classes.sum():
            return float("nan")
        histograms.append(classes / classes.sum())
    return float(np.minimum(*histograms).sum())
