"""What a model makes of gaps: losses of the true bars, sampled fills beside simpler ones, and what follows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.evaluation import Progress
from musicgen.evaluation.infill.excerpts import Excerpt, note_f1, pitch_class_similarity, trigram_losses
from musicgen.evaluation.likelihood.losses import losses, whole
from musicgen.languages import Tokens
from musicgen.midi.score import Score
from musicgen.sampling import MusicModel

GIVEN = ("both sides", "left side", "trigrams around")
TRUE, FILL = "true bars", "fill"


@dataclass
class Measured:
    """Sums over tokens and their numbers for each song, or values for each song.

    Attributes:
        losses: What is given, to (sum of losses, tokens), `(songs, 2)`: the loss of the true bars.
        seams: What stands in the gap, to the same of the four bars after it.
        f1: What stands in the gap, to the F1 of its notes, `(songs,)`.
        classes: What stands in the gap, to the similarity of its pitch classes, `(songs,)`.
        left_out: Sentences about songs without a sample.
    """

    losses: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    seams: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    f1: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    classes: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def measure(
    music_model: MusicModel,
    excerpts: Sequence[Excerpt],
    draws: Sequence[int],
    batch: int,
    seed: int,
    rank: int,
    progress: Progress,
) -> Measured:
    """All measurements of one model.

    Args:
        music_model: The model.
        excerpts: The passages.
        draws: Seeds of the noise, over which losses are averaged. Samples are made with the first.
        batch: Passages that are read at once.
        seed: Seed of the samples.
        rank: Of how many fills the best is measured too; 1 for none.
        progress: Shows progress.
    """
    found = Measured()
    model, clock = music_model.model, music_model.language.clock

    def read(pieces: Sequence[Tokens]) -> list[NDArray[np.float32]]:
        passages = [whole(piece) for piece in pieces]
        drawn = [losses(model, passages, model.draw(draw), batch, clock=clock) for draw in draws]
        return [np.mean(values, axis=0) for values in zip(*drawn, strict=True)]

    gapped, plain = read([item.gapped for item in excerpts]), read([item.plain for item in excerpts])
    starts = [int((item.gapped == item.infill.fill).argmax()) for item in excerpts]
    found.losses = {
        GIVEN[0]: _sums(gapped, [item.inside(item.gapped, at) for item, at in zip(excerpts, starts, strict=True)]),
        GIVEN[1]: _sums(plain, [item.inside(item.plain) for item in excerpts]),
        GIVEN[2]: np.array([(values.sum(), len(values)) for values in map(trigram_losses, excerpts)]),
    }
    made: dict[str, list[Tokens | None]] = {}
    for number in progress(range(len(excerpts)), len(excerpts), "songs"):
        item = excerpts[number]
        made.setdefault(TRUE, []).append(item.plain)
        for name, write in _writers(music_model, item, draws[0], seed + number * rank, rank).items():
            piece = None
            try:
                piece = item.with_bars(write())
            except UserError as error:  # every song gets an answer
                found.left_out.append(f"song {item.song + 1}, {name}: {error}")
            made.setdefault(name, []).append(piece)
    truths = [item.notes(item.score) for item in excerpts]
    for name, pieces in made.items():
        kept = [(item, piece) for item, piece in zip(excerpts, pieces, strict=True) if piece is not None]
        after = _sums(read([piece for _, piece in kept]), [item.after(piece) for item, piece in kept])
        found.seams[name] = np.full((len(excerpts), 2), np.nan)
        found.seams[name][[piece is not None for piece in pieces]] = after
        values = [_compare(*each) for each in zip(excerpts, pieces, truths, strict=True)]
        found.f1[name], found.classes[name] = np.array(values).T
    return found


def _writers(music_model: MusicModel, item: Excerpt, draw: int, seed: int, rank: int) -> dict[str, Callable[[], Score]]:
    """Ways to write the bars of the gap."""
    score, gap = item.score, item.gap

    def continued() -> Score:
        piece = music_model.generate(prompt=score, prompt_bars=gap.first, bars=gap.end, seed=seed, draw=draw)
        return item.language.decode(piece.tokens)

    def filled(rank: int | None = None) -> Score:
        piece = music_model.fill(score, (gap.first + 1, gap.end), seed=seed, draw=draw, rank=rank)
        return item.language.decode(piece.tokens)

    def repeated() -> Score:
        begin, end = (round(beat * score.ticks_per_beat) for beat in (item.span.start, item.span.end))
        bar = (end - begin) // gap.bars
        last = score.notes[(score.notes["start"] >= begin - bar) & (score.notes["start"] < begin)]
        copies = []
        for number in range(1, gap.bars + 1):
            copy = last.copy()
            copy["start"] += number * bar
            copy["end"] += number * bar
            copies.append(copy)
        return score.replace(notes=np.concatenate(copies))

    best = {f"best of {rank} fills": partial(filled, rank)} if rank > 1 else {}
    return {FILL: filled, **best, "continuation": continued, "bar before, repeated": repeated}


def _compare(item: Excerpt, piece: Tokens | None, truth: set[tuple[int, int, int]]) -> tuple[float, float]:
    """F1 and similarity of pitch classes with the true bars; nan if there is no piece."""
    if piece is None:
        return float("nan"), float("nan")
    score = item.language.decode(piece)
    ours = item.notes(score)
    return note_f1(ours, truth), pitch_class_similarity(ours, truth, [track.is_drum for track in score.tracks])


def _sums(values: Iterable[NDArray[np.float32]], chosen: Iterable[NDArray[np.bool_]]) -> NDArray[np.float64]:
    """Sums of the losses of chosen tokens, and their numbers, `(songs, 2)`. The first token has no loss."""
    rows = [(float(loss[which[1:]].sum()), float(which[1:].sum())) for loss, which in zip(values, chosen, strict=True)]
    return np.array(rows).reshape(-1, 2)
