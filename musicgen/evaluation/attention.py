"""What models attend to: their learned kernels, gates and decays, and the attention maps of a piece.

The hard choice: maps are made one at a time and kept as levels of colour, small enough to be looked at. Forty maps of a
long piece would not fit in memory as numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.errors import UserError
from musicgen.evaluation.attention_looks import Look, Looks, even_spread, looks, looks_tables, mean_look
from musicgen.evaluation.attention_maps import Levels, MapKind, attending_layers, level_values, pooled, to_levels
from musicgen.evaluation.findings import Cell, Explorer, Findings, Picture, Table
from musicgen.evaluation.models import Judged, window_of
from musicgen.evaluation.templates import Floats, Templates, choose, decays, gates, templates

Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]
PAPER_LAYERS = (1, 3, 12, 20, 24)
MOST_HEADS = 8
MOST_TOKENS = 8192  # a map of twice as many would take a gigabyte
LARGEST_SIDE = 512  # pixels of a map that can be explored
PAGE_BYTES = 12_000_000  # of all maps, at most
TRIES = 8  # pieces that are written until one is long enough
MATRIX_SIDE = 256  # queries and keys of a kernel's picture: fewer pixels would alias its waves
MOST_ROWS = 48  # of a table that people are shown


@dataclass(frozen=True)
class Wish:
    """What is to be looked at; numbers are counted from 1, and None is what is usual.

    Attributes:
        layers, heads: Of maps.
        features: Of kernels, together with `heads`.
        templates: How many kernels.
        draws: How many draws kernels are compared with.
        midi: The piece; None: each model writes one.
        tokens: How long the piece is; None: 1.5 times the trained length.
        kind: Of maps.
        seed: Of the piece, the picks and the noise.
        trained: Tokens of a training window, for bundles that do not say.
    """

    layers: Sequence[int] | None
    heads: Sequence[int] | None
    features: Sequence[int] | None
    templates: int
    draws: int
    midi: Path | None
    tokens: int | None
    kind: MapKind
    seed: int
    trained: int | None


@dataclass(frozen=True)
class Subject:
    """A model, and what of it is looked at, counted from 1."""

    judged: Judged
    trained: int
    layers: Sequence[int]
    heads: Sequence[int]
    picks: Sequence[tuple[int, int]]
    """Heads and features of kernels."""


@dataclass(frozen=True)
class Read:
    """What a model attended to in a piece: maps as levels, and looks, by layer and head counted from 1."""

    tokens: Sequence[int]
    seed: int
    maps: Mapping[tuple[int, int], Levels]
    looks: Looks
    even: Mapping[str, Look]


def subject_of(judged: Judged, wish: Wish) -> Subject:
    """What of a model is looked at.

    Raises:
        UserError: It does not have what is asked for, or its training is not known.
    """
    config = judged.model.config
    shape = {"layers": config.num_layers, "heads": config.num_heads, "features": config.head_features}
    for name, most in shape.items():
        asked = getattr(wish, name) or ()
        if any(number > most for number in asked):
            raise UserError(f"{name}={max(asked)}: {judged.name} has {most}")
    heads = list(wish.heads or range(1, min(config.num_heads, MOST_HEADS) + 1))
    all_heads, all_features = range(1, config.num_heads + 1), range(1, config.head_features + 1)
    kernels = (wish.heads or all_heads, wish.features or all_features) if config.is_stochastic else ((), ())
    picks = choose(*kernels, wish.templates, wish.seed)
    layers = list(wish.layers or usual_layers(config.num_layers))
    trained = window_of(judged, wish.trained)
    if (wish.tokens or trained * 3 // 2) > MOST_TOKENS:
        raise UserError(f"tokens: a map of more than {MOST_TOKENS:,} tokens is too large; give tokens={MOST_TOKENS}")
    return Subject(judged, trained, layers, heads, picks)


def usual_layers(many: int) -> list[int]:
    """The paper's 1, 3, 12, 20 and 24 of 24 layers, in proportion; all if there are few."""
    if many <= len(PAPER_LAYERS):
        return list(range(1, many + 1))
    return sorted({1, *(round(layer * many / PAPER_LAYERS[-1]) for layer in PAPER_LAYERS[1:])})


def piece_of(subject: Subject, wish: Wish) -> tuple[list[int], int]:
    """The tokens of the piece, and its seed: those of the file, or else those that the model writes.

    A model may end a piece early. The first of some that is long enough is taken, or else the longest.

    Raises:
        UserError: The file cannot be used.
    """
    length = wish.tokens or subject.trained * 3 // 2
    composer = subject.judged.composer
    if wish.midi is not None:
        return list(composer.dialect.read_prompt(wish.midi, None).tokens)[:length], wish.seed
    longest, own = list[int](), wish.seed
    for seed in range(wish.seed, wish.seed + TRIES):
        tokens = list(composer.generate(tokens=length, seed=seed, draw=wish.seed).tokens)[:length]
        if len(tokens) > len(longest):
            longest, own = tokens, seed
        if len(longest) == length:
            break
    return longest, own


