"""Findings on loss against position: the paper's table, the value of context, types of tokens, and the curve.

Design note: a mean is over tokens, as in training, so that its parts add up. The deviation is over songs, as in
the paper's table. Models that differ only by seed are averaged token by token; their spread is a separate table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from musicgen.evaluation.likelihood.pictures import draw_curves, draw_types
from musicgen.evaluation.likelihood.positions import (
    REGIONS,
    Curve,
    PositionLosses,
    Targets,
    Types,
    curve,
    region_totals,
    types_of,
)
from musicgen.evaluation.report.findings import Cell, Findings, Spread, Table
from musicgen.evaluation.resampling import deviation

HALVES = ("trained", "beyond")
FEWEST_SONGS = 6
"""With fewer songs nothing is certain: that all of 5 songs agree happens by chance once in 16 times."""


def nll_findings(families: Sequence[PositionLosses], targets: Targets, bin_size: int | None, seed: int) -> Findings:
    """Findings on families of models."""
    curves = [curve(family, targets, bin_size) for family in families]
    judgements = [_Judgement(family, targets, seed) for family in families]
    types = [types_of(family, targets) for family in families]
    names = targets.language.vocabulary.families
    draws = len(next(iter(families[0].members.values())).trained)
    return Findings(
        kind="nll",
        title="Loss against position",
        summary=_sentences(judgements, targets, draws, seed),
        tables=[
            _summary_table(judgements),
            _units_table(judgements),
            _spread_table(families),
            _types_table(families, names, types),
            _curve_table(families, curves, seed),
        ],
        pictures=[draw_curves(families, curves, seed), draw_types(families, names, types)],
        details={
            "windows": {
                family.name: {"restarted": family.windows, "cut": family.cut, "amid": family.amid}
                for family in families
            }
        },
    )


class _Judgement:
    """The numbers of a family that tables and sentences use.

    Attributes:
        spread: By region, the mean loss and its deviation over songs.
        gap: The loss at extrapolated positions minus the loss at trained positions.
        restarted: The mean loss beyond trained positions, in restarted windows.
        difference: The loss with full context there minus the restarted loss, and the 95 % interval.
        bits: By region, bits for each note and for each bar.
    """

    def __init__(self, family: PositionLosses, targets: Targets, seed: int) -> None:
        self.family, self.name, self.trained = family, family.name, family.trained
        self.length = int(targets.position.max()) + 1
        full = region_totals(family.full, targets, family.trained)
        self.spread = {
            region: Spread(float(sums.mean()[0]), float(sums.deviation()[0])) for region, sums in full.items()
        }
        self.gap = self.spread["extrapolated"].mean - self.spread["trained"].mean
        self.restarted = float(region_totals(family.restarted, targets, family.trained)["beyond"].mean()[0])
        paired = region_totals(family.full - family.restarted, targets, family.trained)["beyond"]
        self.songs = int((paired.counts > 0).sum())
        self.difference = (float(paired.mean()[0]), *(float(bound[0]) for bound in paired.interval(seed)))
        self.bits: dict[str, tuple[float, float]] = {}
        for region, chosen in targets.region(family.trained).items():
            bits = float(family.full[chosen].sum()) / math.log(2)
            notes, bars = float(targets.is_note[chosen].sum()), float(targets.bars[chosen].sum())
            self.bits[region] = (bits / notes if notes else math.nan, bits / bars if bars else math.nan)

    @property
    def context(self) -> str:
        """Whether context beyond the trained length helps."""
        difference, lower, upper = self.difference
        if math.isnan(difference):
            return "none"
        if self.songs < FEWEST_SONGS:
            return "unclear"
        return "helps" if upper < 0 else "harms" if lower > 0 else "unclear"

    def positions(self, region: str) -> str:
        """The positions of a region, counted from 1."""
        half = min(self.trained + self.trained // 2, self.length)
        first = 1 if region == "trained" else self.trained + 1
        last = {"trained": min(self.trained, self.length), "extrapolated": half, "beyond": self.length}[region]
        return f"{first:,}–{last:,}" if first <= last else "none"

    def sentence(self) -> str:
        """The result in words."""
        many = len(self.family.members)
        whose = self.name if many == 1 else f"{self.name} (mean of {many} models)"
        words = f"{whose}: {self.spread['trained'].mean:.3f} nats per token at positions {self.positions('trained')}"
        difference, lower, upper = self.difference
        if math.isnan(difference):
            return f"{words}; no song goes beyond its trained length of {self.trained:,}."
        if not math.isnan(self.gap):
            words += (
                f", {self.spread['extrapolated'].mean:.3f} at {self.positions('extrapolated')} "
                f"({abs(self.gap):.3f} {'more' if self.gap > 0 else 'less'})"
            )
        words += ". "
        bounds = f"95 % interval {min(abs(lower), abs(upper)):.3f} to {max(abs(lower), abs(upper)):.3f}"
        where = f"at {self.positions('beyond')} "
        if self.context == "unclear":
            sure = f" (95 % interval {lower:+.3f} to {upper:+.3f})"
            if self.songs < FEWEST_SONGS:
                sure = " in one song" if self.songs == 1 else f" in {self.songs} songs"
            unclear = f"loss minus restarted loss is {difference:+.3f}{sure}."
            return f"{words}Whether more context helps is unclear: {where}{unclear}"
        lower_or_higher = "lower" if self.context == "helps" else "higher"
        compared = f"the loss is {abs(difference):.3f} {lower_or_higher} than in a restarted window ({bounds})."
        return f"{words}More context {self.context}: {where}{compared}"


def _summary_table(judgements: Sequence[_Judgement]) -> Table:
    columns = ["model", "trained length", *REGIONS, "gap", "restarted", "difference", "lower", "upper", "context"]
    rows: list[list[Cell]] = [
        [
            judgement.name,
            judgement.trained,
            *(judgement.spread[region] for region in REGIONS),
            judgement.gap,
            judgement.restarted,
            *judgement.difference,
            judgement.context,
        ]
        for judgement in judgements
    ]
    title = "Cross-entropy in nats per token, mean ± deviation over songs"
    if len({judgement.trained for judgement in judgements}) == 1:
        title += "; positions: " + ", ".join(f"{region} {judgements[0].positions(region)}" for region in REGIONS)
    return Table("summary", title, columns, rows)


def _units_table(judgements: Sequence[_Judgement]) -> Table:
    columns = ["model", *(f"bits a {unit}, {region}" for unit in ("note", "bar") for region in HALVES)]
    rows: list[list[Cell]] = [
        [judgement.name, *(judgement.bits[region][unit] for unit in (0, 1) for region in HALVES)]
        for judgement in judgements
    ]
    return Table("units", "Bits of all tokens, divided by the number of notes and of bars", columns, rows, digits=2)


def _spread_table(families: Sequence[PositionLosses]) -> Table:
    rows: list[list[Cell]] = []
    for family in families:
        means = {name: [values.mean() for values in member] for name, member in family.members.items()}
        rows += [
            [name, "draws", len(member.trained), *(Spread(float(v.mean()), deviation(v)) for v in member)]
            for name, member in family.members.items()
        ]
        if len(family.members) > 1:
            across = np.array(list(means.values())).T
            spreads = (Spread(float(values.mean()), deviation(values)) for values in across)
            rows.append([family.name, "models", len(family.members), *spreads])
    title = "Mean ± deviation of the loss over draws of noise, and over models that differ only by seed"
    return Table("spread", title, ["model", "over", "number", *HALVES], rows, digits=4)


def _types_table(families: Sequence[PositionLosses], names: Sequence[str], types: Sequence[Types]) -> Table:
    columns = ["model", "tokens", *(f"{value}, {half}" for value in ("loss", "share", "number") for half in HALVES)]
    rows: list[list[Cell]] = []
    for family, found in zip(families, types, strict=True):
        share = found.sums / np.maximum(found.sums.sum(0), 1e-12)
        for kind in found.present:
            numbers = [int(count) for count in found.counts[kind]]
            rows.append([family.name, names[kind], *found.losses[kind].tolist(), *share[kind].tolist(), *numbers])
    title = "Loss in nats of each type of token, its share of the whole loss, and how many there are"
    return Table("types", title, columns, rows)


def _curve_table(families: Sequence[PositionLosses], curves: Sequence[Curve], seed: int) -> Table:
    rows: list[list[Cell]] = []
    for family, found in zip(families, curves, strict=True):
        columns = (
            found.edges[:-1] + 1,
            found.edges[1:],
            found.full.mean(),
            *found.full.interval(seed),
            found.restarted.mean(),
            *found.restarted.interval(seed),
            found.full.counts.sum(0).astype(np.int64),
            (found.full.counts > 0).sum(0),
        )
        rows += [[family.name, *row] for row in zip(*(column.tolist() for column in columns), strict=True)]
    names = ["loss", "lower", "upper", "restarted", "restarted lower", "restarted upper", "tokens", "songs"]
    return Table("curve", "Loss against position", ["model", "from", "to", *names], rows, shown=False)


def _sentences(judgements: Sequence[_Judgement], targets: Targets, draws: int, seed: int) -> list[str]:
    songs, sizes, length = len(targets.pieces), targets.sizes, int(targets.position.max()) + 1
    noise = "one draw of the noise" if draws == 1 else f"{draws} draws of the noise, averaged"
    lines = [
        f"{songs:,} {'song' if songs == 1 else 'songs'}, {len(targets.song):,} tokens to predict, up to position "
        f"{length:,} ({int((sizes >= length).sum()):,} of the songs are as long); {noise}. Lower is better; a "
        "uniform guess costs "
        f"{math.log(len(targets.language.vocabulary)):.2f} nats per token."
    ]
    lines += [judgement.sentence() for judgement in judgements]
    for trained in sorted({judgement.trained for judgement in judgements}):
        # Models with other trained lengths are scored on other tokens, which may be easier.
        alike = [judgement for judgement in judgements if judgement.trained == trained]
        lines += [line for region in HALVES for line in _best(alike, region, targets, seed)]
    for judgement in judgements:
        family = judgement.family
        if family.cut or family.amid:
            lines.append(
                f"Of the {family.windows:,} restarted windows of {family.name}, {family.cut:,} begin inside a bar and "
                f"{family.amid:,} at a bar line where notes sound on, because there was no better place within "
                f"{family.trained:,} tokens. No training window begins like this, so this favours the full context."
            )
    return lines


def _best(judgements: Sequence[_Judgement], region: str, targets: Targets, seed: int) -> list[str]:
    """Which of several models has the lowest loss on the same tokens, and whether that is certain."""
    known = [judgement for judgement in judgements if not math.isnan(judgement.spread[region].mean)]
    if len(known) < 2:
        return []
    best, second = sorted(known, key=lambda judgement: judgement.spread[region].mean)[:2]
    paired = region_totals(best.family.full - second.family.full, targets, best.trained)[region]
    upper = float(paired.interval(seed)[1][0])
    where = f"At positions {best.positions(region)}"
    less = second.spread[region].mean - best.spread[region].mean
    if int((paired.counts > 0).sum()) < FEWEST_SONGS:
        return [f"{where} {best.name} has the lowest loss of the {len(known)}, but there are too few songs to be sure."]
    if upper < 0:
        return [
            f"{where} {best.name} has the lowest loss of the {len(known)}: {best.spread[region].mean:.3f}, "
            f"{less:.3f} lower than {second.name}, the next."
        ]
    return [
        f"{where} {best.name} and {second.name} have the lowest loss of the {len(known)}, and neither is surely better."
    ]
