"""Loss against position: models read songs far beyond the length of their training windows.

Design note: each token is scored twice, by the same model with the same noise: with the whole song before it, and in a
restarted window of the trained length (`restarts.py`). Songs change over time, so the loss at a late position says
little on its own. The difference of the two losses says whether the model gains from context beyond its training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.evaluation import Progress
from musicgen.evaluation.likelihood.losses import Losses, chunks, losses, whole
from musicgen.evaluation.likelihood.restarts import Window, restarted_windows
from musicgen.evaluation.models import EvaluatedModel, window_of
from musicgen.evaluation.resampling import Numbers, Totals, totals
from musicgen.languages.language import Language
from musicgen.languages.vocabulary import Tokens

AS_PAPER, FEWEST, MOST_BINS = 16, 32, 256
"""The paper has 16 bins for its 2048 trained positions. Smaller bins than 32, or more bins than 256, are noisy."""
REGIONS = ("trained", "extrapolated", "beyond")


@dataclass(frozen=True)
class Targets:
    """The tokens to predict, of all songs in a row; arrays are `(targets,)`.

    Attributes:
        pieces: The whole songs.
        language: The language of their tokens.
        song: The song of each target.
        position: Its position; the first target of a song has position 0.
        kind: The number of its family in the vocabulary.
        is_note: Whether it is the token that counts for a note.
        bars: Its share of its bar: the shares of a whole bar sum to 1.
    """

    pieces: Sequence[Tokens]
    language: Language
    song: NDArray[np.int64]
    position: NDArray[np.int64]
    kind: NDArray[np.int64]
    is_note: NDArray[np.bool_]
    bars: Numbers

    @classmethod
    def of(cls, pieces: Sequence[Tokens], length: int, language: Language) -> Targets:
        """The targets of pieces, up to a length."""
        sizes = [min(len(piece) - 1, length) for piece in pieces]
        tokens = np.concatenate([piece[1 : size + 1] for piece, size in zip(pieces, sizes, strict=True)])
        vocabulary = language.vocabulary
        kind = vocabulary.family[tokens]
        return cls(
            pieces=pieces,
            language=language,
            song=np.repeat(np.arange(len(pieces)), sizes),
            position=np.concatenate([np.arange(size) for size in sizes]),
            kind=kind,
            is_note=kind == vocabulary.number(language.note_family),
            bars=np.concatenate(
                [_parts_of_bars(piece, language)[:size] for piece, size in zip(pieces, sizes, strict=True)]
            ),
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many targets each song has."""
        return np.bincount(self.song, minlength=len(self.pieces))

    def region(self, trained: int) -> dict[str, NDArray[np.bool_]]:
        """Which targets are at trained positions, at half as many positions after them, and anywhere beyond."""
        beyond = self.position >= trained
        return {
            "trained": ~beyond,
            "extrapolated": beyond & (self.position < trained + trained // 2),
            "beyond": beyond,
        }


class MemberMeans(NamedTuple):
    """Mean losses of one model for each draw, at trained positions and beyond; both `(draws,)`."""

    trained: Numbers
    beyond: Numbers


@dataclass(frozen=True)
class PositionLosses:
    """The losses of models that differ only by seed; arrays are `(targets,)`, means over draws and models.

    Attributes:
        name: The name of the family.
        trained: The length of its training windows.
        full: Losses with the whole song before each target as context.
        restarted: Losses in restarted windows.
        members: Mean losses of each model, by name.
        windows: How many windows were restarted.
        cut: How many of these begin inside a bar.
        amid: How many begin at a bar line where notes sound on. No training window begins in these two ways.
    """

    name: str
    trained: int
    full: Numbers
    restarted: Numbers
    members: Mapping[str, MemberMeans]
    windows: int
    cut: int
    amid: int


def score_positions(
    named: Mapping[str, Sequence[EvaluatedModel]],
    targets: Targets,
    trained: int | None,
    seeds: Sequence[int],
    batch: int,
    progress: Progress,
) -> list[PositionLosses]:
    """Score all targets with all families of models and all draws of noise.

    `trained` is the length of training windows, for bundles that do not say it.
    """
    sizes = targets.sizes
    pieces = [piece[: size + 1] for piece, size in zip(targets.pieces, sizes, strict=True)]
    songs = [whole(piece) for piece in pieces]
    begins = np.cumsum(sizes) - sizes
    lengths = {name: window_of(members[0], trained) for name, members in named.items()}
    windows: dict[int, list[tuple[int, Window]]] = {}
    for length in set(lengths.values()):
        windows[length] = [
            (int(begin) + window.first, window)
            for begin, size, piece in zip(begins, sizes, targets.pieces, strict=True)
            for window in restarted_windows(targets.language, piece, int(size), length)
        ]
    work = chunks(songs, batch)
    total = len(seeds) * sum(
        len(members) * (work + chunks([window.passage for _, window in windows[lengths[name]]], batch))
        for name, members in named.items()
    )
    ticks = iter(progress(range(total), total, "chunk"))
    next(ticks, None)
    found = []
    for name, members in named.items():
        placed = windows[lengths[name]]
        region = targets.region(lengths[name])
        full, restarted = np.zeros(len(targets.song)), np.zeros(len(targets.song))
        means = {}
        for member in members:
            by_draw = []
            for seed in seeds:
                draw = member.model.draw(seed)
                read = partial(losses, member.model, done=lambda: next(ticks, None), clock=member.language.clock)
                values = np.concatenate(read(songs, draw, batch))
                full += values
                by_draw.append([_mean(values[region[half]]) for half in ("trained", "beyond")])
                passages = [window.passage for _, window in placed]
                for (first, _), part in zip(placed, read(passages, draw, batch), strict=True):
                    values[first : first + len(part)] = part
                restarted += values
            means[member.name] = MemberMeans(*np.array(by_draw).T)
        parts = len(members) * len(seeds)
        counts = [sum(window.begins == kind for _, window in placed) for kind in ("cut", "amid")]
        found.append(PositionLosses(name, lengths[name], full / parts, restarted / parts, means, len(placed), *counts))
    return found


class Curve(NamedTuple):
    """Losses by position, in bins.

    Attributes:
        edges: The first position of each bin, and the one after the last, `(bins + 1,)`.
        full, restarted: The losses in each.
    """

    edges: NDArray[np.int64]
    full: Totals
    restarted: Totals


def curve(followed: PositionLosses, targets: Targets, bin_size: int | None) -> Curve:
    """The curve of a family. One bin ends at the trained length, so no bin mixes trained and later positions."""
    length = int(targets.position.max()) + 1
    size = bin_size or default_bin(followed.trained, length)
    edges = np.unique([*range(0, length, size), min(followed.trained, length), length])
    cell = np.searchsorted(edges, targets.position, side="right") - 1
    full, restarted = (
        totals(values, targets.song, cell, len(edges) - 1) for values in (followed.full, followed.restarted)
    )
    return Curve(edges, full, restarted)


def default_bin(trained: int, length: int) -> int:
    """How many positions a bin has: as in the paper, or more if windows are short or songs very long."""
    size = min(trained, max(FEWEST, trained // AS_PAPER))
    while length > size * MOST_BINS:
        size *= 2
    return size


def region_totals(values: Numbers, targets: Targets, trained: int) -> dict[str, Totals]:
    """Sums by song for each region; each has one cell."""
    return {
        name: totals(values, targets.song, np.where(chosen, 0, -1), 1)
        for name, chosen in targets.region(trained).items()
    }


class Types(NamedTuple):
    """Losses by type of token, at trained positions and beyond; both `(families of the vocabulary, 2)`."""

    sums: Numbers
    counts: Numbers

    @property
    def losses(self) -> Numbers:
        """Means; nan where there are no such tokens."""
        return Totals(self.sums.reshape(1, -1), self.counts.reshape(1, -1)).mean().reshape(self.sums.shape)

    @property
    def present(self) -> list[int]:
        """The families that occur."""
        return np.flatnonzero(self.counts.sum(1)).tolist()


def types_of(followed: PositionLosses, targets: Targets) -> Types:
    """The losses of a family of models by type of token."""
    kinds = len(targets.language.vocabulary.families)
    cell = 2 * targets.kind + (targets.position >= followed.trained)
    found = totals(followed.full, np.zeros_like(targets.song), cell, 2 * kinds)
    return Types(found.sums.reshape(kinds, 2), found.counts.reshape(kinds, 2))


def _parts_of_bars(piece: Tokens, language: Language) -> Numbers:
    """The share of each token but the first in its bar, `(targets,)`; the end of a piece belongs to the last bar."""
    complete = language.complete_bars(piece.tolist())
    bar = np.minimum(complete[1:], max(int(complete[-1]) - 1, 0))
    parts: Numbers = 1 / np.bincount(bar)[bar]
    return parts


def _mean(values: Losses) -> float:
    return float(values.mean(dtype=np.float64)) if len(values) else float("nan")