def read_pieces(subjects: Sequence[Subject], wish: Wish, progress: Progress) -> list[Read]:
    """What each model attends to in its piece."""
    total = sum(len(subject.layers) * len(subject.heads) for subject in subjects)
    # Noise takes a byte a pixel and half of a map is empty.
    side = min(LARGEST_SIDE, int(math.sqrt(2 * PAGE_BYTES / total)))
    written = [piece_of(subject, wish) for subject in subjects]
    pieces = [tokens for tokens, _ in written]
    found: list[tuple[dict[tuple[int, int], Levels], dict[tuple[int, int], dict[str, Look]]]] = [
        ({}, {}) for _ in subjects
    ]
    for number, place, levels, look in progress(_maps(subjects, pieces, wish, side), total, "map"):
        found[number][0][place], found[number][1][place] = levels, look
    return [
        Read(tokens, seed, maps, own, looks(even_spread(len(tokens)), subject.trained))
        for subject, (tokens, seed), (maps, own) in zip(subjects, written, found, strict=True)
    ]


def _maps(
    subjects: Sequence[Subject], pieces: Sequence[list[int]], wish: Wish, side: int
) -> Iterator[tuple[int, tuple[int, int], Levels, dict[str, Look]]]:
    for number, (subject, tokens) in enumerate(zip(subjects, pieces, strict=True)):
        model = subject.judged.model
        attending = attending_layers(model, tokens, model.draw(wish.seed), [layer - 1 for layer in subject.layers])
        for layer in subject.layers:
            for head in subject.heads:
                attention = attending[layer - 1].map(head - 1, wish.kind)
                look = looks(attention, subject.trained)
                yield number, (layer, head), pooled(to_levels(attention), side), look


def attention_findings(
    subjects: Sequence[Subject], read: Sequence[Read], wish: Wish, settings: Mapping[str, Any]
) -> Findings:
    """What was found, the kernels among it."""
    from musicgen.evaluation import attention_pictures as drawn  # matplotlib: seconds that a mistake should not take

    files = _file_names([subject.judged.name for subject in subjects])
    pictures: list[Picture] = []
    kernels: dict[str, Templates] = {}
    for subject, file in zip(subjects, files, strict=True):
        name = subject.judged.name
        if subject.picks:
            side = min(subject.trained, MATRIX_SIDE)
            model = subject.judged.model
            kernels[name] = templates(model, subject.picks, subject.trained, side, wish.draws, wish.seed)
            pictures.append(drawn.draw_templates(f"templates{file}", name, kernels[name]))
            pictures.append(drawn.draw_matrices(f"matrices{file}", name, kernels[name]))
    decayed = {
        subject.judged.name: rates for subject in subjects if (rates := decays(subject.judged.model)) is not None
    }
    gated = {subject.judged.name: deltas for subject in subjects if (deltas := gates(subject.judged.model)) is not None}
    if decayed:
        reaches = [subject.trained for subject in subjects if subject.judged.name in decayed]
        pictures.append(drawn.draw_decays(decayed, reaches))
    if gated:
        pictures.append(drawn.draw_gates(gated))
    explorers = []
    for subject, own, file in zip(subjects, read, files, strict=True):
        length, name = len(own.tokens), subject.judged.name
        pictures.append(drawn.draw_maps(f"maps{file}", name, own.maps, length, subject.trained))
        explorers.append(_explorer(f"explore{file}", subject, own, wish.kind))
    found = {subject.judged.name: (own.looks, own.even) for subject, own in zip(subjects, read, strict=True)}
    return Findings(
        kind="attention",
        title="Attention: learned kernels, gates and maps",
        summary=_summary(subjects, read, wish, kernels, gated),
        settings=settings,
        tables=[*looks_tables(found), *_kernel_table(kernels), *_gate_table(gated), *_decay_table(decayed)],
        pictures=pictures,
        explorers=explorers,
        details={"pieces": {subject.judged.name: own.tokens for subject, own in zip(subjects, read, strict=True)}},
    )


def _file_names(models: Sequence[str]) -> list[str]:
    """What is added to the names of a model's files; nothing if it is the only one."""
    if len(models) == 1:
        return [""]
    plain = ["_" + re.sub(r"[^0-9A-Za-z-]+", "-", name) for name in models]
    return plain if len(set(plain)) == len(plain) else [f"{name}-{number}" for number, name in enumerate(plain, 1)]


