"""Loss against position: models read songs far beyond the length that they were trained on.

The hard choice: each token is scored twice by the same model with the same noise: with all of the song before it, and
in a window of the trained length that was restarted (`restarts.py`). Songs change as they go on, so the loss far into a
song says little by itself; whether the model gains by what lies further back than its training windows reached, the
difference of the two says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.evaluation.likelihood import Losses, Progress, chunks, losses, whole
from musicgen.evaluation.models import Judged, window_of
from musicgen.evaluation.resampling import Numbers, Totals, totals
from musicgen.evaluation.restarts import Window, restarted_windows
from musicgen.sampling.dialect import Dialect
from musicgen.tokens import Remi, Tokens
from musicgen.tokens.groove import Groove

NOTES = ("Pitch", "NoteOn")
"""Families of tokens of which each note has one."""
AS_PAPER, FEWEST, MOST_BINS = 16, 32, 256
"""The paper's 2048 trained positions have 16 bins; a bin of less than 32 is noise, and more than 256 bins are too."""
REGIONS = ("trained", "extrapolated", "beyond")


@dataclass(frozen=True)
class Targets:
    """The tokens to be predicted, of all songs end to end; arrays are `(targets,)`.

    Attributes:
        pieces: The songs, whole.
        language: Of their tokens.
        song: Which song each target is of.
        position: How many tokens it is predicted from, less one: the first target has position 0.
        kind: The number of its family in the vocabulary.
        is_note: Whether it is the one token of a note that is counted.
        bars: The part that it is of its bar, so that those of a whole bar come to 1.
    """

    pieces: Sequence[Tokens]
    language: Remi | Groove
    song: NDArray[np.int64]
    position: NDArray[np.int64]
    kind: NDArray[np.int64]
    is_note: NDArray[np.bool_]
    bars: Numbers

    @classmethod
    def of(cls, pieces: Sequence[Tokens], length: int, language: Remi | Groove, dialect: Dialect) -> Targets:
        """Those of pieces, each followed to a length."""
        sizes = [min(len(piece) - 1, length) for piece in pieces]
        tokens = np.concatenate([piece[1 : size + 1] for piece, size in zip(pieces, sizes, strict=True)])
        vocabulary = language.vocabulary
        notes = [number for number, family in enumerate(vocabulary.families) if family in NOTES]
        kind = vocabulary.family[tokens]
        return cls(
            pieces=pieces,
            language=language,
            song=np.repeat(np.arange(len(pieces)), sizes),
            position=np.concatenate([np.arange(size) for size in sizes]),
            kind=kind,
            is_note=np.isin(kind, notes),
            bars=np.concatenate(
                [_parts_of_bars(piece, dialect)[:size] for piece, size in zip(pieces, sizes, strict=True)]
            ),
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many targets each song has."""
        return np.bincount(self.song, minlength=len(self.pieces))

    def region(self, trained: int) -> dict[str, NDArray[np.bool_]]:
        """Which targets are at trained positions, which in half as many after them, and which anywhere beyond."""
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
class Followed:
    """What came of the models of a family; arrays are `(targets,)`, means over draws and over models.

    Attributes:
        name: Of the family.
        trained: The length of its training windows.
        full: Losses, given all of the song that comes before.
        restarted: Losses in restarted windows.
        members: Means of each model, by its name.
        windows: How many windows were restarted.
        cut: ... of which so many begin inside a bar.
        amid: ... and so many at a bar line where notes sound on, which no training window does either.
    """

    name: str
    trained: int
    full: Numbers
    restarted: Numbers
    members: Mapping[str, MemberMeans]
    windows: int
    cut: int
    amid: int


def follow(
    named: Mapping[str, Sequence[Judged]],
    targets: Targets,
    trained: int | None,
    seeds: Sequence[int],
    batch: int,
    progress: Progress,
) -> list[Followed]:
    """Score all targets with all models.

    Args:
        named: Families of models.
        targets: What is to be predicted.
        trained: The length of training windows; None for what bundles say.
        seeds: Of the draws of noise.
        batch: Songs or windows that are read at once.
        progress: Shows how far it is.
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
                values = np.concatenate(losses(member.model, songs, draw, batch, lambda: next(ticks, None)))
                full += values
                by_draw.append([_mean(values[region[half]]) for half in ("trained", "beyond")])
                passages = [window.passage for _, window in placed]
                for (first, _), part in zip(
                    placed, losses(member.model, passages, draw, batch, lambda: next(ticks, None)), strict=True
                ):
                    values[first : first + len(part)] = part
                restarted += values
            means[member.name] = MemberMeans(*np.array(by_draw).T)
        parts = len(members) * len(seeds)
        counts = [sum(window.begins == kind for _, window in placed) for kind in ("cut", "amid")]
        found.append(Followed(name, lengths[name], full / parts, restarted / parts, means, len(placed), *counts))
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


def curve(followed: Followed, targets: Targets, bin_size: int | None) -> Curve:
    """The curve of a family. A bin ends where training windows do, so that none is half of the one kind."""
    length = int(targets.position.max()) + 1
    size = bin_size or default_bin(followed.trained, length)
    edges = np.unique([*range(0, length, size), min(followed.trained, length), length])
    cell = np.searchsorted(edges, targets.position, side="right") - 1
    full, restarted = (
        totals(values, targets.song, cell, len(edges) - 1) for values in (followed.full, followed.restarted)
    )
    return Curve(edges, full, restarted)


def default_bin(trained: int, length: int) -> int:
    """Positions in a bin: as in the paper, or more where windows are short or songs very long."""
    size = min(trained, max(FEWEST, trained // AS_PAPER))
    while length > size * MOST_BINS:
        size *= 2
    return size


def region_totals(values: Numbers, targets: Targets, trained: int) -> dict[str, Totals]:
    """Sums by song over each region; each has one cell."""
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
        """The families that there are."""
        return np.flatnonzero(self.counts.sum(1)).tolist()


def types_of(followed: Followed, targets: Targets) -> Types:
    """The losses of a family of models by type of token."""
    kinds = len(targets.language.vocabulary.families)
    cell = 2 * targets.kind + (targets.position >= followed.trained)
    found = totals(followed.full, np.zeros_like(targets.song), cell, 2 * kinds)
    return Types(found.sums.reshape(kinds, 2), found.counts.reshape(kinds, 2))


def _parts_of_bars(piece: Tokens, dialect: Dialect) -> Numbers:
    """The part that each token but the first is of its bar; what closes the piece is of the last bar, `(targets,)`."""
    complete = dialect.complete_bars(piece.tolist())
    bar = np.minimum(complete[1:], max(int(complete[-1]) - 1, 0))
    parts: Numbers = 1 / np.bincount(bar)[bar]
    return parts


def _mean(values: Losses) -> float:
    return float(values.mean(dtype=np.float64)) if len(values) else float("nan")
