"""Loss against position as findings: the paper's table, what context is worth, types of tokens, and the curve.

The hard choice: a mean is over tokens, as in training, so that its parts add up; the deviation beside it is over songs,
as in the paper's table. Models that differ by their seed alone are averaged token by token, and how far they lie apart
is a table of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from musicgen.evaluation.findings import Cell, Findings, Spread, Table
from musicgen.evaluation.nll import REGIONS, Curve, Followed, Targets, Types, curve, region_totals, types_of
from musicgen.evaluation.nll_picture import draw_curves, draw_types
from musicgen.evaluation.resampling import deviation

HALVES = ("trained", "beyond")
FEWEST_SONGS = 6
"""From which on songs can be sure of anything: that 5 go one way happens by chance once in 16 times."""


def nll_findings(
    families: Sequence[Followed], targets: Targets, bin_size: int | None, seed: int, settings: Mapping[str, Any]
) -> Findings:
    """All that is to be said.

    Args:
        families: What came of each family.
        targets: What was predicted.
        bin_size: Positions in a bin of the curve; None for what suits.
        seed: Of the intervals.
        settings: What it was made with.
    """
    curves = [curve(family, targets, bin_size) for family in families]
    judged = [_Judgement(family, targets, seed) for family in families]
    types = [types_of(family, targets) for family in families]
    names = targets.language.vocabulary.families
    draws = len(next(iter(families[0].members.values())).trained)
    return Findings(
        kind="nll",
        title="Loss against position",
        summary=_sentences(judged, targets, draws, seed),
        settings=settings,
        tables=[
            _summary_table(judged),
            _units_table(judged),
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
    """The numbers of a family that tables and sentences share.

    Attributes:
        spread: By region, the mean loss and its deviation over songs.
        gap: How much more it is at extrapolated than at trained positions.
        restarted: The mean loss beyond trained positions, in restarted windows.
        difference: How much more the full context has there than these windows, and the interval of that.
        bits: By region, for each note and for each bar.
    """

    def __init__(self, family: Followed, targets: Targets, seed: int) -> None:
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
        """What context beyond the trained length does."""
        difference, lower, upper = self.difference
        if math.isnan(difference):
            return "none"
        if self.songs < FEWEST_SONGS:
            return "unclear"
        return "helps" if upper < 0 else "harms" if lower > 0 else "unclear"

    def positions(self, region: str) -> str:
        """Those of a region, counted from 1."""
        half = min(self.trained + self.trained // 2, self.length)
        first = 1 if region == "trained" else self.trained + 1
        last = {"trained": min(self.trained, self.length), "extrapolated": half, "beyond": self.length}[region]
        return f"{first:,}–{last:,}" if first <= last else "none"

    def sentence(self) -> str:
        """What it comes to."""
        many = len(self.family.members)
        whose = self.name if many == 1 else f"{self.name} (mean of {many} models)"
        words = f"{whose}: {self.spread['trained'].mean:.3f} nats a token at positions {self.positions('trained')}"
        difference, lower, upper = self.difference
        if math.isnan(difference):
            return f"{words}; what was read does not go beyond its trained length of {self.trained:,}."
        if not math.isnan(self.gap):
            words += (
                f", {self.spread['extrapolated'].mean:.3f} at {self.positions('extrapolated')} "
                f"({abs(self.gap):.3f} {'more' if self.gap > 0 else 'less'})"
            )
        words += ". "
        bounds = f"95 % interval {min(abs(lower), abs(upper)):.3f} to {max(abs(lower), abs(upper)):.3f}"
        where = f"at {self.positions('beyond')} "
        if self.context == "helps":
            return (
                f"{words}More context helps: {where}it has {-difference:.3f} less than a restarted window ({bounds})."
            )
        if self.context == "harms":
            return f"{words}More context harms: {where}a restarted window has {difference:.3f} less ({bounds})."
        sure = f" (95 % interval {lower:+.3f} to {upper:+.3f})"
        if self.songs < FEWEST_SONGS:
            sure = " in one song" if self.songs == 1 else f" in {self.songs} songs"
        return (
            f"{words}Whether more context helps is unclear: {where}loss less restarted loss is {difference:+.3f}{sure}."
        )


def _summary_table(judged: Sequence[_Judgement]) -> Table:
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
        for judgement in judged
    ]
    title = "Cross-entropy in nats a token, mean ± deviation over songs"
    if len({judgement.trained for judgement in judged}) == 1:
        title += "; positions: " + ", ".join(f"{region} {judged[0].positions(region)}" for region in REGIONS)
    return Table("summary", title, columns, rows)


def _units_table(judged: Sequence[_Judgement]) -> Table:
    columns = ["model", *(f"bits a {unit}, {region}" for unit in ("note", "bar") for region in HALVES)]
    rows: list[list[Cell]] = [
        [judgement.name, *(judgement.bits[region][unit] for unit in (0, 1) for region in HALVES)]
        for judgement in judged
    ]
    return Table("units", "All bits of all tokens, for each note and for each bar", columns, rows, digits=2)


def _spread_table(families: Sequence[Followed]) -> Table:
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
    title = "Mean ± deviation of the loss over draws of noise, and over models that differ by their seed alone"
    return Table("spread", title, ["model", "over", "number", *HALVES], rows, digits=4)


def _types_table(families: Sequence[Followed], names: Sequence[str], types: Sequence[Types]) -> Table:
    columns = ["model", "tokens", *(f"{value}, {half}" for value in ("loss", "share", "number") for half in HALVES)]
    rows: list[list[Cell]] = []
    for family, found in zip(families, types, strict=True):
        share = found.sums / np.maximum(found.sums.sum(0), 1e-12)
        for kind in found.present:
            numbers = [int(count) for count in found.counts[kind]]
            rows.append([family.name, names[kind], *found.losses[kind].tolist(), *share[kind].tolist(), *numbers])
    title = "Loss in nats of each type of token, its share of the whole loss, and how many there are"
    return Table("types", title, columns, rows)


def _curve_table(families: Sequence[Followed], curves: Sequence[Curve], seed: int) -> Table:
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


def _sentences(judged: Sequence[_Judgement], targets: Targets, draws: int, seed: int) -> list[str]:
    songs, sizes, length = len(targets.pieces), targets.sizes, int(targets.position.max()) + 1
    noise = "one draw of the noise" if draws == 1 else f"{draws} draws of the noise, averaged"
    lines = [
        f"{songs:,} {'song' if songs == 1 else 'songs'}, {len(targets.song):,} tokens to predict, up to position "
        f"{length:,} ({int((sizes >= length).sum()):,} go so far); {noise}. Less is better; to know nothing costs "
        f"{math.log(len(targets.language.vocabulary)):.2f} nats a token."
    ]
    lines += [judgement.sentence() for judgement in judged]
    for trained in sorted({judgement.trained for judgement in judged}):
        # Other trained lengths are other tokens, and some tokens are easier than others.
        alike = [judgement for judgement in judged if judgement.trained == trained]
        lines += [line for region in HALVES for line in _best(alike, region, targets, seed)]
    for judgement in judged:
        family = judgement.family
        if family.cut or family.amid:
            lines.append(
                f"Of the {family.windows:,} restarted windows of {family.name}, {family.cut:,} begin inside a bar and "
                f"{family.amid:,} at a bar line where notes sound on, as no training window does, because no better "
                f"beginning was within {family.trained:,} tokens. That favours the full context."
            )
    return lines


def _best(judged: Sequence[_Judgement], region: str, targets: Targets, seed: int) -> list[str]:
    """Which of several models has the least loss on the same tokens, and whether that is sure."""
    known = [judgement for judgement in judged if not math.isnan(judgement.spread[region].mean)]
    if len(known) < 2:
        return []
    best, second = sorted(known, key=lambda judgement: judgement.spread[region].mean)[:2]
    paired = region_totals(best.family.full - second.family.full, targets, best.trained)[region]
    upper = float(paired.interval(seed)[1][0])
    where = f"At positions {best.positions(region)}"
    less = second.spread[region].mean - best.spread[region].mean
    if int((paired.counts > 0).sum()) < FEWEST_SONGS:
        return [f"{where} {best.name} has the least loss of the {len(known)}, but so few songs make nothing sure."]
    if upper < 0:
        return [
            f"{where} {best.name} has the least loss of the {len(known)}: {best.spread[region].mean:.3f}, "
            f"{less:.3f} less than {second.name}, the next."
        ]
    return [f"{where} {best.name} and {second.name} have the least loss of the {len(known)}, and are level."]