def _explorer(name: str, subject: Subject, read: Read, kind: MapKind) -> Explorer:
    words = "exp(q·k/√E), each row divided by its sum" if kind == "exact" else "what its random features gave"
    names = subject.judged.language.vocabulary.to_names(read.tokens)
    return Explorer(
        name,
        f"Attention of {subject.judged.name} in a piece of {len(read.tokens):,} tokens",
        {"layer": [str(layer) for layer in subject.layers], "head": [str(head) for head in subject.heads]},
        {(str(layer), str(head)): levels for (layer, head), levels in read.maps.items()},
        level_values(),
        extent=(len(read.tokens), len(read.tokens)),
        labels=names,
        note=f"Attention is {words}. Colours are the paper's, min(1, a^0.4 / 0.02^0.4): the brightest stands for 0.02 "
        "and all above. Where a map is made smaller, a cell has the largest attention of those it stands for. "
        f"Training was on {subject.trained:,} tokens.",
    )


def _kernel_table(kernels: Mapping[str, Templates]) -> list[Table]:
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
    return [Table("templates", title, columns, rows, shown=len(rows) <= MOST_ROWS)] if rows else []


def _gate_table(gated: Mapping[str, Floats]) -> list[Table]:
    rows: list[list[Cell]] = [
        [name, layer + 1, head + 1, *(float(number) for number in (own.mean(), own.min(), own.max()))]
        for name, deltas in gated.items()
        for layer, heads in enumerate(deltas)
        for head, own in enumerate(heads)
    ]
    title = "Gates: δ over the features of each head; 0 is all positional, 1 blind to positions"
    columns = ["model", "layer", "head", "mean", "lowest", "highest"]
    return [Table("gates", title, columns, rows, shown=len(rows) <= MOST_ROWS)] if rows else []


def _decay_table(decayed: Mapping[str, Floats]) -> list[Table]:
    rows: list[list[Cell]] = []
    for name, rates in decayed.items():
        alike = bool((rates == rates[0]).all())
        for layer, own in enumerate(rates[:1] if alike else rates):
            rows += [
                [name, "all" if alike else str(layer + 1), head + 1, float(rate), math.log(0.5) / math.log(rate)]
                for head, rate in enumerate(own)
            ]
    columns = ["model", "layer", "head", "γ", "half-life in tokens"]
    return [Table("decay", "Decay of attention", columns, rows, 4, len(rows) <= MOST_ROWS)] if rows else []


def _summary(
    subjects: Sequence[Subject],
    read: Sequence[Read],
    wish: Wish,
    kernels: Mapping[str, Templates],
    gated: Mapping[str, Floats],
) -> list[str]:
    sentences = []
    for subject, own in zip(subjects, read, strict=True):
        name = subject.judged.name
        source = f"wrote itself (seed {own.seed})" if wish.midi is None else f"was given ({wish.midi.name})"
        sentences.append(
            f"{name} reads {len(own.tokens):,} tokens that it {source}; it was trained on {subject.trained:,}."
        )
        sentences.append(_glance(name, own))
        if name in kernels:
            size, error = (
                math.sqrt(float(np.square(part).mean())) for part in (kernels[name].closed, kernels[name].errors())
            )
            realizations = subject.judged.model.config.num_realizations
            sentences.append(
                f"Of its kernels, of size {size:.2f} (root mean square), a draw of {realizations} realisations misses "
                f"{error:.2f}."
            )
        if name in gated:
            means = gated[name].mean(-1)
            sentences.append(
                f"Its gates are {means.mean():.2f} on average, from {means.min():.2f} in the most positional head to "
                f"{means.max():.2f} in the least."
            )
    return sentences


def _glance(name: str, read: Read) -> str:
    """Where queries beyond the trained length look, beside those within."""
    means = {queries: mean_look([look[queries] for look in read.looks.values()]) for queries in read.even}
    if "beyond" not in means:
        return f"The piece does not reach beyond the training of {name}."
    beyond = means["beyond"]
    within = f", those within {means['within'].distance:.0f}" if "within" in means else ""
    text = f"Queries beyond look {beyond.distance:.0f} tokens back on average{within}"
    if math.isnan(beyond.edge):
        return f"{text}."
    layer, head = max(read.looks, key=lambda place: read.looks[place]["beyond"].edge)
    most = read.looks[layer, head]["beyond"].edge
    return (
        f"{text}; to keys around the end of the trained length they give {beyond.edge:.2f} times what an even spread "
        f"would, at most {most:.2f} times (layer {layer}, head {head})."
    )
