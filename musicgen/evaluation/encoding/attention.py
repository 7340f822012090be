"""What models attend to in a piece.

Design note: maps are made one at a time and kept as small images. Forty maps of a long piece would not fit into memory
as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from musicgen.data.batches import times_of
from musicgen.errors import UserError
from musicgen.evaluation import Progress
from musicgen.evaluation.encoding.attention_options import AttentionOptions
from musicgen.evaluation.encoding.focus import Look, Looks, even_spread, looks
from musicgen.evaluation.encoding.kernels import choose
from musicgen.evaluation.encoding.maps import (
    Levels,
    attending_layers,
    pooled,
    to_levels,
)
from musicgen.evaluation.models import EvaluatedModel, window_of

PAPER_LAYERS = (1, 3, 12, 20, 24)
MOST_HEADS = 8
MOST_TOKENS = 8192  # a map of twice as many would take a gigabyte
LARGEST_SIDE = 512  # pixels of a map that can be explored
PAGE_BYTES = 12_000_000  # of all maps, at most
TRIES = 8  # pieces that are written until one is long enough


@dataclass(frozen=True)
class Subject:
    """A model and what to look at in it, counted from 1."""

    evaluated: EvaluatedModel
    trained: int
    layers: Sequence[int]
    heads: Sequence[int]
    picks: Sequence[tuple[int, int]]
    """Heads and features of kernels."""


@dataclass(frozen=True)
class Read:
    """What a model attended to in a piece: maps as levels, and summaries, by layer and head counted from 1."""

    tokens: Sequence[int]
    seed: int
    maps: Mapping[tuple[int, int], Levels]
    looks: Looks
    even: Mapping[str, Look]


def subject_of(evaluated: EvaluatedModel, options: AttentionOptions) -> Subject:
    """Choose what to look at in a model.

    Raises:
        UserError: It does not have such layers, heads or features, or its trained length is not known.
    """
    config = evaluated.model.config
    shape = {"layers": config.num_layers, "heads": config.num_heads, "features": config.head_features}
    for name, most in shape.items():
        asked = getattr(options, name) or ()
        if any(number > most for number in asked):
            raise UserError(f"{name}={max(asked)}: {evaluated.name} has {most}")
    heads = list(options.heads or range(1, min(config.num_heads, MOST_HEADS) + 1))
    all_heads, all_features = range(1, config.num_heads + 1), range(1, config.head_features + 1)
    kernels = (options.heads or all_heads, options.features or all_features) if config.is_stochastic else ((), ())
    picks = choose(*kernels, options.templates, options.seed)
    layers = list(options.layers or usual_layers(config.num_layers))
    trained = window_of(evaluated, options.trained)
    if (options.tokens or trained * 3 // 2) > MOST_TOKENS:
        raise UserError(f"tokens: a map of more than {MOST_TOKENS:,} tokens is too large; give tokens={MOST_TOKENS}")
    return Subject(evaluated, trained, layers, heads, picks)


def usual_layers(many: int) -> list[int]:
    """The paper's layers 1, 3, 12, 20 and 24 of 24, in proportion; all if there are few."""
    if many <= len(PAPER_LAYERS):
        return list(range(1, many + 1))
    return sorted({1, *(round(layer * many / PAPER_LAYERS[-1]) for layer in PAPER_LAYERS[1:])})


def piece_of(subject: Subject, options: AttentionOptions) -> tuple[list[int], int]:
    """The tokens of the piece and its seed: from the file, or written by the model.

    A model may end a piece early. It writes several; the first that is long enough is taken, or else the longest.
    """
    length = options.tokens or subject.trained * 3 // 2
    music_model = subject.evaluated.music_model
    if options.midi is not None:
        return list(music_model.language.read_prompt(options.midi, None).tokens)[:length], options.seed
    longest, own = list[int](), options.seed
    for seed in range(options.seed, options.seed + TRIES):
        tokens = list(music_model.generate(tokens=length, seed=seed, draw=options.seed).tokens)[:length]
        if len(tokens) > len(longest):
            longest, own = tokens, seed
        if len(longest) == length:
            break
    return longest, own


def read_pieces(subjects: Sequence[Subject], options: AttentionOptions, progress: Progress) -> list[Read]:
    """What each model attends to in its piece."""
    total = sum(len(subject.layers) * len(subject.heads) for subject in subjects)
    # A noisy map takes a byte for each pixel, and half of a map is empty.
    side = min(LARGEST_SIDE, int(math.sqrt(2 * PAGE_BYTES / total)))
    written = [piece_of(subject, options) for subject in subjects]
    pieces = [tokens for tokens, _ in written]
    found: list[tuple[dict[tuple[int, int], Levels], dict[tuple[int, int], dict[str, Look]]]] = [
        ({}, {}) for _ in subjects
    ]
    for number, place, levels, look in progress(_maps(subjects, pieces, options, side), total, "map"):
        found[number][0][place], found[number][1][place] = levels, look
    return [
        Read(tokens, seed, maps, own, looks(even_spread(len(tokens)), subject.trained))
        for subject, (tokens, seed), (maps, own) in zip(subjects, written, found, strict=True)
    ]


def _maps(
    subjects: Sequence[Subject], pieces: Sequence[list[int]], options: AttentionOptions, side: int
) -> Iterator[tuple[int, tuple[int, int], Levels, dict[str, Look]]]:
    for number, (subject, tokens) in enumerate(zip(subjects, pieces, strict=True)):
        model, draw = subject.evaluated.model, subject.evaluated.model.draw(options.seed)
        times = times_of(subject.evaluated.language, np.array([tokens]))
        attending = attending_layers(model, tokens, draw, [layer - 1 for layer in subject.layers], times)
        for layer in subject.layers:
            for head in subject.heads:
                attention = attending[layer - 1].map(head - 1, options.kind)
                look = looks(attention, subject.trained)
                yield number, (layer, head), pooled(to_levels(attention), side), look
