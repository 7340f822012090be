"""Findings on attention: kernels, gates, decays and maps, as tables, figures and maps to explore."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from musicgen.evaluation.encoding.attention import Read, Subject
from musicgen.evaluation.encoding.attention_options import AttentionOptions
from musicgen.evaluation.encoding.focus import looks_tables, mean_look
from musicgen.evaluation.encoding.kernels import Floats, Templates, decays, gates, templates
from musicgen.evaluation.encoding.maps import MapKind, level_values
from musicgen.evaluation.encoding.pictures import draw_decays, draw_gates, draw_maps, draw_matrices, draw_templates
from musicgen.evaluation.report.findings import Cell, Explorer, Findings, Picture, Table

MATRIX_SIDE = 256  # queries and keys of a kernel's picture: fewer pixels would alias its waves
MOST_ROWS = 48  # of a table that people are shown


def attention_findings(subjects: Sequence[Subject], read: Sequence[Read], options: AttentionOptions) -> Findings:
    """Findings on models that have read their pieces; kernels are computed here."""
    files = _file_names([subject.evaluated.name for subject in subjects])
    pictures: list[Picture] = []
    kernels: dict[str, Templates] = {}
    for subject, file in zip(subjects, files, strict=True):
        name = subject.evaluated.name
        if subject.picks:
            side = min(subject.trained, MATRIX_SIDE)
            model = subject.evaluated.model
            kernels[name] = templates(model, subject.picks, subject.trained, side, options.draws, options.seed)
            pictures.append(draw_templates(f"templates{file}", name, kernels[name]))
            pictures.append(draw_matrices(f"matrices{file}", name, kernels[name]))
    models = {subject.evaluated.name: subject.evaluated.model for subject in subjects}
    decayed = {name: rates for name, model in models.items() if (rates := decays(model)) is not None}
    gated = {name: deltas for name, model in models.items() if (deltas := gates(model)) is not None}
    if decayed:
        reaches = [subject.trained for subject in subjects if subject.evaluated.name in decayed]
        pictures.append(draw_decays(decayed, reaches))
    if gated:
        pictures.append(draw_gates(gated))
    explorers = []
    for subject, own, file in zip(subjects, read, files, strict=True):
        length, name = len(own.tokens), subject.evaluated.name
        pictures.append(draw_maps(f"maps{file}", name, own.maps, length, subject.trained))
        explorers.append(_explorer(f"explore{file}", subject, own, options.kind))
    found = {subject.evaluated.name: (own.looks, own.even) for subject, own in zip(subjects, read, strict=True)}
    return Findings(
        kind="attention",
        title="Attention: learned kernels, gates and maps",
        summary=_summary(subjects, read, options, kernels, gated),
        tables=[
            *looks_tables(found),
            *(table for table in (_kernel_table(kernels), _gate_table(gated), _decay_table(decayed)) if table.rows),
        ],
        pictures=pictures,
        explorers=explorers,
        details={"pieces": {subject.evaluated.name: own.tokens for subject, own in zip(subjects, read, strict=True)}},
    )


def _file_names(models: Sequence[str]) -> list[str]:
    """What is added to the file names of each model; nothing if there is only one model."""
    if len(models) == 1:
        return [""]
    plain = ["_" + re.sub(r"[^0-9A-Za-z-]+", "-", name) for name in models]
    return plain if len(set(plain)) == len(plain) else [f"{name}-{number}" for number, name in enumerate(plain, 1)]


def _explorer(name: str, subject: Subject, read: Read, kind: MapKind) -> Explorer:
    words = "exp(q·k/√E), each row divided by its sum" if kind == "exact" else "what the random features give"
    names = subject.evaluated.language.vocabulary.to_names(read.tokens)
    return Explorer(
        name,
        f"Attention of {subject.evaluated.name} in a piece of {len(read.tokens):,} tokens",
        {"layer": [str(layer) for layer in subject.layers], "head": [str(head) for head in subject.heads]},
        {(str(layer), str(head)): levels for (layer, head), levels in read.maps.items()},
        level_values(),
        extent=(len(read.tokens), len(read.tokens)),
        labels=names,
        note=f"Attention is {words}. Colours are the paper's, min(1, a^0.4 / 0.02^0.4): the brightest stands for 0.02 "
        "and more. In a map that was made smaller, a cell has the largest attention of the cells it replaces. "
        f"Training windows had {subject.trained:,} tokens.",
    )


def _kernel_table(kernels: Mapping[str, Templates]) -> Table:
    rows: list[list[Cell]] = []
    for name, found in kernels.items():
        centre = len(found.lags) // 2
        for number, ((head, feature), error) in enumerate(zip(found.picks, found.errors(), strict=True)):
            kernel = found.closed[number]
            top = int(np.abs(kernel).argmax())
            peak = [float(kernel[centre]), float(kernel[top]), int(found.lags[top])]
            rows.append([name, head, feature, *peak, float(error)])
    columns = ["model", "head", "feature", "at lag 0", "largest", "at lag", "error of a draw"]
    title = "Learned kernels, and how far a draw is from them (root mean square over lags)"
    return Table("templates", title, columns, rows, shown=len(rows) <= MOST_ROWS)


def _gate_table(gated: Mapping[str, Floats]) -> Table:
    rows: list[list[Cell]] = [
        [name, layer + 1, head + 1, *(float(number) for number in (own.mean(), own.min(), own.max()))]
        for name, deltas in gated.items()
        for layer, heads in enumerate(deltas)
        for head, own in enumerate(heads)
    ]
    title = "Gates: δ over the features of each head; 0 means fully positional, 1 means blind to positions"
    columns = ["model", "layer", "head", "mean", "lowest", "highest"]
    return Table("gates", title, columns, rows, shown=len(rows) <= MOST_ROWS)


def _decay_table(decayed: Mapping[str, Floats]) -> Table:
    rows: list[list[Cell]] = []
    for name, rates in decayed.items():
        alike = bool((rates == rates[0]).all())
        for layer, own in enumerate(rates[:1] if alike else rates):
            rows += [
                [name, "all" if alike else str(layer + 1), head + 1, float(rate), math.log(0.5) / math.log(rate)]
                for head, rate in enumerate(own)
            ]
    columns = ["model", "layer", "head", "γ", "half-life in tokens"]
    return Table("decay", "Decay of attention", columns, rows, 4, len(rows) <= MOST_ROWS)


def _summary(
    subjects: Sequence[Subject],
    read: Sequence[Read],
    options: AttentionOptions,
    kernels: Mapping[str, Templates],
    gated: Mapping[str, Floats],
) -> list[str]:
    sentences = []
    for subject, own in zip(subjects, read, strict=True):
        name = subject.evaluated.name
        source = f"wrote itself (seed {own.seed})" if options.midi is None else f"was given ({options.midi.name})"
        sentences.append(
            f"{name} reads {len(own.tokens):,} tokens that it {source}; it was trained on {subject.trained:,}."
        )
        sentences.append(_glance(name, own))
        if name in kernels:
            size, error = (
                math.sqrt(float(np.square(part).mean())) for part in (kernels[name].closed, kernels[name].errors())
            )
            realizations = subject.evaluated.model.config.num_realizations
            sentences.append(
                f"Its kernels have a root mean square of {size:.2f}; a draw of {realizations} realisations differs "
                f"from them by {error:.2f}."
            )
        if name in gated:
            means = gated[name].mean(-1)
            sentences.append(
                f"Its gates are {means.mean():.2f} on average, from {means.min():.2f} in the most positional head to "
                f"{means.max():.2f} in the least."
            )
    return sentences


def _glance(name: str, read: Read) -> str:
    """Where queries beyond the trained length look, compared with those within."""
    means = {queries: mean_look([look[queries] for look in read.looks.values()]) for queries in read.even}
    if "beyond" not in means:
        return f"The piece is not longer than the training windows of {name}."
    beyond = means["beyond"]
    within = f", queries within {means['within'].distance:.0f}" if "within" in means else ""
    text = f"Queries beyond the trained length look {beyond.distance:.0f} tokens back on average{within}"
    if math.isnan(beyond.edge):
        return f"{text}."
    layer, head = max(read.looks, key=lambda place: read.looks[place]["beyond"].edge)
    most = read.looks[layer, head]["beyond"].edge
    return (
        f"{text}. They give keys around the end of the trained length {beyond.edge:.2f} times the attention of an even "
        f"spread, at most {most:.2f} times (layer {layer}, head {head})."
    )
