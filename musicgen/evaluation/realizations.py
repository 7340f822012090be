"""Loss against R: models trained with one number of noise realisations, tried with others.

The hard choice: draws have the same seeds at every R, and those of validation in training, so that the cell in which a
model has the R that it was trained with is its `val/loss`. What differs from cell to cell is R alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.evaluation.findings import Cell, Findings, Spread, Table
from musicgen.evaluation.likelihood import Progress, chunks, losses, whole
from musicgen.evaluation.models import Judged, window_of
from musicgen.evaluation.resampling import deviation
from musicgen.model import PerformerConfig
from musicgen.tokens import Tokens


@dataclass(frozen=True)
class Row:
    """A family of models, tried with several numbers of realisations.

    Attributes:
        name: Of the family.
        realizations: R that it was trained with.
        length: Tokens of each song that were predicted.
        cells: By R, mean loss and its deviation over draws; nan where there can be none.
    """

    name: str
    realizations: int
    length: int
    cells: Mapping[int, Spread]


def fewest(config: PerformerConfig) -> int:
    """The least R that a model can have: exact noise needs one for each sine, cosine and gate of a feature."""
    return (2 * config.num_sines + config.gated) * config.head_features if config.noise == "exact" else 1


def try_realizations(
    named: Mapping[str, Sequence[Judged]],
    pieces: Sequence[Tokens],
    numbers: Sequence[int],
    length: int | None,
    seeds: Sequence[int],
    batch: int,
    progress: Progress,
) -> list[Row]:
    """The mean loss of each family with each number of realisations; in the order of what they were trained with.

    Args:
        named: Families of models.
        pieces: Songs.
        numbers: R to try; that of each family's training joins them.
        length: Tokens of each song to predict; None for the length of training windows.
        seeds: Of the draws.
        batch: Songs that are read at once.
        progress: Shows how far it is.

    Raises:
        UserError: A model has no realisations, or does not say how long its windows were.
    """
    for name, members in named.items():
        config = members[0].model.config
        if not config.is_stochastic:
            raise UserError(
                f"model: {name} encodes positions without noise (pe={config.pe}), so it has no R; leave it out"
            )
    tried = sorted({*numbers, *(members[0].model.config.num_realizations for members in named.values())})
    songs = {}
    for name, members in named.items():
        end = (length or window_of(members[0], None, "length")) + 1
        songs[name] = [whole(piece[:end]) for piece in pieces]
    possible = {
        name: [number for number in tried if number >= fewest(members[0].model.config)]
        for name, members in named.items()
    }
    total = len(seeds) * sum(
        len(members) * len(possible[name]) * chunks(songs[name], batch) for name, members in named.items()
    )
    ticks = iter(progress(range(total), total, "chunk"))
    next(ticks, None)
    rows = []
    for name, members in named.items():
        cells = dict.fromkeys(tried, Spread(math.nan, math.nan))
        for number in possible[name]:
            means = np.zeros(len(seeds))
            for member in members:
                for place, seed in enumerate(seeds):
                    draw = member.model.draw(seed, number)
                    found = losses(member.model, songs[name], draw, batch, lambda: next(ticks, None))
                    means[place] += np.concatenate(found).mean(dtype=np.float64) / len(members)
            cells[number] = Spread(float(means.mean()), deviation(means))
        longest = max(len(song.targets) for song in songs[name])
        rows.append(Row(name, members[0].model.config.num_realizations, longest, cells))
    return sorted(rows, key=lambda row: row.realizations)


def realizations_findings(rows: Sequence[Row], songs: int, draws: int, settings: Mapping[str, Any]) -> Findings:
    """All that is to be said.

    Args:
        rows: What came of each family.
        songs: How many were read.
        draws: How many draws of noise were averaged.
        settings: What it was made with.
    """
    from musicgen.evaluation.realizations_picture import draw_realizations

    tried = list(rows[0].cells)
    table_rows: list[list[Cell]] = [
        [row.name, row.realizations, *(None if math.isnan(cell.mean) else cell for cell in row.cells.values())]
        for row in rows
    ]
    table = Table(
        "loss",
        "Cross-entropy in nats a token, mean ± deviation over draws of noise, with R realisations",
        ["model", "trained with R", *(f"R = {number}" for number in tried)],
        table_rows,
    )
    return Findings(
        kind="realizations",
        title="Loss against the number of noise realisations",
        summary=_sentences(rows, songs, draws),
        settings=settings,
        tables=[table],
        pictures=[draw_realizations(rows)],
        left_out=[
            f"{row.name}: R = {number} is too few for exact noise"
            for row in rows
            for number, cell in row.cells.items()
            if math.isnan(cell.mean)
        ],
    )


def _sentences(rows: Sequence[Row], songs: int, draws: int) -> list[str]:
    longest = max(row.length for row in rows)
    noise = "one draw of the noise" if draws == 1 else f"{draws} draws of the noise, averaged"
    lines = [
        f"{songs:,} {'song' if songs == 1 else 'songs'}, each to position {longest:,} at most; {noise}. Less is better."
    ]
    for row in rows:
        # Cells of a family are means over its models, and so are their deviations.
        known = {number: cell for number, cell in row.cells.items() if not math.isnan(cell.mean)}
        own, best = known[row.realizations], min(known, key=lambda number: known[number].mean)
        words = f"{row.name}: {own.mean:.3f} nats a token with the R = {row.realizations} that it was trained with"
        others = [
            f"{known[number].mean - own.mean:+.3f} with {number}" for number in known if number != row.realizations
        ]
        words += f" ({', '.join(others)})" if others else ""
        lines.append(f"{words}; least with R = {best}." if others else f"{words}; no other R was possible.")
        first, last = min(known), max(known)
        spreads = known[first].deviation, known[last].deviation
        if first < last and not math.isnan(spreads[0]):
            lines.append(
                f"From draw to draw this deviates by {spreads[0]:.4f} with R = {first}, and by {spreads[1]:.4f} with "
                f"R = {last}."
            )
    return lines
