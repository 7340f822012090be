"""What models cost on this machine: size, memory, and the time of a training step and of a generated token.

Design note: each model is measured in its own process, so its peak memory is its own. The models take turns in several
rounds and the best round counts, because other programs may disturb a round. Compare only times within one table.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import functional as F

from musicgen.errors import UserError
from musicgen.evaluation import Progress
from musicgen.evaluation.report.drawing import colour, label, new_figure, render, tidy
from musicgen.evaluation.report.findings import Cell, Findings, Picture, Table
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.model.size import FLOAT, count_parameters, state_bytes
from musicgen.runtime import peak_memory
from musicgen.subprocess_call import SubprocessCall

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HOURS = 3600.0
TERABYTE = 1 << 20  # megabytes: in effect no limit but the machine's
TOKENS = 64
"""Generated at a time. They span several blocks of positional codes, so the cost of making these is included."""
BEATS_PER_TOKEN = 1 / 12
"""Beats per token, for models that work in musical time: about as in real music."""


class Subject(NamedTuple):
    """A model to measure: its name, its config, and the length and number of windows in a training step."""

    name: str
    config: PerformerConfig
    length: int
    batch: int


class Cost(NamedTuple):
    """What one turn measured: seconds for a training step, peak GB in training, seconds for a generated token."""

    step: float
    memory: float
    token: float


def measure(config: dict[str, Any], length: int, batch: int, repeats: int, threads: int) -> Cost:
    """Measure a model once, in its own process. The best of the timed steps counts; one before them is not timed."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = PerformerLM(PerformerConfig(**config))
    step = min(_times(training_step(model, length, batch), repeats))
    memory = peak_memory()
    return Cost(step, memory, min(_times(_generate(model.eval()), repeats)) / TOKENS)


def training_step(model: PerformerLM, length: int, batch: int) -> Callable[[], object]:
    """A step as in training (forward, backward, Adam), on random tokens, with new noise each time."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(model.config.vocab_size, (batch, length + 1))
    times = (torch.arange(length) * BEATS_PER_TOKEN).expand(batch, -1)
    seeds = itertools.count()

    def step() -> None:
        logits = model(tokens[:, :-1], model.draw(next(seeds)), times=times)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def _generate(model: PerformerLM) -> Callable[[], object]:
    """Generate tokens of one piece, one after the other."""
    token = torch.zeros(1, dtype=torch.long)

    def steps() -> None:
        state = model.init_state(model.draw(0))
        for number in range(TOKENS):
            _, state = model.step(token, state, torch.tensor([number * BEATS_PER_TOKEN]))

    return steps


def _times(work: Callable[[], object], repeats: int) -> list[float]:
    work()
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return times


def measure_all(
    subjects: Sequence[Subject],
    repeats: int,
    rounds: int,
    threads: int,
    progress: Progress,
) -> list[Cost]:
    """The best of each model's turns."""
    turns: dict[str, list[Cost]] = {}
    for subject in progress([subject for _ in range(rounds) for subject in subjects], rounds * len(subjects), "turn"):
        child = SubprocessCall(measure, HOURS, TERABYTE)
        try:
            cost = child(dataclasses.asdict(subject.config), subject.length, subject.batch, repeats, threads)
        except UserError as error:
            raise UserError(
                f"{subject.name} could not be measured: {error}; fewer threads= or a smaller batch= may help"
            ) from None
        finally:
            child.close()
        turns.setdefault(subject.name, []).append(Cost(*cost))
    return [Cost(*map(min, zip(*turns[subject.name], strict=True))) for subject in subjects]


def findings(subjects: Sequence[Subject], costs: Sequence[Cost], rounds: int, threads: int) -> Findings:
    """Findings on measured models."""
    summary = [
        f"A training step is forward, backward and Adam, in float32, with threads={threads} of the CPU; "
        f"times are the best of {rounds} rounds. Memory is the peak of the process in training, "
        "including Python and torch. A token is generated alone, without masks.",
        *([_comparison(subjects, costs)] if len(subjects) > 1 else []),
    ]
    return Findings(
        kind="resources",
        title="Resources",
        summary=summary,
        tables=[_table(subjects, costs)],
        pictures=[_picture(subjects, costs)],
    )


def _seconds_a_token(subject: Subject, cost: Cost) -> float:
    return cost.step / (subject.batch * subject.length)


def _comparison(subjects: Sequence[Subject], costs: Sequence[Cost]) -> str:
    seconds = list(map(_seconds_a_token, subjects, costs))
    ratios = [f"{each / seconds[0]:.2f} for {subject.name}" for subject, each in zip(subjects, seconds, strict=True)]
    return f"Training time for a token, relative to {subjects[0].name} = 1: {', '.join(ratios[1:])}."


def _table(subjects: Sequence[Subject], costs: Sequence[Cost]) -> Table:
    rows: list[list[Cell]] = []
    for subject, cost in zip(subjects, costs, strict=True):
        counts = count_parameters(subject.config)
        total = sum(counts.values())
        size = [total, counts["positional encoding"], FLOAT * total / 1e6, state_bytes(subject.config) / 1e6]
        speed = [cost.step, round(1 / _seconds_a_token(subject, cost)), cost.memory, 1e3 * cost.token]
        rows.append([subject.name, *size, f"{subject.batch} × {subject.length:,}", *speed])
    columns = [
        "model", "parameters", "of the encoding", "weights (MB)", "state of a piece (MB)", "a step's windows",
        "training step (s)", "tokens/s in training", "memory in training (GB)", "generated token (ms)",
    ]  # fmt: skip
    return Table("resources", "Size, speed and memory on this machine", columns, rows)


def _picture(subjects: Sequence[Subject], costs: Sequence[Cost]) -> Picture:
    panels = {
        "training, ms per token": [1e3 * each for each in map(_seconds_a_token, subjects, costs)],
        "memory in training, GB": [cost.memory for cost in costs],
        "generated token, ms": [1e3 * cost.token for cost in costs],
    }
    figure = new_figure(10, 1.2 + 0.36 * len(subjects))
    drawn = figure.subplots(1, len(panels), sharey=True)
    for number, (axes, (title, values)) in enumerate(zip(drawn, panels.items(), strict=True)):
        _bars(axes, title, values, colour(number))
    drawn[0].set_yticks(range(len(subjects)), [label(subject.name) for subject in subjects])
    drawn[0].invert_yaxis()
    return render(figure, "resources", "Time and memory of training, and time of a generated token, by model")


def _bars(axes: Axes, title: str, values: Sequence[float], shade: str) -> None:
    axes.barh(range(len(values)), values, color=shade, height=0.6)
    for place, value in enumerate(values):
        axes.annotate(f"{value:.3g}", (value, place), (3, 0), textcoords="offset points", va="center", size=8)
    axes.set_title(title, size=10)
    axes.margins(x=0.15)
    tidy(axes, grid="x")
